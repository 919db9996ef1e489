//! Making a server, before messages are taken from the store for it.
//!
//! A commit to a server proves by its head that nothing was deleted since the queue was read. That there is no head proves
//! nothing: messages to a server that does not exist yet can be deleted, and one that was made meanwhile too. So the first
//! commit takes no message. The queue is read again under the head that it makes.

use bytes::Bytes;
use tenure_store::{Check, Commit, Store as _};

use super::{Desk, load::View, plan::Plan};
use crate::{Server, ServerError, error::of_commit, head::Head, parcel::millis};

impl<S: Server> Desk<S> {
    /// Whether there is something to take for a server that does not exist.
    pub(super) fn is_unborn(&self, view: Option<&View>) -> bool {
        let waits = |view: &View| !view.queue.entries.is_empty() || !view.urgent.entries.is_empty();
        self.version().is_none() && view.is_some_and(waits)
    }

    /// Makes the server, and marks it as having work: should all be deleted before it is read again, somebody must look.
    pub(super) async fn be_born(&mut self, mut plan: Plan<S>) -> Result<(), ServerError> {
        plan.head.owner = Some(self.me());
        let now = millis(self.kind.ground.env().unix_time());
        let mark = Commit::new().set(self.keys.work.clone(), Bytes::copy_from_slice(&now.to_be_bytes()));
        self.announce_with(&mut plan, mark).await.map(|_| ())
    }

    /// Whether a server was made for messages that were deleted before.
    pub(super) fn is_stillborn(&self, plan: &Plan<S>) -> bool {
        let head = &plan.head;
        let made = Head { marks: head.marks.clone(), owner: head.owner, ..Head::new(head.schema) };
        let is_made = head.owner.is_some() && head.marks.len() == 1 && *head == made;
        is_made && plan.items.is_empty() && plan.urgent.entries.is_empty() && self.waiting.is_empty()
    }

    /// Unmakes it, unless something was sent to it by now.
    pub(super) async fn unmake(&mut self) -> Result<(), ServerError> {
        let Some(memory) = self.memory.take() else { return Ok(()) };
        let commit = [&self.keys.queue, &self.keys.urgent, &self.keys.effects]
            .into_iter()
            .fold(Commit::new().check(memory.check(&self.keys)), |commit, list| {
                commit.check(Check::Empty(list.clone()))
            })
            .delete(self.keys.head.clone())
            .delete_range(self.keys.state().range());
        match self.kind.ground.store().commit(commit).await {
            Ok(_) => Ok(()),
            // Whatever came of it, the next look tells.
            Err(error) => {
                tracing::debug!(kind = S::KIND, server = %self.id, %error, "a server without messages is still there");
                match of_commit(&error) {
                    error @ ServerError::Store(_) => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }
}
