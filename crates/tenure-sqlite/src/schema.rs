//! Connections, and what a database file must be before it is used.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, TransactionBehavior};
use tenure_store::{Reason, StoreError};

use crate::{Location, Settings, error::store_error, files, turn::Turn};

/// Marks a database as one of ours: "TENU".
const APPLICATION_ID: i32 = 0x5445_4E55;

/// The layout that this code reads and writes. A change of layout takes the next number and a migration from the one before.
const SCHEMA_VERSION: i32 = 1;

/// How long the log may grow before the writer insists on starting it anew. (SQLite does so by itself at a quarter of this, unless
/// reads keep overlapping.)
pub(crate) const WAL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// `kv` holds the keys. `entries` holds the lists; an id is the version of the commit that appended the entry and its place in that
/// commit. `changes` holds, for the last few thousand versions, who committed and what was touched; its last row is never deleted
/// and carries the version that the next commit counts on from. `facts` holds what is known of the file itself.
const SCHEMA: &str = "
    CREATE TABLE kv (
        key BLOB PRIMARY KEY NOT NULL,
        version INTEGER NOT NULL,
        value BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE entries (
        list BLOB NOT NULL,
        id INTEGER NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (list, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE changes (
        version INTEGER PRIMARY KEY NOT NULL,
        writer INTEGER NOT NULL,
        names BLOB
    ) STRICT;
    CREATE TABLE facts (
        name TEXT PRIMARY KEY NOT NULL,
        fact TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO changes (version, writer, names) VALUES (0, 0, NULL);
";

/// Makes the database if it is not there, checks that it is ours, and warns of what can be seen to go wrong.
///
/// Processes that do this at once take turns; a process killed in the middle leaves what the next one can go on from.
pub(crate) fn prepare(path: &Path, settings: &Settings, turn: &Turn) -> Result<(), StoreError> {
    if let Some(kind) = files::network_file_system(path) {
        tracing::warn!(store = %settings.location, kind,
            "the store's file is on a network file system: SQLite's locks may not hold there, and commits may be lost; move it to a local disk");
    }
    let _first = turn.opening(settings.busy_wait)?;
    let mut connection = connect(settings)?;
    match condition(&connection)? {
        // A copy made by other tools may have lost its journal mode.
        Condition::Ours => use_wal(&connection)?,
        Condition::Fresh => {
            use_wal(&connection)?;
            found(&mut connection).map_err(|error| store_error("make the tables", error))?;
        }
        Condition::Foreign => {
            return Err(StoreError::invalid(format!(
                "{} is a database of another application: choose another file",
                path.display()
            )));
        }
        Condition::Newer(version) => {
            return Err(StoreError::invalid(format!(
                "{} has schema {version}, this program knows schemas up to {SCHEMA_VERSION}: use a newer release of it",
                path.display()
            )));
        }
    }
    note_machine(&connection, settings)
}

/// Makes the tables of a store in memory.
pub(crate) fn prepare_memory(connection: &mut Connection) -> Result<(), StoreError> {
    found(connection).map_err(|error| store_error("make the tables", error))
}

/// The name of a database in memory that no other store of this process has.
pub(crate) fn memory_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("file:/tenure-{}?vfs=memdb", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A connection to the store's file, as every thread of ours uses it.
pub(crate) fn connect(settings: &Settings) -> Result<Connection, StoreError> {
    let Location::File(path) = &settings.location else {
        return Err(StoreError::invalid("a store in memory has no file to connect to"));
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        set_up(&connection, settings)?;
        Ok(connection)
    };
    open().map_err(|error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::invalid(Reason::caused(
            format!("{} is not a SQLite database: choose another file", path.display()),
            error,
        )),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            StoreError::invalid(Reason::caused(
                format!(
                    "can't open {}: {error}: this user must be able to write the file and its directory",
                    path.display()
                ),
                error,
            ))
        }
        _ => store_error(&format!("open {}", path.display()), error),
    })
}

/// A connection to the database in memory of this name.
pub(crate) fn connect_memory(name: &str, settings: &Settings) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(name, flags)?;
        set_up(&connection, settings)?;
        Ok(connection)
    };
    open().map_err(|error: rusqlite::Error| store_error("open a database in memory", error))
}

fn set_up(connection: &Connection, settings: &Settings) -> rusqlite::Result<()> {
    connection.busy_timeout(settings.busy_wait)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_MAX)?;
    if let Some(bytes) = settings.max_bytes {
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update(None, "max_page_count", (bytes / page).max(1))?;
    }
    Ok(())
}

enum Condition {
    Fresh,
    Ours,
    Foreign,
    Newer(i32),
}

fn condition(connection: &Connection) -> Result<Condition, StoreError> {
    let look = || -> rusqlite::Result<Condition> {
        let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok(match (application, version, tables) {
            (APPLICATION_ID, SCHEMA_VERSION, _) => Condition::Ours,
            (APPLICATION_ID, newer, _) => Condition::Newer(newer),
            (0, 0, 0) => Condition::Fresh,
            _ => Condition::Foreign,
        })
    };
    look().map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::invalid(Reason::caused(
            "the file is not a SQLite database: choose another file",
            error,
        )),
        _ => store_error("look at the database", error),
    })
}

fn use_wal(connection: &Connection) -> Result<(), StoreError> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(|error| store_error("switch to WAL", error))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(StoreError::invalid(format!(
        "SQLite uses the journal mode {mode} here instead of WAL: choose a file system with shared memory"
    )))
}

/// Makes an empty database a store.
fn found(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

/// Warns if the file was last opened on another machine, and remembers this one.
fn note_machine(connection: &Connection, settings: &Settings) -> Result<(), StoreError> {
    let Some(machine) = files::machine_id() else { return Ok(()) };
    let note = || -> rusqlite::Result<()> {
        let query = "SELECT fact FROM facts WHERE name = 'machine'";
        let last: Option<String> = connection.query_row(query, [], |row| row.get(0)).optional()?;
        if last.as_ref() == Some(&machine) {
            return Ok(());
        }
        if last.is_some() {
            tracing::warn!(store = %settings.location,
                "the store's file was last opened on another machine: processes of two machines must never use it at once");
        }
        let write =
            "INSERT INTO facts VALUES ('machine', ?1) ON CONFLICT (name) DO UPDATE SET fact = excluded.fact";
        connection.execute(write, [&machine]).map(|_| ())
    };
    note().map_err(|error| store_error("note the machine", error))
}
