//! [`Members`]: who is there, and [`MemberChanges`]: who comes and goes.
//!
//! # What it promises
//! A list is one instant of the store (of a very large cluster, one instant a page). A stream of changes shows each change of each member once, in the
//! order in which they happened to it; if it was away for so long that the log of changes no longer reaches back, it shows the difference
//! instead, and says how many changes that folds into one.
//!
//! # How
//! Every commit that changes a member's record appends the record to a list, the log. Whoever follows reads the log from a little before
//! where it was, since an entry may become visible late; the revision in each record tells what was seen already. Old entries are swept.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use tenure_store::{Entry, EntryId, Item, Name, Read, StoreError, Watch};

use crate::{Cause, Keys, Member, MemberState, SessionId, node::Node, session::Beat};

/// How many entries of the log are read again: more than can be under way at once while later ones are seen.
const OVERLAP: usize = 64;

/// The members of a cluster.
#[derive(Clone, Debug)]
pub struct Members {
    node: Arc<Node>,
}

/// A member, and its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its record.
    pub member: Member,
    /// How often its session was renewed; `None` when it has ended.
    pub renewals: Option<u64>,
    /// When its session was renewed last, or ended, by the wall clock of whoever wrote it, since 1970.
    pub last_seen: Duration,
}

impl Members {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// All members, those lately gone too, by name.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read).
    pub async fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let beats = self.beats().await?;
        let members = scan(&self.node).await?;
        let listed = members.into_values().map(|member| {
            let beat = beats.get(&member.session);
            Listed {
                renewals: beat.map(|beat| beat.renewals),
                last_seen: beat.map_or(member.changed_at, |beat| beat.at),
                member,
            }
        });
        Ok(listed.collect())
    }

    async fn beats(&self) -> Result<BTreeMap<SessionId, Beat>, StoreError> {
        let found = self.node.scan(&self.node.keys.beats()).await?;
        let beat = |item: &Item| Ok((Keys::session_of(&item.key)?, Beat::decode(&item.key, &item.value)?));
        found.iter().map(beat).collect()
    }

    /// Everything that becomes of members from now on. It costs the store one watch, and reads only when something changes.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read).
    pub async fn changes(&self) -> Result<MemberChanges, StoreError> {
        let watch = self.node.store.watch(tenure_store::Range::Key(self.node.keys.changes()));
        let mut changes = MemberChanges {
            node: Arc::clone(&self.node),
            watch,
            members: BTreeMap::new(),
            recent: VecDeque::new(),
            waiting: VecDeque::new(),
            behind: false,
        };
        changes.start_anew().await?;
        changes.waiting.clear();
        Ok(changes)
    }
}

/// A change of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The record afterwards.
    pub member: Member,
    /// How many earlier changes of this member are folded into this one, because the stream was away for too long to see them.
    pub folded: u64,
}

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// A new session of the node has begun.
    Joined,
    /// Its session has not been renewed for its liveness window.
    Suspected,
    /// It renews its session again.
    Recovered,
    /// Its session has ended.
    Left(Cause),
    /// It has been gone for so long that its record was removed.
    Forgotten,
}

impl fmt::Display for MemberChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ChangeKind::Joined => write!(f, "{} joined", self.member.node),
            ChangeKind::Suspected => write!(f, "{} is suspect", self.member.node),
            ChangeKind::Recovered => write!(f, "{} is back", self.member.node),
            ChangeKind::Left(cause) => write!(f, "{} is gone ({cause})", self.member.node),
            ChangeKind::Forgotten => write!(f, "{} is forgotten", self.member.node),
        }
    }
}

/// A stream of changes; see [`Members::changes`].
#[derive(Debug)]
pub struct MemberChanges {
    node: Arc<Node>,
    watch: Watch,
    members: BTreeMap<Name, Member>,
    /// The last entries of the log that were read, the newest last.
    recent: VecDeque<EntryId>,
    /// What was found and not yet asked for.
    waiting: VecDeque<MemberChange>,
    /// Whether the log may have more than was read.
    behind: bool,
}

