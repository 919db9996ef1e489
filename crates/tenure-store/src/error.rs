//! What can go wrong, by what to do about it.

use std::{error::Error, sync::Arc};

use crate::Key;

/// Why something could not be done. **Nothing was changed**, always: an error that leaves this open is not a
/// `StoreError` but [`CommitError::OutcomeUnknown`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store can't be reached or is too busy at present. The same request may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(Reason),
    /// The request breaks a rule. It will never succeed as it is.
    #[error("invalid: {0}")]
    Invalid(Reason),
    /// The request is larger than [`Limits`](crate::Limits) allow. It will never succeed as it is.
    #[error("too large: {0}")]
    TooLarge(Reason),
    /// The store has no room left. Free some, then the same request may succeed.
    #[error("the store is full: {0}")]
    Full(Reason),
    /// This handle was closed. Open the store again.
    #[error("the store is closed: {0}")]
    Closed(Reason),
    /// What is stored is not what was ever written. An operator has to look.
    #[error("corrupt: {0}")]
    Corrupt(Reason),
}

/// Why a commit gave no receipt.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A check did not hold, or the store gave way to a concurrent commit. Nothing was written. Read again, decide again.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The answer was lost: the commit may have happened, may yet happen, or may never happen. A
    /// [`Lane`](crate::Lane) finds out.
    #[error("the outcome of a commit is unknown: {0}")]
    OutcomeUnknown(Reason),
    /// It could not be done. Nothing was written.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// A commit that was refused because of the state it met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// This check did not hold at the instant of the commit. (Others may not have held either.)
    #[error("check {index} did not hold, on {key}")]
    Check {
        /// Its place among the commit's checks, from 0.
        index: usize,
        /// The key or list it speaks of.
        key: Key,
    },
    /// The store gave way to a concurrent commit. Every check may still hold.
    #[error("the store gave way to a concurrent commit")]
    Contention,
}

/// What was being done and what went wrong, in words, with the cause below it where there is one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{words}")]
pub struct Reason {
    words: String,
    /// Shared, since one failure may answer many requests.
    #[source]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Reason {
    /// A reason in words alone.
    pub fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), source: None }
    }

    /// A reason with the error that caused it. The words should hold what a reader needs of it.
    pub fn caused(words: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self { words: words.into(), source: Some(Arc::new(source)) }
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(words: T) -> Self {
        Self::new(words)
    }
}

impl StoreError {
    /// An [`StoreError::Unavailable`] with this reason.
    pub fn unavailable(reason: impl Into<Reason>) -> Self {
        Self::Unavailable(reason.into())
    }

    /// An [`StoreError::Invalid`] with this reason.
    pub fn invalid(reason: impl Into<Reason>) -> Self {
        Self::Invalid(reason.into())
    }

    /// An [`StoreError::TooLarge`] with this reason.
    pub fn too_large(reason: impl Into<Reason>) -> Self {
        Self::TooLarge(reason.into())
    }

    /// An [`StoreError::Corrupt`] with this reason.
    pub fn corrupt(reason: impl Into<Reason>) -> Self {
        Self::Corrupt(reason.into())
    }

    /// Whether the same request may succeed by itself a little later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// The kind of error as one word, for logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Invalid(_) => "invalid",
            Self::TooLarge(_) => "too_large",
            Self::Full(_) => "full",
            Self::Closed(_) => "closed",
            Self::Corrupt(_) => "corrupt",
        }
    }
}

impl CommitError {
    /// A [`CommitError::OutcomeUnknown`] with this reason.
    pub fn unknown(reason: impl Into<Reason>) -> Self {
        Self::OutcomeUnknown(reason.into())
    }

    /// The kind of error as one word, for logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "conflict",
            Self::OutcomeUnknown(_) => "unknown",
            Self::Failed(error) => error.kind(),
        }
    }
}
