//! Removing what was kept for long enough, a little at a time.

use tenure_store::{Commit, CommitError, Item, Range, Store as _, StoreError, StoreExt as _, Write};

use super::{Desk, commit::delete_pieces, settle::End};
use crate::{
    Server, ServerError, dead,
    error::of_commit,
    keys::{SWEEP, ServerKeys},
    once, owed,
    parcel::millis,
};

/// The most operations that removals take of one commit: messages wait meanwhile.
const OPERATIONS_MAX: usize = 60;

/// What a commit has besides: the check of the head, the head, and the key of `due`.
const OPERATIONS_BESIDE: usize = 3;

/// A sweep that is under way.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    /// The time that it was planned for.
    pub(super) at: u64,
    /// The answers and the dead letters that were not looked at yet.
    answers: Option<Range>,
    letters: Option<Range>,
    /// The same of answers that are owed.
    owed: Option<Range>,
}

impl Sweep {
    pub(super) fn new(at: u64, keys: &ServerKeys) -> Self {
        Self { at, answers: Some(keys.onces()), letters: Some(keys.deads()), owed: Some(keys.oweds()) }
    }

    fn is_done(&self) -> bool {
        self.answers.is_none() && self.letters.is_none() && self.owed.is_none()
    }
}

/// Removals that one commit makes.
struct Removals {
    commit: Commit,
    /// How many operations there is room for.
    room: usize,
    count: u64,
}

impl Removals {
    /// Adds one. Returns whether there was room: for the first there always is, since what it removes was written by
    /// one commit.
    fn add(&mut self, removal: Commit) -> bool {
        let operations = operations(&removal.writes);
        if self.count > 0 && operations > self.room {
            return false;
        }
        self.commit = std::mem::take(&mut self.commit).and(removal);
        (self.room, self.count) = (self.room.saturating_sub(operations), self.count + 1);
        true
    }
}

impl<S: Server> Desk<S> {
    /// Removes some answers and dead letters whose time is over. What is left is done after the next turn.
    pub(super) async fn sweep(&mut self, before: Sweep) -> Result<(), ServerError> {
        let Some(memory) = &mut self.memory else { return Ok(()) };
        let due = self.keys.due(before.at, SWEEP);
        let (ground, mut head) = (self.kind.ground.clone(), memory.head.clone());
        if memory.version.is_none() || !head.sweeps.contains(&before.at) {
            // The server was deleted, or another has swept; unless that is not known here yet.
            let commit = Commit::new().check(memory.check(&self.keys)).delete(due);
            return match ground.store().commit(commit).await {
                Ok(_) => Ok(()),
                Err(CommitError::Conflict(_)) => {
                    self.memory = None;
                    self.sweeps.push(before);
                    Ok(())
                }
                Err(error) => Err(of_commit(&error)),
            };
        }
        let mut commit = Commit::new().check(memory.check(&self.keys));
        // What is new about the state (that it was migrated) belongs to the head.
        commit.writes.extend(memory.state.changes()?);
        let taken = OPERATIONS_BESIDE + operations(&commit.writes);
        let room = OPERATIONS_MAX.min(self.limits.commit_operations.saturating_sub(taken));
        let (mut sweep, mut removals) = (before.clone(), Removals { commit: Commit::new(), room, count: 0 });
        self.take_answers(&mut sweep, &mut removals).await?;
        if sweep.answers.is_none() {
            self.take_letters(&mut sweep, &mut removals).await?;
        }
        if sweep.letters.is_none() {
            self.take_owed(&mut sweep, &mut removals).await?;
        }
        if removals.count == 0 && !sweep.is_done() {
            self.sweeps.push(sweep);
            return Ok(());
        }
        let mark = ground.env().random_u64();
        head.mark(mark);
        if sweep.is_done() {
            head.sweeps.retain(|at| *at != sweep.at);
            commit = commit.delete(due);
        }
        commit = commit.and(removals.commit).set(self.keys.head.clone(), head.encode());
        match self.settle(commit, mark).await {
            End::Done(version) => {
                metrics::counter!("tenure_server_swept_total", "kind" => S::KIND).increment(removals.count);
                if let Some(memory) = &mut self.memory {
                    (memory.head, memory.version) = (head, Some(version));
                    memory.state.keep();
                }
                if !sweep.is_done() {
                    self.sweeps.push(sweep);
                }
                Ok(())
            }
            End::Failed(error) => Err(error.into()),
            End::Conflict | End::NotEmpty | End::Unknown(..) => {
                self.memory = None;
                self.sweeps.push(before);
                Ok(())
            }
        }
    }

    /// Takes answers of the next page.
    async fn take_answers(&self, sweep: &mut Sweep, removals: &mut Removals) -> Result<(), StoreError> {
        let now = millis(self.kind.ground.env().unix_time());
        let removal = |item: &Item| {
            let (until, answer) = once::read(&item.key, &item.value)?;
            let removal = || answer.forget(Commit::new().delete(item.key.clone()), &self.keys);
            Ok((until <= now).then(removal))
        };
        sweep.answers = self.take_some(sweep.answers.take(), removals, removal).await?;
        Ok(())
    }

    /// Takes dead letters of the next page.
    async fn take_letters(&self, sweep: &mut Sweep, removals: &mut Removals) -> Result<(), StoreError> {
        let now = millis(self.kind.ground.env().unix_time());
        let removal = |item: &Item| {
            let kept = dead::read(&item.key, &item.value)?;
            let removal = || delete_pieces(Commit::new().delete(item.key.clone()), &self.keys, kept.pieces());
            Ok((kept.until_ms <= now).then(removal))
        };
        sweep.letters = self.take_some(sweep.letters.take(), removals, removal).await?;
        Ok(())
    }

    /// Takes answers that are owed to callers that have given up, of the next page.
    async fn take_owed(&self, sweep: &mut Sweep, removals: &mut Removals) -> Result<(), StoreError> {
        let now = millis(self.kind.ground.env().unix_time());
        let removal = |item: &Item| {
            let until = owed::read(&item.key, &item.value)?;
            Ok((until <= now).then(|| Commit::new().delete(item.key.clone())))
        };
        sweep.owed = self.take_some(sweep.owed.take(), removals, removal).await?;
        Ok(())
    }

    /// Adds what removes the items of a page whose time is over, as far as one commit takes it. Returns the part of the
    /// range that is left.
    async fn take_some(
        &self,
        range: Option<Range>,
        removals: &mut Removals,
        removal: impl Fn(&Item) -> Result<Option<Commit>, StoreError>,
    ) -> Result<Option<Range>, StoreError> {
        let Some(mut range) = range else { return Ok(None) };
        let page = self.kind.ground.store().scan(&range, self.limits.page_items).await?;
        for item in &page.items {
            if let Some(removal) = removal(item)?
                && !removals.add(removal)
            {
                return Ok(Some(range));
            }
            range = range.after(&item.key);
        }
        Ok(page.more.then_some(range))
    }
}

/// How many operations these writes are: the deletion of a range counts as two.
fn operations(writes: &[Write]) -> usize {
    writes.len() + writes.iter().filter(|write| matches!(write, Write::DeleteRange(_))).count()
}
