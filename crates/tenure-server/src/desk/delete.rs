//! Deleting a server, because a callback wants it.

use std::collections::BTreeSet;

use tenure_store::{Commit, Key, Range, Write};

use super::{
    Desk,
    commit::Made,
    plan::Plan,
    refuse,
    run::{Came, Run},
    settle::End,
};
use crate::{
    Server, ServerError,
    farewell::Farewell,
    keys::{SWEEP, numbers_of},
};

impl<S: Server> Desk<S> {
    /// Deletes the server, and tells those who wait for it.
    pub(super) async fn delete(
        &mut self,
        plan: Plan<S>,
        mut run: Run<S>,
        mut made: Made,
    ) -> Result<(), ServerError> {
        let done = run.came.len();
        let mut farewell = match Farewell::read(&**self.kind.ground.store(), &self.keys).await {
            Ok(farewell) => farewell,
            Err(error) => {
                self.memory = None;
                self.give_back(plan.items);
                return Err(error);
            }
        };
        for (item, came) in plan.items.iter().zip(&run.came) {
            if let Some(to) = item.to.or(item.waiting.as_ref().map(|waiting| waiting.address)) {
                // What has failed would have been tried again.
                farewell.set(to, matches!(came, Came::Failed) && !item.hopeless);
            }
        }
        let (answers, dues) = farewell.some(&self.limits);
        let deletion = self.keys.delete(Commit::new(), farewell.effects || !run.effects.is_empty());
        let gone: Vec<Range> = deletion.writes.iter().map(Write::range).collect();
        let is_gone = |write: &Write| gone.iter().any(|range| range.contains(write.range().start()));
        let own: BTreeSet<Key> = self.own_dues(&made).collect();
        let mut commit = std::mem::take(&mut made.commit);
        commit.writes.retain(|write| !is_gone(write) && !own.contains(write.range().start()));
        made.late.retain(|late| !late.writes.iter().any(is_gone));
        let written: BTreeSet<Key> =
            commit.writes.iter().map(|write| write.range().start().clone()).collect();
        let dues: BTreeSet<Key> = dues.into_iter().chain(own).collect();
        made.commit = dues.difference(&written).cloned().fold(commit.and(deletion), Commit::delete);
        for (session, answers) in answers {
            made.replies.entry(session).or_default().extend(answers);
        }
        match self.send_off(&mut made).await {
            End::Done(_) => {
                self.memory = None;
                let mut items = plan.items;
                for item in items.split_off(done) {
                    refuse(item, ServerError::Deleted(self.id.clone()));
                }
                self.look = false;
                let ground = self.kind.ground.clone();
                self.kind.ground.env().spawn(async move { farewell.finish(&ground).await });
                self.tell(items, &mut run, made.died, None);
                Ok(())
            }
            // What may have been done is not done again.
            end => self.fall_back(plan, end),
        }
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
