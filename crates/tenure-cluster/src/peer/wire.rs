//! What is said on a link. One bidirectional stream of gRPC, the messages written by hand with the derive macro of `prost`, so that
//! nobody needs the program `protoc`.
//!
//! The side that opened the stream is the opener, the other the listener.
//!
//! ```text
//! opener                                   listener
//!   Hello: who I am, whom I want, nonce  ->
//!                                        <-  Challenge: who I am, nonce
//!   Proof                                ->
//!                                        <-  Welcome: verdict, proof
//!   Letter 0, Letter 1, ...              ->
//!                                        <-  Receipt 0, Receipt 1, ...
//! ```
//! The opener proves itself first, so that whoever merely connects is given nothing that was made with the secret. Receipts come in the order of
//! the letters, one for each. Letters go one way only: a node that wants to answer opens a stream of its own.

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};
use tenure_store::Name;

use super::MessageId;
use crate::session::SessionId;

/// The method, as HTTP has it.
pub(super) const PATH: &str = "/tenure.peer.v1.Peer/Link";

/// The version of what follows. A listener refuses others.
pub(super) const VERSION: u32 = 1;

/// What a letter has beside its body, at most: a topic of 255 bytes, an id, a seal, a number, and what marks them.
pub(super) const LETTER_BYTES_MORE: usize = 512;

#[derive(Clone, PartialEq, Message)]
pub(super) struct FromOpener {
    #[prost(oneof = "OpenerSays", tags = "1, 2, 3")]
    pub(super) says: Option<OpenerSays>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum OpenerSays {
    #[prost(message, tag = "1")]
    Hello(Hello),
    #[prost(message, tag = "2")]
    Proof(Proof),
    #[prost(message, tag = "3")]
    Letter(Letter),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FromListener {
    #[prost(oneof = "ListenerSays", tags = "1, 2, 3")]
    pub(super) says: Option<ListenerSays>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ListenerSays {
    #[prost(message, tag = "1")]
    Challenge(Challenge),
    #[prost(message, tag = "2")]
    Welcome(Welcome),
    #[prost(message, tag = "3")]
    Receipt(Receipt),
}

/// Who opens the link, and to whom. Messages on it are from that session to that session.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Hello {
    #[prost(uint32, tag = "1")]
    pub(super) version: u32,
    #[prost(string, tag = "2")]
    pub(super) cluster: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) nonce: Bytes,
    #[prost(string, tag = "4")]
    pub(super) from_node: String,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) from_session: Bytes,
    #[prost(string, tag = "6")]
    pub(super) to_node: String,
    #[prost(bytes = "bytes", tag = "7")]
    pub(super) to_session: Bytes,
}

/// Who listens in fact.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Challenge {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) nonce: Bytes,
    #[prost(string, tag = "2")]
    pub(super) node: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) session: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Proof {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) proof: Bytes,
}

/// Whether the link is open, under the listener's proof.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Welcome {
    #[prost(enumeration = "Verdict", tag = "1")]
    pub(super) verdict: i32,
    /// The largest body that the listener takes.
    #[prost(uint64, tag = "2")]
    pub(super) message_bytes_max: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) proof: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Letter {
    /// Its place on this stream, from 0.
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) id: Bytes,
    #[prost(string, tag = "3")]
    pub(super) topic: String,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) body: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) seal: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Receipt {
    /// That of the letter.
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    #[prost(enumeration = "Verdict", tag = "2")]
    pub(super) verdict: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) seal: Bytes,
}

/// What a listener thinks of a link or a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum Verdict {
    /// Never sent: what an unset field reads as.
    Nothing = 0,
    /// The link is open; the letter is in an inbox.
    Accepted = 1,
    /// The letter was accepted before.
    Duplicate = 2,
    /// Nobody subscribes to the letter's topic.
    NoSubscriber = 3,
    /// The inbox is full.
    Full = 4,
    /// The listener has another session than the one that is wanted.
    WrongSession = 5,
    /// The listener is another node than the one that is wanted.
    WrongNode = 6,
    /// The listener's membership does not show the opener's session: not yet, or no longer.
    NotKnown = 7,
    /// There are as many links as may be.
    Busy = 8,
    /// The opener has opened a newer link.
    Superseded = 9,
}

impl Verdict {
    /// The verdict as a label of metrics.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Accepted => "accepted",
            Self::Duplicate => "duplicate",
            Self::NoSubscriber => "no_subscriber",
            Self::Full => "full",
            Self::WrongSession => "wrong_session",
            Self::WrongNode => "wrong_node",
            Self::NotKnown => "not_known",
            Self::Busy => "busy",
            Self::Superseded => "superseded",
        }
    }
}

impl From<OpenerSays> for FromOpener {
    fn from(says: OpenerSays) -> Self {
        Self { says: Some(says) }
    }
}

impl From<ListenerSays> for FromListener {
    fn from(says: ListenerSays) -> Self {
        Self { says: Some(says) }
    }
}

/// The session that has these bytes, if they are as many as one has.
pub(super) fn session(bytes: &Bytes) -> Option<SessionId> {
    bytes.as_ref().try_into().ok().map(SessionId::from_bytes)
}

/// The id that has these bytes, if they are as many as one has.
pub(super) fn message_id(bytes: &Bytes) -> Option<MessageId> {
    bytes.as_ref().try_into().ok().map(MessageId::from_bytes)
}

/// The name that a text is, if it may be one.
pub(super) fn name(text: &str) -> Option<Name> {
    text.parse().ok()
}
