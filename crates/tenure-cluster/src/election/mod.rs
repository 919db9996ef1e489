//! [`Election`]: a named office that at most one session holds.
//!
//! # What it promises
//! - At most one leader a term. Terms count 1, 2, 3, ... for each election and are never used twice.
//! - A commit that carries an older term's [`guard`](Leadership::guard) is never applied, however late it arrives.
//! - While a leader's [`remaining`](Leadership::remaining) is above zero, nobody else leads, unless an operator has deposed it.
//! - An incumbent stays: nobody who joins displaces it. Candidates are served by priority, then by arrival.
//!
//! # What is durable and what is local
//! Durable: the office (term, holder, last terms), the queue of candidates, what the leader publishes. Local: how long it holds, which follows
//! from the session.
//!
//! # Life cycle
//! 1. [`campaign`](Election::campaign) waits for the office. The winner's commit checks that the office is as it was read and the winner's session
//!    exists, and writes the next term.
//! 2. The leadership holds as long as the session does. It is never renewed by itself: one heartbeat keeps all leaderships of a node.
//! 3. It ends by resigning, which puts the first candidate into office in the same commit; by handing over to a named one; by
//!    being deposed; or with the session, and then the first candidate takes it.
//!
//! # Safety and liveness
//! Safety: the office changes only by commits that check its version, and is worth nothing without its session. Liveness: a vacant office is filled as soon as
//! the first candidate is woken, and if that one does not act, by any other within about three ttl.
//!
//! # What it never does
//! It trusts no clock, lets no two tasks of a process hold one office, and wakes nobody who could not act.
//!
//! | metric | kind | what it counts |
//! | --- | --- | --- |
//! | `tenure_election_acquisitions_total` | counter | offices won by this node |
//! | `tenure_election_conflicts_total` | counter | changes of offices that met another |

mod candidacy;
mod desk;
mod facts;
mod grants;
mod leadership;
pub(crate) mod observe;
mod office;
mod participant;
mod payload;
mod queue;

use std::sync::Arc;

use tenure_store::{Check, Commit, CommitError, Name, StoreError, StoreExt as _};
use tokio::sync::oneshot;

pub use leadership::Leadership;
pub use observe::{Led, Observation};
pub use office::{Holder, PastTerm, Term, TermEnd};
pub use participant::{Callbacks, Participant, Role};

pub(crate) use candidacy::Standing;
pub(crate) use desk::Desk;
pub(crate) use facts::Candidate;
pub(crate) use office::Office;
pub(crate) use queue::Queues;

use candidacy::Candidacy;
use desk::Claimed;

use crate::{ClusterError, SessionId, node::Node};

/// A named office of a cluster. It costs nothing to have one; clones are the same.
#[derive(Clone, Debug)]
pub struct Election {
    standing: Standing,
    name: Name,
}

