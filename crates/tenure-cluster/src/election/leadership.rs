//! [`Leadership`]: what a winner holds.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_store::{Check, Commit, CommitError, Conflict, Name, Range, Reason, StoreExt as _, latest};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Term, desk::Desk, grants::Grant, payload, queue};
use crate::{ClusterError, Session, node::Node};

/// An office that this process holds, until it is lost, resigned, or dropped, which resigns.
///
/// # What it promises
/// While [`remaining`](Leadership::remaining) is above zero, no other node can have been elected, unless an operator deposed this one. A commit with its
/// [`guard`](Leadership::guard) is applied only in its term, however late it arrives.
///
/// # What the caller must do
/// Stop work when it is [`lost`](Leadership::lost), or add the guard to whatever must not happen after it.
pub struct Leadership {
    node: Arc<Node>,
    desk: Desk,
    grant: Grant,
    /// Whether the office was seen in another version.
    deposed: latest::Receiver<bool>,
    watcher: JoinHandle<()>,
    /// Tells the watcher that it was dropped after a lapse. A drop may happen on any thread, where nothing can be spawned.
    abandon: Option<oneshot::Sender<()>>,
    /// Whether it was given up already.
    released: bool,
}

impl Leadership {
    pub(crate) fn new(node: Arc<Node>, desk: Desk, grant: Grant) -> Self {
        let (tell, deposed) = latest::channel(false);
        let (abandon, abandoned) = oneshot::channel();
        let (watching, leaving) = (
            watch_office(Arc::clone(&node), grant.clone(), tell),
            give_up_later(Arc::clone(&node), desk.clone(), grant.clone()),
        );
        let watcher = node.env.spawn(async move {
            tokio::select! {
                biased;
                Ok(()) = abandoned => leaving.await,
                () = watching => {}
            }
        });
        Self { node, desk, grant, deposed, watcher, abandon: Some(abandon), released: false }
    }

    /// The election.
    #[must_use]
    pub fn election(&self) -> &Name {
        &self.grant.election
    }

    /// The fencing token: greater than that of every leader before, and less than that of every leader after.
    #[must_use]
    pub fn term(&self) -> Term {
        self.grant.term
    }

    /// How often it was renewed within its term, with its session.
    #[must_use]
    pub fn renewals(&self) -> u64 {
        self.session().renewals().saturating_sub(self.grant.renewals)
    }

    /// The session that it hangs on.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.grant.hold.session()
    }

    /// For how long it holds for certain; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if *self.deposed.borrow() { Duration::ZERO } else { self.grant.hold.remaining() }
    }

    /// The end of that time, as far as is known now, since the machine was started.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.session().deadline()
    }

    /// Returns when it is lost: the session has lapsed or ended, or somebody else was put into the office.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn lost(&self) {
        let mut deposed = self.deposed.clone();
        tokio::select! {
            biased;
            () = self.grant.hold.lost() => {}
            Ok(_) = deposed.wait_for(|deposed| *deposed) => {}
        }
    }

    /// What must hold for a commit in this term's name: add it to any commit on the same store.
    #[must_use]
    pub fn guard(&self) -> Vec<Check> {
        let mut guard = self.grant.guard(&self.node.keys);
        if self.node.settings.flaws().guard_without_session {
            guard.pop();
        }
        guard
    }

    /// This commit, applied only if this term is current when it is.
    #[must_use]
    pub fn guarded(&self, commit: Commit) -> Commit {
        Commit { checks: self.guard(), writes: Vec::new() }.and(commit)
    }

    /// Publishes something that observers see with this leader, such as its address.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`] when this term is over. [`ClusterError::OutcomeUnknown`] may be tried again.
    pub async fn publish(&self, payload: impl Into<Bytes>) -> Result<(), ClusterError> {
        let key = self.node.keys.payload(self.election());
        let commit = self.guarded(Commit::new().set(key, payload::encode(self.term(), &payload.into())));
        match self.node.store.commit(commit).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict(Conflict::Check { .. })) => Err(ClusterError::Fenced(Reason::new(
                format!("term {} of election {} is over", self.term(), self.election()),
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the office up; whoever waits first gets it. Returns when that has happened.
    ///
    /// # Errors
    /// [`ClusterError::Left`] when the node leaves meanwhile, which gives up everything.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop it.
    pub async fn resign(mut self) -> Result<(), ClusterError> {
        self.released = true;
        self.desk.release(self.grant.clone(), None).await
    }

    /// Gives the office to a node that waits for it.
    ///
    /// # Errors
    /// [`ClusterError::NoCandidate`] when it does not wait for it, with the leadership, which goes on. [`ClusterError::Fenced`] when
    /// this term is over.
    ///
    /// # Cancel safety
    /// Dropping the future resigns, in favour of that node or of whoever waits first.
    pub async fn hand_over(mut self, to: &Name) -> Result<(), (ClusterError, Option<Leadership>)> {
        let found = queue::find(&self.node, self.election(), to).await;
        let candidate = match found {
            Ok(Some(candidate)) => candidate,
            Ok(None) => {
                let (election, node) = (self.election().clone(), to.clone());
                return Err((ClusterError::NoCandidate { election, node }, Some(self)));
            }
            Err(error) => return Err((error.into(), Some(self))),
        };
        match self.desk.release(self.grant.clone(), Some(candidate)).await {
            Ok(()) => {
                self.released = true;
                Ok(())
            }
            Err(error @ ClusterError::NoCandidate { .. }) => Err((error, Some(self))),
            Err(error) => {
                self.released = true;
                Err((error, None))
            }
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if self.released {
            return self.watcher.abort();
        }
        if !self.grant.hold.remaining().is_zero() {
            self.watcher.abort();
            return self.desk.release_later(self.grant.clone());
        }
        // The session has lapsed. If it goes on, so may this term: it stays ours for a while, for whoever campaigns again.
        self.desk.grants.leave(&self.grant);
        if let Some(abandon) = self.abandon.take() {
            // A watcher that is gone has seen the office pass on.
            let _ = abandon.send(());
        }
    }
}

/// Gives up an office that nobody here has taken up again a ttl after the session was valid again.
async fn give_up_later(node: Arc<Node>, desk: Desk, grant: Grant) {
    let session = grant.hold.session().clone();
    session.valid_or_ended().await;
    node.env.sleep(node.settings.ttl).await;
    if session.ended().is_none() && !desk.grants.contains(&grant.election) {
        desk.release_later(grant);
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("election", self.election())
            .field("term", &self.term())
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// Tells when the office is seen in another version.
async fn watch_office(node: Arc<Node>, grant: Grant, deposed: latest::Sender<bool>) {
    let office = grant.office(&node.keys);
    let mut watch = node.store.watch(Range::Key(office.clone()));
    loop {
        match node.store.get(&office).await {
            Ok(found) if found.as_ref().is_some_and(|found| found.version == grant.version) => {
                watch.changed().await;
            }
            Ok(_) => {
                deposed.send_replace(true);
                return;
            }
            // What can't be read is guarded by the session's deadline.
            Err(_) => node.env.sleep(node.settings.renewal_interval / 4).await,
        }
    }
}
