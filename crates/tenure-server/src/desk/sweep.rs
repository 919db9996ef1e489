//! Removing what was kept for long enough, a little at a time.

use tenure_store::{Commit, StoreExt as _};

use super::{Desk, commit::delete_pieces, settle::End};
use crate::{Server, ServerError, dead, keys::SWEEP, once, parcel::millis};

/// The most that one commit removes of each kind.
const SWEPT_MAX: usize = 40;

impl<S: Server> Desk<S> {
    /// Removes answers and dead letters whose time is over, as was planned for this time.
    pub(super) async fn sweep(&mut self, at: u64) -> Result<(), ServerError> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let due = self.keys.due(at, SWEEP);
        let (ground, mut head) = (self.kind.ground.clone(), memory.head.clone());
        if memory.version.is_none() || !head.sweeps.contains(&at) {
            // The server was deleted, or another has swept.
            ground
                .store()
                .commit(Commit::new().delete(due))
                .await
                .map_err(|error| crate::error::of_commit(&error))?;
            return Ok(());
        }
        let now = millis(ground.env().unix_time());
        let (mut commit, mut more) = (Commit::new().check(memory.check(&self.keys)), false);
        let limit = ground.store().limits().page_items;
        let answers = ground.store().scan(&self.keys.onces(), limit).await?;
        let mut swept = 0;
        for item in &answers.items {
            if once::read(&item.key, &item.value)?.0 <= now {
                more |= swept == SWEPT_MAX;
                if swept < SWEPT_MAX {
                    (commit, swept) = (commit.delete(item.key.clone()), swept + 1);
                }
            }
        }
        let letters = ground.store().scan(&self.keys.deads(), limit).await?;
        let mut buried = 0;
        for item in &letters.items {
            let kept = dead::read(&item.key, &item.value)?;
            let pieces = usize::try_from(kept.pieces().map_or(0, |(_, count)| count)).unwrap_or(usize::MAX);
            if kept.until_ms <= now {
                more |= buried + 1 + pieces > SWEPT_MAX && buried > 0;
                if !more {
                    commit = delete_pieces(commit.delete(item.key.clone()), &self.keys, kept.pieces());
                    buried += 1 + pieces;
                }
            }
        }
        more |= answers.more || letters.more;
        metrics::counter!("tenure_server_swept_total", "kind" => S::KIND).increment((swept + buried) as u64);
        let mark = ground.env().random_u64();
        head.mark(mark);
        if !more {
            head.sweeps.retain(|sweep| *sweep != at);
            commit = commit.delete(due);
        }
        commit = commit.set(self.keys.head.clone(), head.encode());
        match self.settle(commit, mark).await {
            End::Done(version) => {
                if let Some(memory) = &mut self.memory {
                    (memory.head, memory.version) = (head, Some(version));
                }
                if more {
                    self.sweeps.push(at);
                }
                Ok(())
            }
            End::Failed(error) => Err(error.into()),
            // It is still due.
            End::Conflict | End::NotEmpty | End::Unknown(_) => {
                self.memory = None;
                Ok(())
            }
        }
    }
}
