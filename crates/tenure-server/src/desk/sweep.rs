//! Removing what was kept for long enough, a little at a time.

use tenure_store::{Commit, Item, Range, Store, StoreError, StoreExt as _};

use super::{Desk, commit::delete_pieces, settle::End};
use crate::{
    Server, ServerError, dead,
    keys::SWEEP,
    once::{self, Answer},
    parcel::millis,
};

/// The most that one commit removes of each kind.
const SWEPT_MAX: usize = 30;

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
        let mut commit = Commit::new().check(memory.check(&self.keys));
        let store = ground.store();
        let is_over = |item: &Item| once::read(&item.key, &item.value).map(|(until, _)| until <= now);
        let (answers, more_answers) = due_items(&**store, &self.keys.onces(), is_over).await?;
        let is_over = |item: &Item| dead::read(&item.key, &item.value).map(|kept| kept.until_ms <= now);
        let (letters, more_letters) = due_items(&**store, &self.keys.deads(), is_over).await?;
        let (mut more, mut swept) = (more_answers || more_letters, 0);
        let mut pieces = 0;
        for item in answers {
            commit = match once::read(&item.key, &item.value)?.1 {
                Answer::Here(_) => commit,
                Answer::InPieces { number, count } => {
                    pieces += count;
                    delete_pieces(commit, &self.keys, Some((number, count)))
                }
                Answer::Later(number) => commit.delete_range(self.keys.pieces(number)),
            };
            (commit, swept) = (commit.delete(item.key), swept + 1);
            if pieces > SWEPT_MAX as u64 {
                more = true;
                break;
            }
        }
        for item in letters {
            let kept = dead::read(&item.key, &item.value)?;
            pieces += kept.pieces().map_or(0, |(_, count)| count);
            if pieces > SWEPT_MAX as u64 && swept > 0 {
                more = true;
                break;
            }
            commit = delete_pieces(commit.delete(item.key), &self.keys, kept.pieces());
            swept += 1;
        }
        metrics::counter!("tenure_server_swept_total", "kind" => S::KIND).increment(swept);
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

/// The first items in a range of which this is so, no more than are swept at once, and whether there are others.
async fn due_items(
    store: &dyn Store,
    range: &Range,
    is_due: impl Fn(&Item) -> Result<bool, StoreError>,
) -> Result<(Vec<Item>, bool), StoreError> {
    let (mut range, mut due) = (range.clone(), Vec::new());
    loop {
        let page = store.scan(&range, store.limits().page_items).await?;
        let last = page.items.last().map(|item| item.key.clone());
        for item in page.items {
            if is_due(&item)? {
                if due.len() == SWEPT_MAX {
                    return Ok((due, true));
                }
                due.push(item);
            }
        }
        match last {
            Some(last) if page.more => range = range.after(&last),
            _ => return Ok((due, false)),
        }
    }
}
