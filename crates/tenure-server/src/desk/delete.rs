//! Deleting a server, because a callback wants it.

use std::collections::BTreeSet;

use tenure_store::{Commit, Key, Range, Write};

use super::{Desk, commit::Made, plan::Plan, refuse, run::Run, settle::End};
use crate::{Server, ServerError, due::clear_timers, keys::SWEEP, reply::Outcome};

impl<S: Server> Desk<S> {
    /// Deletes the server, and tells those who wait in its queue.
    pub(super) async fn delete(
        &mut self,
        plan: Plan<S>,
        mut run: Run<S>,
        mut made: Made,
    ) -> Result<(), ServerError> {
        let done = run.came.len();
        let timers = match clear_timers(&**self.kind.ground.store(), &self.keys).await {
            Ok(timers) => timers,
            Err(error) => {
                self.memory = None;
                self.give_back(plan.items);
                return Err(error);
            }
        };
        let deletion = self.keys.delete(Commit::new());
        let gone: Vec<Range> = deletion.writes.iter().map(Write::range).collect();
        let mut commit = std::mem::take(&mut made.commit);
        commit.writes.retain(|write| !gone.iter().any(|range| range.contains(write.range().start())));
        let mut dues: BTreeSet<Key> = timers.into_iter().collect();
        dues.extend(made.head.sweeps.iter().map(|at| self.keys.due(*at, SWEEP)));
        let written: BTreeSet<Key> =
            commit.writes.iter().map(|write| write.range().start().clone()).collect();
        commit = commit.and(deletion);
        commit = dues.difference(&written).fold(commit, |commit, due| commit.delete(due.clone()));
        made.commit = commit;
        for item in &plan.items[done..] {
            if let Some(to) = item.to {
                made.replies.entry(to.session()).or_default().push((to.slot, Outcome::Deleted));
            }
        }
        match self.send_off(&mut made).await {
            End::Done(_) => {
                self.memory = None;
                let mut items = plan.items;
                for item in items.split_off(done) {
                    refuse(item, ServerError::Deleted(self.id.clone()));
                }
                self.look = false;
                self.tell(items, &mut run, made.died, None);
                Ok(())
            }
            // What may have been done is not done again.
            end => self.fall_back(plan, end),
        }
    }
}
