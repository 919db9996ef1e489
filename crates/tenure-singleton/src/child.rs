//! [`Child`], [`Running`]: the work itself.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use tenure_store::{Env, Moment, latest};
use tokio::{
    sync::oneshot,
    task::{AbortHandle, JoinHandle},
};

use crate::{ChildEnd, Mandate, mandate::Terms};

/// What a child may return: nothing, or a result whose error is told.
pub trait Outcome: Send + 'static {
    /// The error's words, if it is one.
    fn error(self) -> Option<String>;
}

impl Outcome for () {
    fn error(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display + Send + 'static> Outcome for Result<(), E> {
    fn error(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

type Work = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Makes the work of a child, each time that it is started.
pub(crate) struct Child<M>(Arc<dyn Fn(M) -> Work + Send + Sync>);

impl<M> Clone for Child<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Child<M> {
    pub(crate) fn new<F, W>(make: F) -> Self
    where
        F: Fn(M) -> W + Send + Sync + 'static,
        W: Future<Output: Outcome> + Send + 'static,
    {
        Self(Arc::new(move |mandate| {
            let work = make(mandate);
            Box::pin(async move { work.await.error() })
        }))
    }
}

impl<M> fmt::Debug for Child<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Child")
    }
}

/// What a follower child gets: it may run until it is cancelled.
#[derive(Clone, Debug)]
pub struct Standby {
    cancelled: latest::Receiver<bool>,
}

impl Standby {
    /// Returns when the work is to end.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        // Whoever could cancel it is gone: then it must end as well.
        let _ = cancelled.wait_for(|cancelled| *cancelled).await;
    }
}

/// A child that runs. Dropping it aborts it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) started: Moment,
    task: JoinHandle<()>,
    abort: AbortHandle,
    told: oneshot::Receiver<Option<String>>,
    cancel: latest::Sender<bool>,
}

impl Running {
    pub(crate) fn leader(child: &Child<Mandate>, terms: Terms, env: &Env) -> Self {
        let (cancel, cancelled) = latest::channel(false);
        Self::start(child, Mandate::new(terms, cancelled), cancel, env)
    }

    pub(crate) fn follower(child: &Child<Standby>, env: &Env) -> Self {
        let (cancel, cancelled) = latest::channel(false);
        Self::start(child, Standby { cancelled }, cancel, env)
    }

    fn start<M: Send + 'static>(
        child: &Child<M>,
        mandate: M,
        cancel: latest::Sender<bool>,
        env: &Env,
    ) -> Self {
        let (tell, told) = oneshot::channel();
        let child = child.clone();
        let task = env.spawn(async move {
            // In the task: a panic in the making of the work is the child's too.
            let error = (child.0)(mandate).await;
            // Nobody listens any more when the singleton itself is gone.
            let _ = tell.send(error);
        });
        Self { started: env.now(), abort: task.abort_handle(), task, told, cancel }
    }

    /// Asks it to end.
    pub(crate) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// Ends it at its next `.await`.
    pub(crate) fn abort(&self) {
        self.abort.abort();
    }

    /// Returns when no part of it runs any more.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn ended(&mut self) -> ChildEnd {
        match (&mut self.task).await {
            Ok(()) => match self.told.try_recv() {
                Ok(None) => ChildEnd::Done,
                Ok(Some(error)) => ChildEnd::Failed(error),
                // A task that a simulation has killed.
                Err(_) => ChildEnd::Aborted,
            },
            Err(error) if error.is_panic() => ChildEnd::Panicked,
            Err(_) => ChildEnd::Aborted,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
