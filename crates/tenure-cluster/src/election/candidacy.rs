//! [`Candidacy`]: waits for an office.
//!
//! 1. Claim it: if it is free and nobody waits, that is all.
//! 2. Else take a place in the queue.
//! 3. While somebody stands before us, wait for that one alone: for its place or its session to go. So a change wakes one candidate, not all.
//! 4. At the head, wait for the holder's session to end, or the office to change, and claim it.
//! 5. A leader that resigns puts the head of the queue into the office itself: our place is then gone, and the office is ours.
//!
//! A slow look covers whatever went wrong with any of that: if the office has been free for two of them, it is claimed out of turn.

use std::sync::Arc;

use tenure_store::{Key, Name, Range, StoreExt as _, Watch, latest};
use tokio::sync::oneshot;

use super::{
    desk::{Blocked, Claimed, Desk},
    grants::Grant,
    office::Office,
    queue::{self, Queues},
};
use crate::{Cause, ClusterError, Session, SessionId, node::Node};

/// How many slow looks in a row must find the office free before it is claimed out of turn.
const FREE_LOOKS: u32 = 2;

/// What a candidacy needs.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) node: Arc<Node>,
    pub(crate) session: latest::Receiver<Session>,
    pub(crate) desk: Desk,
    pub(crate) queues: Queues,
}

/// One wait for one office.
#[derive(Debug)]
pub(crate) struct Candidacy {
    pub(crate) standing: Standing,
    pub(crate) election: Name,
    pub(crate) priority: i32,
    /// Our place in the queue, and the session it belongs to.
    ticket: Option<(Key, SessionId)>,
    /// The session for which a place was asked for without an answer that can be relied on.
    entering: Option<Session>,
    /// What was in the way at the last look, and the watches over it.
    watching: Option<(Obstacle, Vec<Watch>)>,
    /// How many slow looks in a row found the office free.
    free_looks: u32,
}

/// What a candidate waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Obstacle {
    Holder(SessionId),
    Ahead(Key, SessionId),
    Here,
    Queue,
}

/// What ended a wait.
enum Woken {
    Something,
    SlowLook,
    SessionChanged,
}

impl Candidacy {
    pub(crate) fn new(standing: Standing, election: Name, priority: i32) -> Self {
        Self { standing, election, priority, ticket: None, entering: None, watching: None, free_looks: 0 }
    }

    /// Waits until the office is ours, and gives it to whoever asked; leaves the queue if nobody does any more.
    pub(crate) async fn run(mut self, mut answer: oneshot::Sender<Result<Grant, ClusterError>>) {
        let won = tokio::select! {
            biased;
            () = answer.closed() => None,
            won = self.wait() => Some(won),
        };
        // Whoever waits for the office should not wait for the rest.
        let won = match won {
            Some(won) => {
                if let Err(Ok(grant)) = answer.send(won) {
                    self.standing.desk.release_later(grant);
                }
                true
            }
            None => false,
        };
        self.leave_queue().await;
        if !won {
            self.give_up_if_won().await;
        }
    }

    /// Sees to it that nothing of us stays in the queue.
    async fn leave_queue(&mut self) {
        let Standing { node, queues, .. } = self.standing.clone();
        while let (None, Some(session)) = (&self.ticket, self.entering.take()) {
            match queues.enter(&self.election, &session, self.priority).await {
                Ok(key) => self.ticket = Some((key, session.id())),
                Err(ClusterError::Fenced(_) | ClusterError::Left) => return,
                Err(_) => {
                    self.entering = Some(session);
                    node.env.sleep(node.settings.renewal_interval / 4).await;
                }
            }
        }
        if let Some((key, _)) = self.ticket.take() {
            queue::withdraw(&node, &key).await;
        }
    }

    /// Whoever resigned may have put us into the office though nobody waits any more.
    async fn give_up_if_won(&self) {
        let Standing { node, desk, session, .. } = &self.standing;
        let key = node.keys.election(&self.election);
        loop {
            let own = session.borrow().id();
            match node
                .store
                .get(&key)
                .await
                .map(|found| found.map(|found| Office::decode(&key, &found.value)))
            {
                Ok(Some(Ok(Office { holder: Some(holder), .. }))) if holder.session == own => {
                    // Claiming what is ours grants it, if no other task here has it; and then it is given up.
                    if let Ok(Claimed::Granted(grant)) = desk.claim(&self.election, None).await {
                        desk.release_later(grant);
                    }
                    return;
                }
                Ok(_) => return,
                Err(_) => node.env.sleep(node.settings.renewal_interval / 4).await,
            }
        }
    }

    async fn wait(&mut self) -> Result<Grant, ClusterError> {
        loop {
            let session = self.standing.session.borrow_and_update().clone();
            session.valid_or_ended().await;
            if let Some(cause) = session.ended() {
                self.forget_session();
                if cause == Cause::Left {
                    return Err(ClusterError::Left);
                }
                if self.standing.session.changed().await.is_err() {
                    return Err(ClusterError::Left);
                }
                continue;
            }
            match self.look(&session).await {
                Ok(Ok(grant)) => return Ok(grant),
                Ok(Err(obstacle)) => self.rest(&session, obstacle).await,
                Err(error @ ClusterError::Left) => return Err(error),
                // The session has ended, or the store can't be reached; both are told elsewhere, and pass.
                Err(ClusterError::Store(error)) if !error.is_transient() => return Err(error.into()),
                Err(error) => {
                    tracing::debug!(%error, election = %self.election, "a candidate could not look: it is tried again");
                    let pause = self.standing.node.settings.renewal_interval / 4;
                    self.standing.node.env.sleep(pause / 2 + self.standing.node.env.random_time(pause)).await;
                }
            }
        }
    }