impl MemberChanges {
    /// Every member, as of the changes that were returned and those found with them.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<Name, Member> {
        &self.members
    }

    /// The next change. It waits out errors of the store that pass.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read), if it will not pass.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<MemberChange, StoreError> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Ok(change);
            }
            if !self.behind {
                self.watch.changed().await;
                // Remembered: whoever drops this while it reads must not lose the waking.
                self.behind = true;
            }
            self.catch_up().await?;
            self.behind = false;
        }
    }

    /// Reads until there is an answer.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        while let Err(error) = self.follow().await {
            if !error.is_transient() {
                return Err(error);
            }
            tracing::debug!(%error, "members can't be read at present: it is tried again");
            self.node.env.sleep(self.node.settings.renewal_interval / 4).await;
        }
        Ok(())
    }

    /// Takes in what the log has that is new, or the whole list if the log no longer reaches back.
    async fn follow(&mut self) -> Result<(), StoreError> {
        let known = self.recent.back().cloned();
        let entries = self.read_log().await?;
        let reaches = known.is_none_or(|known| entries.iter().any(|entry| entry.id == known));
        if !reaches {
            return self.start_anew().await;
        }
        let key = self.node.keys.changes();
        for entry in entries {
            let member = Member::decode(&key, &entry.value)?;
            let known = self.members.get(&member.node).map_or(0, |known| known.revision);
            if member.revision > known + 1 {
                return self.start_anew().await;
            }
            if member.revision > known {
                self.take(member);
            }
        }
        Ok(())
    }

    /// The log from a little before where it was read last, remembering its end.
    async fn read_log(&mut self) -> Result<Vec<Entry>, StoreError> {
        let (list, limit) = (self.node.keys.changes(), self.node.store.limits().page_items);
        let mut after = if self.recent.len() < OVERLAP { None } else { self.recent.front().cloned() };
        let mut entries = Vec::new();
        loop {
            let read = Read::List { list: list.clone(), after, limit };
            let snapshot = self.node.store.read(vec![read]).await?;
            let page = snapshot.list(0);
            entries.extend(page.items.iter().cloned());
            after = page.items.last().map(|entry| entry.id.clone());
            if !page.more {
                break;
            }
        }
        let known = self.recent.back().cloned();
        let newer = entries.iter().filter(|entry| known.as_ref().is_none_or(|known| entry.id > *known));
        self.recent.extend(newer.map(|entry| entry.id.clone()));
        self.recent.drain(..self.recent.len().saturating_sub(OVERLAP));
        Ok(entries)
    }

    /// Reads the whole list, and finds what is different.
    async fn start_anew(&mut self) -> Result<(), StoreError> {
        // The log first: what it gets later is then newer than the list, or in it already.
        self.recent.clear();
        self.read_log().await?;
        let there = scan(&self.node).await?;
        let missing = self.members.values().filter(|member| !there.contains_key(&member.node));
        let missing: Vec<Member> =
            missing.map(|member| member.turned(MemberState::Forgotten, member.changed_at)).collect();
        // Whatever differs is newer than what was known: revisions start again when a record was removed in between.
        let differs = |member: &Member| self.members.get(&member.node) != Some(member);
        let different: Vec<Member> = there.into_values().filter(differs).collect();
        missing.into_iter().chain(different).for_each(|member| self.take(member));
        Ok(())
    }

    /// Takes in a record that is newer than the known one.
    fn take(&mut self, member: Member) {
        let before = match member.state {
            MemberState::Forgotten => self.members.remove(&member.node),
            _ => self.members.insert(member.node.clone(), member.clone()),
        };
        let known = before.as_ref().map_or(0, |before| before.revision);
        let same = before.is_some_and(|before| before.session == member.session);
        let kind = match member.state {
            MemberState::Live if same => ChangeKind::Recovered,
            MemberState::Live => ChangeKind::Joined,
            MemberState::Suspect => ChangeKind::Suspected,
            MemberState::Gone(cause) => ChangeKind::Left(cause),
            MemberState::Forgotten => ChangeKind::Forgotten,
        };
        let folded = member.revision.saturating_sub(known + 1);
        self.waiting.push_back(MemberChange { kind, member, folded });
    }
}

/// Every member's record, by node.
async fn scan(node: &Node) -> Result<BTreeMap<Name, Member>, StoreError> {
    let found = node.scan(&node.keys.members()).await?;
    let member = |item: &Item| {
        let member = Member::decode(&item.key, &item.value)?;
        Ok((member.node.clone(), member))
    };
    found.iter().map(member).collect()
}
