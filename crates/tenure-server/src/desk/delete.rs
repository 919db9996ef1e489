//! Deleting a server, because a callback wants it.

use std::collections::BTreeSet;

use tenure_store::{Commit, Key, Limits, Range, Write};

use super::{
    Desk,
    commit::Made,
    plan::Plan,
    refuse,
    run::{Came, Run},
};
use crate::{
    Server, ServerError,
    farewell::{Farewell, TRIES_MAX},
    keys::{SWEEP, numbers_of},
};

impl<S: Server> Desk<S> {
    /// Makes a commit one that deletes the server, and tells those who wait for it, as far as it has room for that.
    pub(super) fn make_deletion(
        &self,
        plan: &Plan<S>,
        run: &Run<S>,
        made: &mut Made,
        farewell: &mut Farewell,
    ) {
        for (item, came) in plan.items.iter().zip(&run.came) {
            if let Some(to) = item.address() {
                // What has failed would have been tried again.
                farewell.set(to, matches!(came, Came::Failed) && !item.hopeless);
            }
        }
        let effects = farewell.effects || !run.effects.is_empty();
        let deletion = self.keys.delete(Commit::new(), effects, self.kind.flaws);
        let gone: Vec<Range> = deletion.writes.iter().map(Write::range).collect();
        let is_gone = |write: &Write| gone.iter().any(|range| range.contains(write.range().start()));
        let set: BTreeSet<Key> = self.dues_set(made).collect();
        let sweeps: BTreeSet<Key> = made.head.sweeps.iter().map(|at| self.keys.due(*at, SWEEP)).collect();
        let mut commit = std::mem::take(&mut made.commit);
        let is_due = |key: &Key| set.contains(key) || sweeps.contains(key);
        commit.writes.retain(|write| !is_gone(write) && !is_due(write.range().start()));
        made.late.retain(|late| !late.writes.iter().any(is_gone));
        commit.checks.extend(farewell.unchanged.take().filter(|_| self.turn.deletions <= TRIES_MAX));
        let written: BTreeSet<Key> =
            commit.writes.iter().map(|write| write.range().start().clone()).collect();
        made.commit = commit.and(deletion);
        farewell.add_dues(sweeps);
        let (answers, dues) = farewell.some(&self.room_beside(run, made));
        let dues = dues.into_iter().filter(|due| !written.contains(due));
        made.commit = dues.fold(std::mem::take(&mut made.commit), Commit::delete);
        for (session, answers) in answers {
            made.replies.entry(session).or_default().extend(answers);
        }
    }

    /// What the store takes beside what a commit has already.
    fn room_beside(&self, run: &Run<S>, made: &Made) -> Limits {
        let whole = made.whole(&self.kind.ground, &self.limits);
        let ranges = whole.writes.iter().filter(|write| matches!(write, Write::DeleteRange(_))).count();
        let operations = whole.checks.len() + whole.writes.len() + ranges;
        Limits {
            commit_operations: self.limits.commit_operations.saturating_sub(operations),
            commit_bytes: self.limits.commit_bytes.saturating_sub(run.weight),
            ..self.limits
        }
    }

    /// The server is deleted.
    pub(super) fn complete_deletion(
        &mut self,
        mut plan: Plan<S>,
        mut run: Run<S>,
        made: Made,
        farewell: Farewell,
    ) {
        (self.memory, self.look, self.turn.deletions) = (None, false, 0);
        for item in plan.items.split_off(run.came.len()) {
            refuse(item, ServerError::Deleted(self.id.clone()));
        }
        let ground = self.kind.ground.clone();
        self.kind.ground.env().spawn(async move { farewell.finish(&ground).await });
        self.tell(plan.items, &mut run, made.died, None);
    }

    /// Keys of `due` that this commit would set for timers of its own.
    fn dues_set(&self, made: &Made) -> impl Iterator<Item = Key> {
        let timers = self.keys.timers();
        let keys = made.commit.writes.iter().map(|write| write.range().start().clone());
        let set = keys.filter(move |key| timers.contains(key)).filter_map(|key| numbers_of(&key).ok());
        set.map(|(timer, at)| self.keys.due(at, timer))
    }
}
