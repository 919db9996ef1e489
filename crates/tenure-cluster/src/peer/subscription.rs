//! [`Subscription`]: what receives the messages of one topic.

use std::{fmt, sync::Arc};

use tenure_store::Name;
use tokio::sync::mpsc;

use super::{
    Message,
    inboxes::{Inboxes, Stored},
    measures,
};

/// A subscription to a topic. It has an inbox of its own, and gets every message that comes while it exists and there is room.
pub struct Subscription {
    inboxes: Arc<Inboxes>,
    topic: Name,
    number: u64,
    queue: mpsc::Receiver<Stored>,
}

impl Subscription {
    pub(super) fn new(inboxes: &Arc<Inboxes>, topic: &Name) -> Self {
        let (number, queue) = inboxes.open(topic);
        Self { inboxes: Arc::clone(inboxes), topic: topic.clone(), number, queue }
    }

    /// The next message; those of one sender's session in the order in which it sent them. Nothing when the links were shut down.
    ///
    /// What was for an earlier session of this node and not received before it joined again is never given.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv(&mut self) -> Option<Message> {
        loop {
            let stored = self.queue.recv().await?;
            if self.inboxes.is_present(stored.to) {
                return Some(stored.message);
            }
            measures::dropped("wrong_session");
        }
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &Name {
        &self.topic
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.inboxes.remove(&self.topic, self.number);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("topic", &self.topic).finish_non_exhaustive()
    }
}
