//! What can go wrong.

use tenure_server::ServerError;
use tenure_store::{CommitError, StoreError};

use crate::Owner;

/// Why something was not done, or is not known to be.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// What was asked for breaks a rule. Nothing was done.
    #[error("{0}")]
    Invalid(String),
    /// The name is another's. Nothing was done.
    #[error("the name {name} is taken by {by}: choose another, or wait until it is free")]
    Taken {
        /// Which.
        name: String,
        /// Whose it is.
        by: Owner,
    },
    /// It may have happened, or may happen yet. A registration that comes of it is taken back by itself.
    #[error("whether {what} is unknown: {why}: look, or try again")]
    OutcomeUnknown {
        /// What was to be done.
        what: String,
        /// Why nobody can tell.
        why: String,
    },
    /// It can't be done at present. Nothing was done; try again.
    #[error("{what} was not done: {why}: try again")]
    Unavailable {
        /// What was to be done.
        what: String,
        /// Why not.
        why: String,
    },
    /// Nobody has this name, as far as this node knows.
    #[error("nobody has the name {name}, as of batch {position}")]
    NotRegistered {
        /// Which.
        name: String,
        /// Up to which batch of the log this node knows.
        position: u64,
    },
    /// Whether somebody has this name can't be said. That is not the same as that nobody has it.
    #[error(
        "whose the name {name} is can't be proven at present: {why}: try again, or ask for what this node knows"
    )]
    Unverified {
        /// Which.
        name: String,
        /// Why not.
        why: String,
    },
    /// The registration is no more: it was taken back, or the session that it hung on has lapsed. The mailbox is closed for good with that session.
    #[error("the registration of {name} is no more: register again, with a new mailbox")]
    Lost {
        /// Of which name.
        name: String,
    },
    /// The message was not put into the mailbox.
    #[error("the message to {name} was not delivered: {why}")]
    Undelivered {
        /// To whom.
        name: String,
        /// Why not.
        why: Undelivered,
    },
    /// No answer came in time. The message may have been received, and be answered yet.
    #[error("no answer to the message to {name} came in time: it may have been received")]
    TimedOut {
        /// To whom.
        name: String,
    },
    /// The owner has received the message, and let it go without an answer.
    #[error("the message to {name} was received, and will not be answered")]
    Unanswered {
        /// By whom.
        name: String,
    },
    /// This node has left the cluster, or the registry.
    #[error("this node takes no part in the registry any more: join again")]
    Left,
    /// The store failed in a way that will not pass.
    #[error(transparent)]
    Store(StoreError),
}

/// Why a message was not put into a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undelivered {
    /// The mailbox is full.
    #[error("the mailbox is full: send less, or later")]
    Full,
    /// The registration is no more.
    #[error("the mailbox was closed: look whose the name is now")]
    Closed,
    /// The mailbox takes messages of another type.
    #[error("the mailbox does not understand it: {0}")]
    NotUnderstood(String),
    /// The owner has no address for peers, or this node has none: no message can be sent.
    #[error("{0}: give both nodes links")]
    NoWay(String),
    /// It has more bytes than links take.
    #[error(
        "it has {bytes} bytes, and the largest that links take has {most}: send less, or raise message_bytes_max on all nodes"
    )]
    TooLarge {
        /// How many it has.
        bytes: u64,
        /// How many it may have.
        most: u64,
    },
    /// The owner was not reached. **It may have been delivered.**
    #[error("the owner was not reached, it may have been delivered: {0}")]
    Unreachable(String),
}

impl RegistryError {
    /// Whether the same may succeed a little later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::OutcomeUnknown { .. }
            | Self::Unavailable { .. }
            | Self::Unverified { .. }
            | Self::TimedOut { .. } => true,
            Self::Undelivered { why, .. } => matches!(why, Undelivered::Full | Undelivered::Unreachable(_)),
            _ => false,
        }
    }

    pub(crate) fn unavailable(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Unavailable { what: what.into(), why: why.to_string() }
    }
}

impl From<StoreError> for RegistryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(_) => Self::Invalid(error.to_string()),
            error if error.is_transient() => Self::unavailable("what was asked for", error),
            error => Self::Store(error),
        }
    }
}

impl From<CommitError> for RegistryError {
    fn from(error: CommitError) -> Self {
        Self::unavailable("what was asked for", error)
    }
}

impl From<ServerError> for RegistryError {
    fn from(error: ServerError) -> Self {
        Self::unavailable("asking the elector", error)
    }
}
