//! [`Elector`]: who leads a registry, as a durable server.
//!
//! # What it promises
//! - Members join and go one at a time, in the order of a durable queue, whichever node handles them.
//! - **Sticky**: whoever leads goes on as long as it is a member, whoever else joins.
//! - A departure that was overtaken by a new arrival of the same node changes nothing: it names the session that has gone, and another is a member.
//! - Each leader has an epoch of its own, greater than all before it.
//! - From the commit that names another leader on, nothing that the one before it writes can land: every batch checks the leader's key.
//!
//! # What is durable
//! The members (name, since when, session as the token of joining), the leader with its epoch, and a change of leader that is not finished. The leader is a field of its own, whose key is
//! exported: [`Elector::leader_key`]. It changes when the leader does, and at no other time.
//!
//! # A change of leader, step by step
//! 1. **Commit and lock.** The commit that changes the members also names the leader and its epoch, and locks the elector.
//! 2. **Snapshot.** If the new leader is brand-new, so without names of its own, the old one is asked to [transfer](Handover::from): it settles the batch that is under way, leads no longer from that step on, and says how
//!    far its names go. It can't commit what else waits for it, since the leader's key names another by now: those requests are sent again by their outboxes, to the new one, and are known there by their numbers. A leader that
//!    leaves of its own will commits them first, before anything is told to the elector. If it does not answer in time, or the new leader has followed before, it starts from its own.
//! 3. **Assume and distribute.** The new leader is told its epoch and all members. It reads the rest of the log from the store, with the leader's key at the same instant: so its names are
//!    complete, whatever its snapshot was. Then it tells all members, in the stream in which all later registrations come.
//! 4. **Release.** The work ends, and the next message is handled.
//!
//! # What holds if a step fails
//! | what fails | what holds |
//! | --- | --- |
//! | the transfer | the old leader can't commit any more, since the key has changed; the new one reads from the store |
//! | telling the new leader | it watches the key, and assumes by itself |
//! | telling a follower | it watches the key too, and reads from the store what it lacks |
//! | the node that does this work is killed | its claim ends with its session, and another node does it again |
//! | reading what is to be done | it is read again, while the elector stays locked, as long as the session of the node that does this work |
//! | all of it takes too long | each call is given up after half a second |

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tenure_cluster::{Ground, SessionId};
use tenure_server::{
    Context, Failure, Fold, Locked, Map, Never, Policy, Serve, Server, ServerError, ServerRef, State,
    state::read_field,
};
use tenure_store::{Bytes, Key, Name, StoreError};

use crate::{Owner, member::Members};

/// How long one call to a member may take while the elector is locked.
pub(crate) const CALL_TIME: Duration = Duration::from_millis(500);

/// After a failure of the store.
const PAUSE: Duration = Duration::from_millis(20);

/// What elects the leader of each registry.
pub struct Elector {
    ground: Ground,
    /// Not kept alive by this: they have the way to it.
    members: Weak<Members>,
}

/// A session, as the token that a member joined with.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token([u8; SessionId::BYTES]);

impl From<SessionId> for Token {
    fn from(session: SessionId) -> Self {
        Self(session.to_bytes())
    }
}

impl From<Token> for SessionId {
    fn from(token: Token) -> Self {
        Self::from_bytes(token.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", SessionId::from(*self))
    }
}

/// A member, in one incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberId {
    /// The name of its node.
    pub node: String,
    /// What it joined with.
    pub token: Token,
}

impl MemberId {
    /// This node in this session.
    #[must_use]
    pub fn new(node: &Name, session: SessionId) -> Self {
        Self { node: node.to_string(), token: session.into() }
    }

    /// The same as an owner of names.
    pub(crate) fn owner(&self) -> Option<Owner> {
        Some(Owner { node: self.node.parse().ok()?, session: self.token.into() })
    }
}

/// What is known about a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// When it joined, by the wall clock of the node that handled it, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it joined with.
    pub token: Token,
}

/// Who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Led {
    /// Counts the leaders.
    pub epoch: u64,
    /// The one of this epoch, while it is a member.
    pub leader: Option<MemberId>,
}

impl Led {
    pub(crate) fn read(key: &Key, value: &Bytes) -> Result<Self, StoreError> {
        read_field(key, value).map_err(|error| StoreError::corrupt(error.to_string()))
    }
}

/// A change of leader that is not finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Who is to transfer its snapshot: the old leader, if the new one is brand-new.
    pub from: Option<MemberId>,
}

/// What an elector keeps.
#[derive(Debug, Default, State)]
pub struct Council {
    /// By the names of nodes.
    #[state(parts)]
    pub members: Map<String, Joined>,
    /// Who leads.
    pub leader: Led,
    /// Who led before.
    pub last: Option<MemberId>,
    /// A change of leader that is not finished.
    pub handover: Option<Handover>,
}

/// What changes the members of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Membership {
    /// A node takes part.
    Join(MemberId),
    /// A node takes part no longer, in this incarnation.
    MemberDown(MemberId),
}

/// What an elector is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inquiry {
    /// Who leads.
    GetLeader,
    /// Who takes part.
    GetMembers,
}

/// What an elector answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answered {
    /// Who leads.
    Leader(Led),
    /// Who takes part.
    Members(Vec<(String, Joined)>),
}

impl Council {
    /// Whether a node takes part in this incarnation.
    #[must_use]
    pub fn is_member(&self, id: &MemberId) -> bool {
        self.members.get(&id.node).is_some_and(|joined| joined.token == id.token)
    }

