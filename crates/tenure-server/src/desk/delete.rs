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
    farewell::Farewell,
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
            if let Some(to) = item.to.or(item.waiting.as_ref().map(|waiting| waiting.address)) {
                // What has failed would have been tried again.
                farewell.set(to, matches!(came, Came::Failed) && !item.hopeless);
            }
        }
        let deletion = self.keys.delete(Commit::new(), farewell.effects || !run.effects.is_empty());
        let gone: Vec<Range> = deletion.writes.iter().map(Write::range).collect();
        let is_gone = |write: &Write| gone.iter().any(|range| range.contains(write.range().start()));
        let own: BTreeSet<Key> = self.own_dues(made).collect();
        let mut commit = std::mem::take(&mut made.commit);
        commit.writes.retain(|write| !is_gone(write) && !own.contains(write.range().start()));
        made.late.retain(|late| !late.writes.iter().any(is_gone));
        let written: BTreeSet<Key> =
            commit.writes.iter().map(|write| write.range().start().clone()).collect();
        made.commit = own.difference(&written).cloned().fold(commit.and(deletion), Commit::delete);
        let (answers, dues) = farewell.some(&self.room_beside(run, made));
        let dues = dues.into_iter().filter(|due| !own.contains(due) && !written.contains(due));
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
        (self.memory, self.look) = (None, false);
        for item in plan.items.split_off(run.came.len()) {
            refuse(item, ServerError::Deleted(self.id.clone()));
        }
        let ground = self.kind.ground.clone();
        self.kind.ground.env().spawn(async move { farewell.finish(&ground).await });
        self.tell(plan.items, &mut run, made.died, None);
    }

    /// Keys of `due` that this commit would set or that are to be swept.
    fn own_dues(&self, made: &Made) -> impl Iterator<Item = Key> {
        let timers = self.keys.timers();
        let keys = made.commit.writes.iter().map(|write| write.range().start().clone());
        let set = keys.filter(move |key| timers.contains(key)).filter_map(|key| numbers_of(&key).ok());
        let sweeps = made.head.sweeps.iter().map(|at| (SWEEP, *at));
        set.chain(sweeps).map(|(timer, at)| self.keys.due(at, timer))
    }
}
