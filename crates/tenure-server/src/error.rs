//! What can go wrong, by what to do about it.

use std::{sync::Arc, time::Duration};

use tenure_store::{CommitError, LaneError, Name, Reason, StoreError};

use crate::StateError;

/// Why a request to a server gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There was no answer in time. The request may still be carried out.
    #[error("server {server} gave no answer within {within:?}: it may still carry out the request")]
    Timeout {
        /// The server.
        server: Name,
        /// How long it was waited.
        within: Duration,
    },
    /// It was tried as often as the policy says, and failed each time. It is a dead letter now.
    #[error(
        "server {server} failed {attempts} times to handle the request, which is a dead letter now: {error}"
    )]
    Failed {
        /// The server.
        server: Name,
        /// How often it was tried.
        attempts: u64,
        /// The last error.
        error: String,
    },
    /// The queue is at its limit. Nothing was sent; try again when it is shorter.
    #[error(
        "the queue of server {server} is full, with {limit} messages or more: send again later, or let more nodes consume"
    )]
    Full {
        /// The server.
        server: Name,
        /// The limit.
        limit: u64,
    },
    /// The server was deleted before it gave an answer. The request was not carried out; unless its answer was to come
    /// later, through a [`ReplyTo`](crate::ReplyTo): then it was, and is gone with the server.
    #[error("server {0} was deleted while the request waited")]
    Deleted(Name),
    /// The request, or its answer, is larger than the store takes. Nothing was done.
    #[error("too large: {0}")]
    TooLarge(Reason),
    /// The request breaks a rule. Nothing was done.
    #[error("invalid: {0}")]
    Invalid(Reason),
    /// The state was written under a newer schema than this release knows. Nothing was done; use a newer release.
    #[error(
        "the state of server {server} has schema {found}, and this release knows up to {known}: upgrade it"
    )]
    Newer {
        /// The server.
        server: Name,
        /// What is stored.
        found: u32,
        /// What is known.
        known: u32,
    },
    /// The answer got lost: the request may have been carried out, or may be yet. Ask the server, or send it again with the same idempotency key.
    #[error("the outcome is unknown: {0}")]
    OutcomeUnknown(Reason),
    /// The node has left the cluster, or this part of it was shut down.
    #[error("this node has left the cluster: join again")]
    Left,
    /// What is stored can't be read.
    #[error(transparent)]
    State(#[from] Arc<StateError>),
    /// It could not be done. Nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StateError> for ServerError {
    fn from(error: StateError) -> Self {
        Self::State(Arc::new(error))
    }
}

impl From<LaneError> for ServerError {
    fn from(error: LaneError) -> Self {
        match error {
            LaneError::OutcomeUnknown(reason) => Self::OutcomeUnknown(reason),
            LaneError::Failed(error) => Self::Store(error),
            LaneError::Lost { .. } => Self::Store(StoreError::unavailable(
                "the session of this node ended before it was sent: send it again",
            )),
            other => Self::Store(StoreError::unavailable(other.to_string())),
        }
    }
}

/// What it means for a request that a commit was not made.
pub(crate) fn of_commit(error: &CommitError) -> ServerError {
    match error {
        CommitError::OutcomeUnknown(reason) => ServerError::OutcomeUnknown(reason.clone()),
        CommitError::Failed(error) => ServerError::Store(error.clone()),
        other => ServerError::Store(StoreError::unavailable(other.to_string())),
    }
}
