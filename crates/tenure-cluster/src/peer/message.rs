//! [`Message`]: what a subscription receives, and who is at either end.

use std::fmt;

use bytes::Bytes;
use tenure_store::{Env, Name};

use crate::session::SessionId;

/// A node as a peer: one incarnation of it, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub node: Name,
    /// Its session. Messages are for this one and no other.
    pub session: SessionId,
    /// Where it listens for peers, as `host:port`, if it does.
    pub address: Option<String>,
}

/// Who sent a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Its name.
    pub node: Name,
    /// Its session at that time.
    pub session: SessionId,
}

/// A message that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id: the same for all who receive a broadcast.
    pub id: MessageId,
    /// Who sent it.
    pub from: Sender,
    /// What about.
    pub topic: Name,
    /// What it says.
    pub body: Bytes,
}

/// The id of a message: random, or chosen by whoever broadcasts. Prints as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId(u128);

impl MessageId {
    /// How many bytes it has.
    pub const BYTES: usize = 16;

    /// A new one.
    #[must_use]
    pub fn random(env: &Env) -> Self {
        Self(u128::from(env.random_u64()) << 64 | u128::from(env.random_u64()))
    }

    /// The id as bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_be_bytes()
    }

    /// The id that has these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}
