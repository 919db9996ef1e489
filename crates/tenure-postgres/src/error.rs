//! What PostgreSQL says when it refuses, in the words of the contract.

use std::error::Error as _;

use tenure_store::{CommitError, Conflict, Reason, StoreError};
use tokio_postgres::{
    Error,
    error::{DbError, Severity, SqlState},
};

use crate::Settings;

/// Why a connection could not be made.
pub(crate) fn connect_error(settings: &Settings, error: Error) -> StoreError {
    let Settings { user, database, .. } = settings;
    let words = match error.as_db_error().map(|answer| (answer.code(), answer)) {
        Some((code, _)) if *code == SqlState::INVALID_PASSWORD => {
            format!("PostgreSQL refused the password of user {user:?}: correct it in the URL of the store")
        }
        Some((code, answer)) if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            format!("PostgreSQL does not let user {user:?} in ({}): see its pg_hba.conf", answer.message())
        }
        Some((code, _)) if *code == SqlState::INVALID_CATALOG_NAME => {
            format!("there is no database {database:?}: create it, or name another in the URL of the store")
        }
        Some((_, answer)) => {
            let words = format!("connect to {settings}: {}", told(answer));
            return StoreError::unavailable(Reason::caused(words, error));
        }
        None => return unconnected(settings, error),
    };
    StoreError::invalid(Reason::caused(words, error))
}

/// No answer of the server's: the network, encryption, or a password that was not given.
fn unconnected(settings: &Settings, error: Error) -> StoreError {
    let words = chain(&error);
    if words.contains("password missing") {
        let words = format!("PostgreSQL wants a password of user {:?}: write it in the URL", settings.user);
        return StoreError::invalid(Reason::caused(words, error));
    }
    let words = format!("connect to {settings}: {words}");
    // The crate tells its kinds of errors apart by their words alone.
    if words.contains("TLS handshake") {
        let words = format!("{words}; see sslmode and sslrootcert");
        return StoreError::invalid(Reason::caused(words, error));
    }
    StoreError::unavailable(Reason::caused(words, error))
}

/// Why a statement that only read was not answered.
pub(crate) fn store_error(doing: &str, error: Error) -> StoreError {
    let Some(answer) = error.as_db_error() else {
        let words = format!("{doing}: {}", chain(&error));
        return StoreError::unavailable(Reason::caused(words, error));
    };
    let code = answer.code();
    let words = format!("{doing}: {}", told(answer));
    if *code == SqlState::DISK_FULL {
        return StoreError::Full(Reason::caused(words, error));
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        let words = format!("{words}; grant it as the DDL of the store says");
        return StoreError::invalid(Reason::caused(words, error));
    }
    if is_missing(code) {
        let words = format!("{words}; the schema of the store is gone or not whole: open the store again");
        return StoreError::invalid(Reason::caused(words, error));
    }
    if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
        return StoreError::corrupt(Reason::caused(words, error));
    }
    // All else may pass: a shutdown, a standby, too many connections, a time limit of the database's own.
    StoreError::unavailable(Reason::caused(words, error))
}

/// Why a commit that was sent has no receipt.
pub(crate) fn commit_error(error: Error) -> CommitError {
    let Some(answer) = error.as_db_error() else {
        let words = format!("commit: {}", chain(&error));
        return CommitError::unknown(Reason::caused(words, error));
    };
    // An error rolls the transaction back. What ends the whole connection may have come after the transaction had been made: when
    // the wait for a replica was cut short, or a pooler lost its server.
    if answer.parsed_severity() != Some(Severity::Error) {
        let words = format!("commit: {}", told(answer));
        return CommitError::unknown(Reason::caused(words, error));
    }
    let gave_way =
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE];
    if gave_way.contains(answer.code()) {
        return CommitError::Conflict(Conflict::Contention);
    }
    CommitError::Failed(store_error("commit", error))
}

/// Whether something that the store needs does not exist.
pub(crate) fn is_missing(code: &SqlState) -> bool {
    let missing = [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_FUNCTION, SqlState::INVALID_SCHEMA_NAME];
    missing.contains(code)
}

fn told(answer: &DbError) -> String {
    let hint = answer.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{} [{}]{hint}", answer.message(), answer.code().code())
}

/// An error and what caused it, in one line.
fn chain(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
