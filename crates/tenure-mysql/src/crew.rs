//! [`Crew`]: requests that wait, and the tasks that serve them, each with a session of its own.
//!
//! A task is started when there is a request and not yet a task for each session that there may be; it serves what waits and ends when
//! nothing does. So a caller that goes away leaves nothing half done, and an idle store has no tasks.

use std::{collections::VecDeque, fmt, future::Future, sync::Arc};

use parking_lot::Mutex;
use tenure_store::{Moment, Reason, StoreError};
use tokio::runtime::Handle;

use crate::session::{Connector, Session};

/// How many requests may wait. Each holds at most one commit or read; whoever has more under way should be told to slow down.
const WAITING_MAX: usize = 4096;

/// What a crew does.
pub(crate) trait Work: Send + Sync + 'static {
    /// What it is asked for.
    type Request: Send + 'static;

    /// Whether `next` can be served together with those taken before it.
    fn joins(&self, taken: &[Self::Request], next: &Self::Request) -> bool;

    /// Serves these requests, and gives back the session if it is still good.
    fn serve(
        &self,
        requests: Vec<Self::Request>,
        session: Option<Session>,
    ) -> impl Future<Output = Option<Session>> + Send;

    /// Tells a request that it has waited too long.
    fn refuse(&self, request: Self::Request, error: StoreError);
}

/// A queue with a bound, and at most as many tasks as there may be sessions.
pub(crate) struct Crew<W: Work>(Arc<Shared<W>>);

struct Shared<W: Work> {
    work: W,
    connector: Connector,
    runtime: Handle,
    /// How many sessions there may be.
    size: usize,
    state: Mutex<State<W::Request>>,
}

struct State<R> {
    waiting: VecDeque<(Moment, R)>,
    tasks: usize,
    /// Sessions that no task has. The one used last is taken first, so that few are used when little is to be done.
    idle: Vec<Session>,
    closed: bool,
}

impl<W: Work> Crew<W> {
    /// A crew whose tasks run where this is called.
    pub(crate) fn new(work: W, connector: &Connector, size: usize) -> Self {
        let state = State { waiting: VecDeque::new(), tasks: 0, idle: Vec::new(), closed: false };
        Self(Arc::new(Shared {
            work,
            connector: connector.clone(),
            runtime: Handle::current(),
            size,
            state: Mutex::new(state),
        }))
    }

    /// Gives it a session that was made before.
    pub(crate) fn lend(&self, session: Session) {
        self.0.state.lock().idle.push(session);
    }

    /// Asks for something; the answer comes by whatever means the request has.
    pub(crate) fn ask(&self, request: W::Request) -> Result<(), StoreError> {
        let now = self.0.connector.env.now();
        let mut state = self.0.state.lock();
        if state.closed {
            return Err(closed());
        }
        if state.waiting.len() >= WAITING_MAX {
            return Err(StoreError::unavailable(format!(
                "{WAITING_MAX} requests wait already: make fewer at once"
            )));
        }
        state.waiting.push_back((now, request));
        if state.tasks < self.0.size {
            state.tasks += 1;
            let session = state.idle.pop();
            drop(state);
            self.0.runtime.spawn(run(Arc::clone(&self.0), session));
        }
        Ok(())
    }

    /// Takes no more requests. Those that wait are served, then all sessions are closed.
    pub(crate) fn stop(&self) {
        let idle = {
            let mut state = self.0.state.lock();
            state.closed = true;
            std::mem::take(&mut state.idle)
        };
        let connector = self.0.connector.clone();
        self.0.runtime.spawn(async move {
            for session in idle {
                connector.part(session).await;
            }
        });
    }
}

impl<W: Work> Drop for Crew<W> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<W: Work> fmt::Debug for Crew<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("size", &self.0.size).finish_non_exhaustive()
    }
}

pub(crate) fn closed() -> StoreError {
    StoreError::Closed(Reason::new("it was closed by this process: open it again"))
}

impl<W: Work> Shared<W> {
    /// What a task does next.
    fn next(&self, session: &mut Option<Session>) -> Next<W::Request> {
        let now = self.connector.env.now();
        let patience = self.connector.settings.request_timeout;
        let mut state = self.state.lock();
        let mut taken = Vec::new();
        while let Some((asked, request)) = state.waiting.pop_front() {
            if now - asked > patience {
                return Next::Refuse(request);
            }
            if !taken.is_empty() && !self.work.joins(&taken, &request) {
                state.waiting.push_front((asked, request));
                break;
            }
            taken.push(request);
        }
        if !taken.is_empty() {
            return Next::Serve(taken);
        }
        // Under the same lock under which nothing was found to wait: whoever asks now starts a task anew.
        state.tasks -= 1;
        if !state.closed {
            state.idle.extend(session.take());
        }
        Next::End
    }
}

enum Next<R> {
    Serve(Vec<R>),
    Refuse(R),
    End,
}

/// Counts a task out that did not come to its end.
struct Task<'a, W: Work>(Option<&'a Shared<W>>);

impl<W: Work> Drop for Task<'_, W> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.state.lock().tasks -= 1;
        }
    }
}

async fn run<W: Work>(shared: Arc<Shared<W>>, mut session: Option<Session>) {
    let mut task = Task(Some(&*shared));
    loop {
        match shared.next(&mut session) {
            Next::Serve(requests) => session = shared.work.serve(requests, session).await,
            Next::Refuse(request) => {
                let words =
                    "it waited too long for a connection: make fewer requests at once, or raise connections";
                shared.work.refuse(request, StoreError::unavailable(words));
            }
            Next::End => break,
        }
    }
    task.0 = None;
    if let Some(session) = session {
        shared.connector.part(session).await;
    }
}
