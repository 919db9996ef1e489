//! [`Sweeper`]: removes what nobody needs any more, a little at a time.
//!
//! Members that are gone, and entries of the log of changes, are kept for as long as the settings say, by the clock of whoever sweeps: it removes what it has
//! itself seen for so long. A sweeper that starts anew counts anew, so things may stay longer, never shorter.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_store::{Check, Commit, CommitError, EntryId, Key, Moment, StoreError, StoreExt as _, Version};

use crate::{Member, MemberState, node::Node};

/// The most that one sweep removes of each kind, so that no sweep takes long and every store takes it in one commit.
const SWEEP_MAX: usize = 100;

/// How many entries at the head of the log are known: more would come of age between two sweeps only if nodes came and went all the time.
const HEAD_MAX: usize = 1000;

/// How many sweeps there are in the time that things are kept: what is due stays a quarter longer at most.
const SWEEPS: u32 = 4;

/// The longest pause between two sweeps, and the shortest.
const PAUSE_MAX: Duration = Duration::from_secs(600);
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Sweeps one cluster.
#[derive(Debug)]
pub(crate) struct Sweeper {
    node: Arc<Node>,
    /// Members that are gone, in the versions of their records, and since when that is known.
    gone: BTreeMap<Key, Gone>,
    /// Entries at the head of the log, and since when they are known.
    entries: BTreeMap<EntryId, Moment>,
}

#[derive(Clone, Debug)]
struct Gone {
    member: Member,
    version: Version,
    since: Moment,
}

impl Sweeper {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, gone: BTreeMap::new(), entries: BTreeMap::new() }
    }

    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        let pause = (self.node.settings.gone_kept / SWEEPS).clamp(PAUSE_MIN, PAUSE_MAX);
        loop {
            // Every node sweeps: they should not do so at once.
            self.node.env.sleep(pause + self.node.env.random_time(pause)).await;
            if let Err(error) = self.sweep().await {
                tracing::debug!(%error, "could not sweep: the next sweep tries again");
            }
        }
    }

    async fn sweep(&mut self) -> Result<(), CommitError> {
        self.sweep_members().await?;
        self.sweep_log().await
    }

    fn is_due(&self, since: Moment) -> bool {
        self.node.env.now() - since >= self.node.settings.gone_kept
    }

    async fn sweep_members(&mut self) -> Result<(), CommitError> {
        let found = self.gone_members().await?;
        let known = std::mem::take(&mut self.gone);
        for (key, mut gone) in found {
            match known.get(&key) {
                Some(known) if known.version == gone.version => gone.since = known.since,
                _ => {}
            }
            self.gone.insert(key, gone);
        }
        let due = self.gone.iter().filter(|(_, gone)| self.is_due(gone.since));
        let due: Vec<(Key, Gone)> =
            due.map(|(key, gone)| (key.clone(), gone.clone())).take(SWEEP_MAX).collect();
        for (key, gone) in due {
            // One by one: another sweeper may have been faster with any of them.
            let forgotten = gone.member.turned(MemberState::Forgotten, self.node.env.unix_time());
            let forget = Commit::new()
                .check(Check::Version(key.clone(), gone.version))
                .delete(key.clone())
                .append(self.node.keys.changes(), forgotten.encode());
            match self.node.store.commit(forget).await {
                Ok(_) | Err(CommitError::Conflict(_)) => self.gone.remove(&key),
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    async fn gone_members(&self) -> Result<Vec<(Key, Gone)>, StoreError> {
        let since = self.node.env.now();
        let mut gone = Vec::new();
        for item in self.node.scan(&self.node.keys.members()).await? {
            let member = Member::decode(&item.key, &item.value)?;
            if !member.is_here() {
                gone.push((item.key, Gone { member, version: item.version, since }));
            }
        }
        Ok(gone)
    }

    async fn sweep_log(&mut self) -> Result<(), CommitError> {
        let log = self.node.keys.changes();
        let head = self.node.store.entries(&log, HEAD_MAX.min(self.node.store.limits().page_items)).await?;
        let now = self.node.env.now();
        let known = std::mem::take(&mut self.entries);
        for entry in head.items {
            let since = known.get(&entry.id).copied().unwrap_or(now);
            self.entries.insert(entry.id, since);
        }
        let due = self.entries.iter().filter(|(_, since)| self.is_due(**since)).take(SWEEP_MAX);
        let sweep = due.fold(Commit::new(), |commit, (id, _)| commit.remove(log.clone(), id.clone()));
        if sweep.writes.is_empty() {
            return Ok(());
        }
        self.node.store.commit(sweep).await.map(|_| ())
    }
}
