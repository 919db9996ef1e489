//! [`Wire`]: how registries of different nodes reach each other.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use tenure_cluster::peer::{Links, Message, Outcome, SendError, Subscription};
use tenure_store::Name;

/// The way to other nodes. [`Links`] are one; a simulation has another.
///
/// # Obligations
/// Messages from one session to another on one topic arrive in the order in which they were sent, at most once each, and never at another session than the
/// one that the sender's membership showed. Any of them may get lost. A sender that is told `Ok` knows that it arrived in an [`Incoming`] there.
#[async_trait]
pub trait Wire: fmt::Debug + Send + Sync + 'static {
    /// Sends to a member, and returns when it has arrived.
    ///
    /// # Errors
    /// Why it is not known to have arrived.
    async fn send(&self, to: &Name, topic: &Name, body: Bytes) -> Result<(), Undelivered>;

    /// Receives what is sent on a topic from now on.
    fn receive(&self, topic: &Name) -> Box<dyn Incoming>;

    /// The most bytes of one message.
    fn message_bytes_max(&self) -> usize;
}

/// What receives from a [`Wire`].
#[async_trait]
pub trait Incoming: Send {
    /// The next message; nothing when there will be none.
    async fn next(&mut self) -> Option<Message>;
}

/// Why a message is not known to have arrived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undelivered {
    /// It has not arrived, and trying again is of no use while nothing changes: there is no such member, or it has no address.
    #[error("{0}")]
    Never(String),
    /// It has not arrived: nobody receives there at present, or there is no room.
    #[error("{0}")]
    Refused(String),
    /// It may have arrived.
    #[error("{0}")]
    Unknown(String),
}

#[async_trait]
impl Wire for Links {
    async fn send(&self, to: &Name, topic: &Name, body: Bytes) -> Result<(), Undelivered> {
        Links::send(self, to, topic, body).await.map_err(|error| {
            let words = error.to_string();
            match error {
                SendError::NotDelivered { outcome: Outcome::TimedOut | Outcome::Unreachable(_), .. } => {
                    Undelivered::Unknown(words)
                }
                SendError::NotDelivered { outcome: Outcome::NoSubscriber | Outcome::Refused(_), .. } => {
                    Undelivered::Refused(words)
                }
                _ => Undelivered::Never(words),
            }
        })
    }

    fn receive(&self, topic: &Name) -> Box<dyn Incoming> {
        Box::new(self.subscribe(topic))
    }

    fn message_bytes_max(&self) -> usize {
        Links::message_bytes_max(self)
    }
}

#[async_trait]
impl Incoming for Subscription {
    async fn next(&mut self) -> Option<Message> {
        self.recv().await
    }
}
