//! What can go wrong when links are set up and when a message is sent.

use std::{error::Error, io, net::SocketAddr};

use tenure_store::Name;

use super::Outcome;

/// Why links could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The settings break a rule, or name a file that can't be used. They will never work as they are.
    #[error("the settings of peer links are invalid: {0}")]
    Invalid(String),
    /// The address can't be listened on.
    #[error("listen for peers on {address}: {source}: choose a free port on an address of this machine")]
    Listen {
        /// Where to.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

impl LinkError {
    pub(super) fn invalid(words: impl Into<String>) -> Self {
        Self::Invalid(words.into())
    }
}

/// Why a message was not sent, or not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The body is larger than `message_bytes_max`. Nothing was sent.
    #[error(
        "send on topic {topic}: the message has {size} bytes, the largest has {limit}: send less, or raise message_bytes_max on all nodes"
    )]
    TooLarge {
        /// What about.
        topic: Name,
        /// The size of the body, in bytes.
        size: usize,
        /// The largest, in bytes.
        limit: usize,
    },
    /// There is no such member at present. Nothing was sent.
    #[error("send to {to} on topic {topic}: no such member is known here: look at the list of members")]
    NotAMember {
        /// To whom.
        to: Name,
        /// What about.
        topic: Name,
    },
    /// The peer has not confirmed it. The outcome tells whether it may have arrived all the same.
    #[error("send to {to} on topic {topic}: {outcome}")]
    NotDelivered {
        /// To whom.
        to: Name,
        /// What about.
        topic: Name,
        /// What came of it; neither `Delivered` nor `Duplicate`.
        outcome: Outcome,
    },
    /// The links were shut down. Nothing was sent.
    #[error("send on topic {topic}: the links of this node were shut down: join again to send")]
    Closed {
        /// What about.
        topic: Name,
    },
}

/// An error and what caused it, in one line: many libraries below say only in the cause what happened.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = match error.downcast_ref::<tonic::Status>() {
        Some(status) if !status.message().is_empty() => status.message().to_owned(),
        Some(status) => status.code().to_string(),
        None => error.to_string(),
    };
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    words
}
