//! [`StateError`]: why a state could not be saved, loaded, migrated or undone.

use std::{error::Error, sync::Arc};

use tenure_store::{Reason, StoreError};

/// Why a state could not be saved, loaded, migrated or undone. **Nothing in the store was changed**, always: this module never writes.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// What is stored is not what was ever written, or was written by a release that this one knows nothing of. An operator has to look.
    #[error("corrupt: {0}")]
    Corrupt(Reason),
    /// The state can't be stored as it is. Undo what was done to it.
    #[error("too large: {0}")]
    TooLarge(Reason),
    /// A value refused to be encoded. Undo what was done to the state.
    #[error("not encoded: {0}")]
    Encode(Reason),
    /// A migration refused.
    #[error("the migration of the state from version {from} failed: {source}")]
    Migration {
        /// The version that it was asked to start from.
        from: u32,
        /// What it said.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A tracked collection was replaced as a whole, and the old one is gone. Load the state again.
    #[error("not undone: {0}")]
    Replaced(Reason),
}

impl StateError {
    pub(super) fn corrupt(reason: impl Into<Reason>) -> Self {
        Self::Corrupt(reason.into())
    }

    /// What a migration answered: its own refusal, or what it ran into while it read the old parts.
    pub(super) fn migration(from: u32, source: Box<dyn Error + Send + Sync>) -> Self {
        match source.downcast::<StateError>() {
            Ok(own) => *own,
            Err(source) => Self::Migration { from, source: source.into() },
        }
    }

    /// The kind of error as one word, for logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt(_) => "corrupt",
            Self::TooLarge(_) => "too_large",
            Self::Encode(_) => "encode",
            Self::Migration { .. } => "migration",
            Self::Replaced(_) => "replaced",
        }
    }
}

impl From<StateError> for StoreError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Corrupt(reason) => Self::Corrupt(reason),
            StateError::TooLarge(reason) => Self::TooLarge(reason),
            other => Self::Invalid(Reason::caused(other.to_string(), other)),
        }
    }
}