    /// Applies a change of members, and elects. `runner` is the node on which this runs. Returns whether the leader is another.
    fn change(&mut self, membership: &Membership, runner: &MemberId, now: Duration) -> bool {
        let (joiner, others) = match membership {
            Membership::Join(id) => {
                let others = self.members.iter().any(|(node, _)| *node != id.node);
                if !self.is_member(id) {
                    let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
                    self.members.insert(id.node.clone(), Joined { at_ms, token: id.token });
                }
                (Some(id), others)
            }
            Membership::MemberDown(id) => {
                // One that was overtaken by a new arrival of its node says nothing about that.
                if !self.is_member(id) {
                    return false;
                }
                self.members.remove(&id.node);
                (None, false)
            }
        };
        if self.leader.leader.as_ref().is_some_and(|leader| self.is_member(leader)) {
            return false;
        }
        let before = self.leader.leader.take();
        if before.is_some() {
            self.last = before.clone();
        }
        let Some(next) = self.next(runner) else { return before.is_some() };
        self.leader = Led { epoch: self.leader.epoch + 1, leader: Some(next.clone()) };
        let brand_new = joiner == Some(&next) && (others || self.last.is_some());
        self.handover = Some(Handover { from: self.last.clone().filter(|_| brand_new) });
        true
    }

    /// Who is to lead: the node on which this runs, if it is a member, else the first by name.
    fn next(&self, runner: &MemberId) -> Option<MemberId> {
        if self.is_member(runner) {
            return Some(runner.clone());
        }
        self.members
            .first_key_value()
            .map(|(node, joined)| MemberId { node: node.clone(), token: joined.token })
    }
}

impl Elector {
    pub(crate) fn new(ground: Ground, members: &Arc<Members>) -> Self {
        Self { ground, members: Arc::downgrade(members) }
    }

    /// The elector of the registry of this name.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is no [`Name`].
    pub fn of(cluster: &tenure_cluster::Cluster, registry: &str) -> Result<ServerRef<Self>, StoreError> {
        cluster.server::<Self>(registry)
    }

    /// Where it is stored who leads: to be watched, or checked by commits, without asking the elector. [`Elector::leader_at`] tells what it says.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is no [`Name`].
    pub fn leader_key(cluster: &tenure_cluster::Cluster, registry: &str) -> Result<Key, StoreError> {
        Ok(Self::of(cluster, registry)?.field_key("leader"))
    }

    /// What the leader's key says.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is something else.
    pub fn leader_at(key: &Key, value: &Bytes) -> Result<Led, StoreError> {
        Led::read(key, value)
    }

    /// What electors are called as a kind of servers.
    pub(crate) fn kind() -> Name {
        #[allow(clippy::unwrap_used, reason = "it is a name")]
        Self::KIND.parse().unwrap()
    }

    fn me(&self) -> MemberId {
        MemberId::new(&self.ground.settings().node, self.ground.session().id())
    }

    /// What is known, read until the store answers: work that fails is put off, and what comes behind it would be handled before. It ends with the claim, so with the session.
    async fn council(&self, locked: &Locked<Self>) -> Result<Council, ServerError> {
        loop {
            match locked.state().await {
                Err(ServerError::Store(error)) if error.is_transient() => {
                    self.ground.env().sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }
}

impl Server for Elector {
    const KIND: &'static str = "tenure/elector";
    /// A change of leader must not wait long, and what it says is worth nothing later.
    const POLICY: Policy = Policy {
        attempts_max: 20,
        retry_first: Duration::from_millis(20),
        retry_most: Duration::from_secs(1),
        ..Policy::DEFAULT
    };
    type State = Council;
    type Call = Inquiry;
    type Reply = Answered;
    type Cast = Membership;
    type Effect = Never;

    fn handle_call(
        &self,
        council: &mut Council,
        inquiry: &Inquiry,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<Answered>, Failure> {
        Ok(Some(match inquiry {
            Inquiry::GetLeader => Answered::Leader(council.leader.clone()),
            Inquiry::GetMembers => Answered::Members(
                council.members.iter().map(|(node, joined)| (node.clone(), joined.clone())).collect(),
            ),
        }))
    }

    fn handle_cast(
        &self,
        council: &mut Council,
        membership: &Membership,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        let mut changed = council.change(membership, &self.me(), context.now());
        if self.members.upgrade().is_some_and(|members| members.flaws().down_without_token)
            && let Membership::MemberDown(id) = membership
            && let Some(joined) = council.members.get(&id.node).cloned()
        {
            let present = MemberId { node: id.node.clone(), token: joined.token };
            changed |= council.change(&Membership::MemberDown(present), &self.me(), context.now());
        }
        if changed && council.leader.leader.is_some() {
            context.lock()?;
        }
        Ok(())
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        let council = self.council(&locked).await?;
        let epoch = council.leader.epoch;
        if let (Some(handover), Some(leader), Some(here)) =
            (&council.handover, &council.leader.leader, self.members.upgrade())
        {
            let registry = locked.id();
            let snapshot = match &handover.from {
                Some(old) => here.transfer_snapshot(registry, old, epoch).await,
                None => None,
            };
            let members = council
                .members
                .iter()
                .map(|(node, joined)| MemberId { node: node.clone(), token: joined.token });
            let members = members.filter_map(|member| member.owner()).collect();
            here.assume_and_distribute(registry, leader, epoch, snapshot.unwrap_or(0), members).await;
        }
        Ok(Fold::new(move |council: &mut Council, _: &mut Context<'_, Self>| {
            if council.leader.epoch == epoch {
                council.handover = None;
            }
            Ok(None)
        }))
    }
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector").field("me", &self.me()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