    fn forget_session(&mut self) {
        (self.ticket, self.entering, self.watching, self.free_looks) = (None, None, None, 0);
    }

    /// Claims the office if it is our turn; else tells what is in the way.
    async fn look(&mut self, session: &Session) -> Result<Result<Grant, Obstacle>, ClusterError> {
        let Standing { node, desk, queues, .. } = self.standing.clone();
        if let Some((key, of)) = &self.ticket
            && (*of != session.id() || node.store.get(key).await?.is_none())
        {
            // We were put into the office, and may have lost it since; or another task here shared our place.
            (self.ticket, self.watching) = (None, None);
        }
        let ahead = match &self.ticket {
            Some((key, _)) => queue::before(&node, &self.election, key).await?,
            None => None,
        };
        let ahead = ahead.filter(|_| self.free_looks < FREE_LOOKS);
        // Also when it is not our turn: somebody may have put us into the office by a place that we no longer know of.
        let ticket = self.ticket.as_ref().filter(|_| ahead.is_none()).map(|(key, _)| key.clone());
        let blocked = match desk.claim(&self.election, ticket).await? {
            Claimed::Granted(grant) => return Ok(Ok(grant)),
            Claimed::Denied(blocked) => blocked,
        };
        if let Some(ahead) = ahead {
            return Ok(Err(Obstacle::Ahead(ahead.key, ahead.session)));
        }
        if self.ticket.is_none() {
            self.entering = Some(session.clone());
            let key = queues.enter(&self.election, session, self.priority).await?;
            (self.ticket, self.entering) = (Some((key, session.id())), None);
        }
        Ok(Err(match blocked {
            Blocked::Holder(session) => Obstacle::Holder(session),
            Blocked::Here => Obstacle::Here,
            Blocked::Queue => Obstacle::Queue,
        }))
    }

    /// Waits for what is in the way to change. The first time it only sets up the watches: what changed before them is then seen by another look.
    async fn rest(&mut self, session: &Session, obstacle: Obstacle) {
        if self.watching.as_ref().is_none_or(|(known, _)| *known != obstacle) {
            self.watching = Some((obstacle.clone(), self.watches(&obstacle)));
            return;
        }
        let woken = self.sleep(session).await;
        let free = matches!(woken, Woken::SlowLook) && self.is_free().await;
        self.free_looks = if free { self.free_looks + 1 } else { 0 };
        if matches!(woken, Woken::SessionChanged) {
            // Our place stays ours, should the session go on.
            (self.watching, self.free_looks) = (None, 0);
        }
    }

    fn watches(&self, obstacle: &Obstacle) -> Vec<Watch> {
        let node = &self.standing.node;
        let own = self.ticket.as_ref().map(|(key, _)| key.clone());
        let office = node.keys.election(&self.election);
        let others = match obstacle {
            Obstacle::Holder(holder) => vec![office, node.keys.session(*holder)],
            Obstacle::Ahead(key, session) => vec![key.clone(), node.keys.session(*session)],
            Obstacle::Here => vec![],
            Obstacle::Queue => vec![office],
        };
        others.into_iter().chain(own).map(|key| node.store.watch(Range::Key(key))).collect()
    }

    async fn sleep(&mut self, session: &Session) -> Woken {
        let node = Arc::clone(&self.standing.node);
        let mut given_back = self.standing.desk.grants.given_back();
        let here = matches!(&self.watching, Some((Obstacle::Here, _)));
        if here && !self.standing.desk.grants.contains(&self.election) {
            return Woken::Something;
        }
        let slow = node.settings.ttl + node.env.random_time(node.settings.ttl / 4);
        let watches = self.watching.as_mut().map(|(_, watches)| watches);
        tokio::select! {
            biased;
            () = session.lost() => Woken::SessionChanged,
            () = any(watches) => Woken::Something,
            _ = given_back.changed(), if here => Woken::Something,
            () = node.env.sleep(slow) => Woken::SlowLook,
        }
    }

    async fn is_free(&self) -> bool {
        let node = &self.standing.node;
        let key = node.keys.election(&self.election);
        let Ok(found) = node.store.get(&key).await else { return false };
        let Some(found) = found else { return true };
        match Office::decode(&key, &found.value) {
            Ok(Office { holder: Some(holder), .. }) => {
                matches!(node.store.get(&node.keys.session(holder.session)).await, Ok(None))
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// Returns when any of these is woken; never, if there are none.
async fn any(watches: Option<&mut Vec<Watch>>) {
    match watches.map(Vec::as_mut_slice) {
        Some([]) | None => std::future::pending().await,
        Some([one]) => one.changed().await,
        Some([one, two]) => tokio::select! {
            biased;
            () = one.changed() => {}
            () = two.changed() => {}
        },
        Some([one, two, three, ..]) => tokio::select! {
            biased;
            () = one.changed() => {}
            () = two.changed() => {}
            () = three.changed() => {}
        },
    }
}