impl Election {
    pub(crate) fn new(standing: Standing, name: Name) -> Self {
        Self { standing, name }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Waits until this node leads. It outlasts outages of the store, and sessions of this node.
    ///
    /// # Errors
    /// [`ClusterError::Left`] when the node leaves; errors of the store that will not pass.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue; an office that was just won is resigned.
    pub async fn campaign(&self) -> Result<Leadership, ClusterError> {
        self.campaign_with(0).await
    }

    /// The same, served before all of less priority; 0 is usual.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    ///
    /// # Cancel safety
    /// As [`Election::campaign`].
    pub async fn campaign_with(&self, priority: i32) -> Result<Leadership, ClusterError> {
        let candidacy = Candidacy::new(self.standing.clone(), self.name.clone(), priority);
        let (answer, answered) = oneshot::channel();
        // In a task of ours: what it has begun must be finished or taken back, though the caller goes away.
        self.standing.node.env.spawn(candidacy.run(answer));
        let grant = answered.await.map_err(|_| ClusterError::Left)??;
        Ok(Leadership::new(Arc::clone(&self.standing.node), self.standing.desk.clone(), grant))
    }

    /// Takes the office if it is free and nobody waits for it; `None` if not.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`] when this node has no valid session at present; errors of the store.
    ///
    /// # Cancel safety
    /// Dropping the future resigns an office that was just won.
    pub async fn try_campaign(&self) -> Result<Option<Leadership>, ClusterError> {
        match self.standing.desk.claim(&self.name, None).await? {
            Claimed::Granted(grant) => {
                let (node, desk) = (Arc::clone(&self.standing.node), self.standing.desk.clone());
                Ok(Some(Leadership::new(node, desk, grant)))
            }
            Claimed::Denied(_) => Ok(None),
        }
    }

    /// Stands for as long as the result lives, winning again after each loss, and tells of each rise and fall.
    #[must_use]
    pub fn participate(&self, priority: i32, role: Role, callbacks: Arc<dyn Callbacks>) -> Participant {
        Participant::start(self.clone(), priority, role, callbacks)
    }

    /// Returns when this session waits for the office. It waits out errors of the store.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn awaited_by(&self, session: SessionId) {
        let node = &self.standing.node;
        let mut watch = node.store.watch(node.keys.candidates(&self.name));
        loop {
            match queue::has(node, &self.name, session).await {
                Ok(true) => return,
                Ok(false) => watch.changed().await,
                Err(error) => {
                    tracing::debug!(%error, election = %self.name, "its queue can't be read: it is tried again");
                    node.env.sleep(node.settings.renewal_interval / 4).await;
                }
            }
        }
    }

    /// Who leads now.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read).
    pub async fn leader(&self) -> Result<Led, StoreError> {
        observe::read(&self.standing.node, &self.name).await.map(|(led, _)| led)
    }

    /// Who leads, from now on.
    #[must_use]
    pub fn observe(&self) -> Observation {
        Observation::new(Arc::clone(&self.standing.node), self.name.clone())
    }

    /// The last terms that are over, the newest last.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read).
    pub async fn history(&self) -> Result<Vec<PastTerm>, StoreError> {
        let key = self.standing.node.keys.election(&self.name);
        let found = self.standing.node.store.get(&key).await?;
        found.map_or(Ok(Vec::new()), |found| Ok(Office::decode(&key, &found.value)?.history))
    }

    /// Takes the office from whoever holds it; the next holder has the next term. The holder is told, but may believe for a moment that it still
    /// leads: its guarded commits are refused at once. Returns whom it was taken from, if anybody.
    ///
    /// # Errors
    /// Errors of the store. After [`ClusterError::OutcomeUnknown`], look who leads.
    pub async fn depose(&self) -> Result<Option<Holder>, ClusterError> {
        depose(&self.standing.node, &self.name).await
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.standing.node
    }
}

/// Takes the office from whoever holds it. Returns whom it was taken from, if anybody.
pub(crate) async fn depose(node: &Node, election: &Name) -> Result<Option<Holder>, ClusterError> {
    // Each conflict is another change of the office; few can happen in a row.
    const TRIES_MAX: usize = 20;
    let key = node.keys.election(election);
    for _ in 0..TRIES_MAX {
        let Some(found) = node.store.get(&key).await? else { return Ok(None) };
        let office = Office::decode(&key, &found.value)?;
        let Some(holder) = office.holder.clone() else { return Ok(None) };
        let vacant = office.vacate(TermEnd::Deposed, node.env.unix_time());
        let commit =
            Commit::new().check(Check::Version(key.clone(), found.version)).set(key.clone(), vacant.encode());
        match node.store.commit(commit).await {
            Ok(_) => {
                tracing::warn!(%election, node = %holder.node, term = office.term, "leader deposed");
                return Ok(Some(holder));
            }
            Err(CommitError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::unavailable(format!(
        "election {election} changed at every try to depose its leader: try again"
    ))
    .into())
}
