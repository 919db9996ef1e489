//! Locked work: a message that is worked on outside of any commit.

use std::{fmt, sync::Arc};

use tenure_store::Name;
use tokio::task::JoinHandle;

use super::{Desk, Request, item::Body, load::Memory};
use crate::{Failure, Fold, Server, ServerError, keys::ServerKeys, kind::Kind, parcel::Parcel};

/// A message whose locked work is to be done.
pub struct Locked<S: Server> {
    /// What was asked.
    pub request: LockedRequest<S>,
    /// How often its work has failed before.
    pub attempt: usize,
    kind: Arc<Kind<S>>,
    id: Name,
    keys: Arc<ServerKeys>,
    token: u64,
}

/// What was asked by a message whose locked work is to be done.
pub enum LockedRequest<S: Server> {
    /// A call: it is answered by the fold.
    Call(Arc<S::Call>),
    /// A cast.
    Cast(Arc<S::Cast>),
}

impl<S: Server> Locked<S> {
    /// The name of the server.
    #[must_use]
    pub fn id(&self) -> &Name {
        &self.id
    }

    /// A number that is greater each time that work of this server is begun: what it writes elsewhere can be fenced by it.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The state as it is now. Priority messages may change it while the work goes on.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn state(&self) -> Result<S::State, ServerError> {
        Ok(Memory::<S>::load(&self.kind.ground, &self.id, &self.keys).await?.state.into_state())
    }
}

impl<S: Server> fmt::Debug for Locked<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("id", &self.id).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl<S: Server> fmt::Debug for LockedRequest<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call(_) => "Call",
            Self::Cast(_) => "Cast",
        })
    }
}

/// Work that is being done.
pub(crate) struct Worker<S: Server> {
    pub(crate) token: u64,
    /// The message.
    pub(crate) parcel: Parcel,
    task: JoinHandle<()>,
    server: std::marker::PhantomData<fn() -> S>,
}

impl<S: Server> Drop for Worker<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What came of it.
pub(crate) struct Worked<S: Server> {
    pub(crate) token: u64,
    /// What it found, or why it failed; `None` if the claim was lost.
    pub(crate) outcome: Option<Result<Arc<Fold<S>>, String>>,
}

impl<S: Server> Desk<S> {
    /// Begins the work of a message that was just claimed.
    pub(crate) fn begin_work(&mut self, token: u64, parcel: Parcel, body: &Body<S>) {
        let request = match body {
            Body::Call(call) => LockedRequest::Call(Arc::clone(call)),
            Body::Cast(cast) => LockedRequest::Cast(Arc::clone(cast)),
            Body::Fold(_) | Body::Broken(_) => return,
        };
        let locked = Locked {
            request,
            attempt: parcel.attempts.len(),
            kind: Arc::clone(&self.kind),
            id: self.id.clone(),
            keys: Arc::clone(&self.keys),
            token,
        };
        // While the work is done the desk stays.
        let Some(own) = self.own.upgrade() else { return };
        let (kind, message) = (Arc::clone(&self.kind), parcel.id);
        let hold = self.kind.ground.session().hold();
        let task = self.kind.ground.env().spawn(async move {
            let (done, outcome) = super::question();
            let worker = Arc::clone(&kind);
            // In a task of its own, so that a panic is an outcome.
            let work = kind.ground.env().spawn(async move {
                let span =
                    tracing::debug_span!("server.locked", kind = S::KIND, server = %locked.id, message);
                let fold = tracing::Instrument::instrument(worker.server.handle_locked(locked), span).await;
                // The desk may be gone.
                let _ = done.send(fold);
            });
            let abort = AbortOnDrop(work);
            let outcome = tokio::select! {
                biased;
                () = hold.lost() => None,
                fold = outcome => Some(fold.unwrap_or_else(|_| Err(Failure::new("the work panicked")))),
            };
            drop(abort);
            let outcome = outcome.map(|fold| fold.map(Arc::new).map_err(|failure| failure.to_string()));
            // It is there: it has the one that this is sent to.
            let _ = own.send(Request::Worked(Worked { token, outcome })).await;
        });
        self.worker = Some(Worker { token, parcel, task, server: std::marker::PhantomData });
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
