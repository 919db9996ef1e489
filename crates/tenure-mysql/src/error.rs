//! What the server's errors mean for a store.

use mysql_async::{DriverError, Error};
use tenure_store::{CommitError, Conflict, Reason, StoreError};

/// Codes of the server that have a meaning here. Both servers use the same, with few exceptions that are told.
mod code {
    pub(super) const DISK_FULL: u16 = 1021;
    pub(super) const RECORD_CHANGED: u16 = 1020;
    pub(super) const TOO_MANY_CONNECTIONS: u16 = 1040;
    pub(super) const DATABASE_DENIED: u16 = 1044;
    pub(super) const ACCESS_DENIED: u16 = 1045;
    /// Galera: the node is not part of a majority, or not in step yet.
    pub(super) const NOT_READY: u16 = 1047;
    pub(super) const UNKNOWN_DATABASE: u16 = 1049;
    pub(super) const TABLE_FULL: u16 = 1114;
    pub(super) const HOST_NOT_ALLOWED: u16 = 1130;
    pub(super) const TABLE_DENIED: u16 = 1142;
    pub(super) const COLUMN_DENIED: u16 = 1143;
    pub(super) const NO_TABLE: u16 = 1146;
    pub(super) const LOCK_WAIT: u16 = 1205;
    pub(super) const DEADLOCK: u16 = 1213;
    pub(super) const RIGHT_MISSING: u16 = 1227;
    pub(super) const READ_ONLY: u16 = 1290;
    pub(super) const PROCEDURE_EXISTS: u16 = 1304;
    pub(super) const NO_PROCEDURE: u16 = 1305;
    pub(super) const PROCEDURE_DENIED: u16 = 1370;
    pub(super) const SIGNALED: u16 = 1644;
    pub(super) const BINLOG_FORMAT: u16 = 1665;
    pub(super) const SOCKET_DENIED: u16 = 1698;
    pub(super) const READ_ONLY_TRANSACTION: u16 = 1792;
    pub(super) const READ_ONLY_MODE: u16 = 1836;
}

fn server_code(error: &Error) -> Option<u16> {
    if let Error::Server(error) = error { Some(error.code) } else { None }
}

/// Whether the connection is as good as before the error.
pub(crate) fn connection_survives(error: &Error) -> bool {
    server_code(error).is_some_and(|code| code != code::NOT_READY && code != code::READ_ONLY)
}

/// Whether a table or a procedure is not there.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(server_code(error), Some(code::NO_TABLE | code::NO_PROCEDURE))
}

/// Whether a procedure is there already.
pub(crate) fn is_there(error: &Error) -> bool {
    server_code(error) == Some(code::PROCEDURE_EXISTS)
}

/// Whether the server gave way to another transaction, and rolled this one back.
pub(crate) fn is_contention(error: &Error) -> bool {
    matches!(server_code(error), Some(code::DEADLOCK | code::LOCK_WAIT | code::RECORD_CHANGED))
}

/// Whether the server has no TLS, which the driver finds before it sends a password.
pub(crate) fn lacks_tls(error: &Error) -> bool {
    matches!(error, Error::Driver(DriverError::NoClientSslFlagFromServer))
}

/// The meaning of an error that left nothing changed.
pub(crate) fn store_error(doing: &str, error: Error) -> StoreError {
    let code = server_code(&error);
    let advice = match code {
        Some(code::ACCESS_DENIED | code::SOCKET_DENIED) => {
            ": check the user and the password in the URL, and from which hosts the user may connect"
        }
        Some(code::HOST_NOT_ALLOWED) => ": allow the user to connect from this host",
        Some(code::UNKNOWN_DATABASE) => ": create it, or correct the name in the URL",
        Some(code::DATABASE_DENIED | code::TABLE_DENIED | code::COLUMN_DENIED | code::PROCEDURE_DENIED)
        | Some(code::RIGHT_MISSING) => {
            ": grant the user SELECT, INSERT, UPDATE, DELETE and EXECUTE on the database, and CREATE and CREATE ROUTINE \
             unless somebody else makes the tables"
        }
        Some(code::NOT_READY) => ": this node of the cluster is not part of a majority, or not in step yet",
        Some(code::TOO_MANY_CONNECTIONS) => ": raise max_connections, or lower connections in the URL",
        Some(code::BINLOG_FORMAT) => ": set binlog_format to ROW or MIXED on the server",
        _ if lacks_tls(&error) => ": turn TLS on at the server, or write tls=prefer or tls=disable",
        _ => "",
    };
    let reason = Reason::caused(format!("{doing}: {error}{advice}"), error);
    match code {
        Some(code::DISK_FULL | code::TABLE_FULL) => StoreError::Full(reason),
        Some(code::NO_TABLE | code::NO_PROCEDURE | code::SIGNALED) => StoreError::Corrupt(reason),
        Some(
            code::ACCESS_DENIED
            | code::SOCKET_DENIED
            | code::HOST_NOT_ALLOWED
            | code::DATABASE_DENIED
            | code::UNKNOWN_DATABASE
            | code::TABLE_DENIED
            | code::COLUMN_DENIED
            | code::PROCEDURE_DENIED
            | code::RIGHT_MISSING
            | code::BINLOG_FORMAT,
        ) => StoreError::Invalid(reason),
        _ => StoreError::Unavailable(reason),
    }
}

/// The meaning of an error in answer to a commit.
///
/// Only errors that the procedure can meet before its `COMMIT` are definite. Whatever else goes wrong, also what this code does not know, leaves it
/// open whether the commit happened: a lost connection above all, and the server's word that something failed during `COMMIT`.
pub(crate) fn commit_error(error: Error) -> CommitError {
    if is_contention(&error) {
        return Conflict::Contention.into();
    }
    match server_code(&error) {
        Some(
            code::DISK_FULL
            | code::TABLE_FULL
            | code::NOT_READY
            | code::TABLE_DENIED
            | code::COLUMN_DENIED
            | code::PROCEDURE_DENIED
            | code::NO_TABLE
            | code::NO_PROCEDURE
            | code::READ_ONLY
            | code::READ_ONLY_TRANSACTION
            | code::READ_ONLY_MODE
            | code::SIGNALED
            | code::BINLOG_FORMAT,
        ) => store_error("commit", error).into(),
        _ => CommitError::unknown(Reason::caused(format!("commit: {error}"), error)),
    }
}

#[cfg(test)]
mod tests {
    use mysql_async::ServerError;

    use super::*;

    fn server(code: u16) -> Error {
        Error::Server(ServerError { code, message: "m".into(), state: "s".into() })
    }

    #[test]
    fn only_what_comes_before_the_commit_is_definite() {
        let kinds = [
            (1205, "conflict"),
            (1213, "conflict"),
            (1020, "conflict"),
            (1047, "unavailable"),
            (1290, "unavailable"),
            (1114, "full"),
            (1146, "corrupt"),
            (1370, "invalid"),
            // During COMMIT, killed, shut down, timed out, and one that nobody knows.
            (1180, "unknown"),
            (1317, "unknown"),
            (1927, "unknown"),
            (1053, "unknown"),
            (1969, "unknown"),
            (9999, "unknown"),
        ];
        for (code, kind) in kinds {
            assert_eq!(commit_error(server(code)).kind(), kind, "{code}");
        }
        let lost = Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(commit_error(lost).kind(), "unknown");
    }
}
