//! What SQLite's errors mean for a store.

use rusqlite::ErrorCode;
use tenure_store::{Reason, StoreError};

/// The meaning of an error that left nothing changed.
pub(crate) fn store_error(doing: &str, error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    let reason = Reason::caused(format!("{doing}: {error}"), error);
    match code {
        Some(ErrorCode::DiskFull) => StoreError::Full(reason),
        // A missing table or a value of the wrong type: somebody else has been at the file.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) | None => {
            StoreError::Corrupt(reason)
        }
        Some(ErrorCode::TooBig) => StoreError::TooLarge(reason),
        _ => StoreError::Unavailable(reason),
    }
}
