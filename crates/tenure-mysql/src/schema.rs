//! The tables: made once, by whoever comes first.

use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use tenure_store::{Reason, StoreError};

use crate::{
    error::{is_contention, is_missing, is_there, store_error},
    session::{Connector, Session},
    settings::admit_prefix,
    sql::{SCHEMA_VERSION, Statements},
};

/// How long to wait for another process that makes the tables, in seconds. It takes less than one.
const LOCK_SECONDS: u32 = 30;

/// How often the making of tables is begun anew in a cluster, where nodes that do it at once disturb each other.
const TRIES_MAX: usize = 40;

/// A pause between two tries is at most this long.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The statements that make the tables and procedures, as a script for the `mysql` program: for those whose role must not create
/// anything itself. Made for the default prefix `tenure_`, or another one.
///
/// # Errors
/// [`StoreError::Invalid`] for a prefix that can't be one.
pub fn ddl(prefix: &str) -> Result<String, StoreError> {
    admit_prefix(prefix)?;
    Ok(Statements::new(prefix).script())
}

/// Makes the tables if they are not there, and checks that they are ours.
pub(crate) async fn prepare(
    connector: &Connector,
    session: &mut Session,
    statements: &Statements,
) -> Result<(), StoreError> {
    if is_complete(session, statements).await? {
        return Ok(());
    }
    if session.locker.cluster {
        return found_in_cluster(connector, session, statements).await;
    }
    let lock = format!("tenure/{}/{}", connector.settings.database, connector.settings.prefix);
    // Names of locks are short on some servers.
    let lock = lock.chars().take(60).collect::<String>();
    let failed = |error| store_error("lock the making of tables", error);
    let got: Option<Option<u8>> =
        session.conn.exec_first("SELECT GET_LOCK(?, ?)", (&lock, LOCK_SECONDS)).await.map_err(failed)?;
    if got != Some(Some(1)) {
        return Err(StoreError::unavailable(
            "another process has been making the tables for long: try again",
        ));
    }
    let made = found(session, statements).await;
    session.conn.exec_drop("DO RELEASE_LOCK(?)", (&lock,)).await.map_err(failed)?;
    made.map_err(|error| store_error("make the tables", error))
}

/// Named locks do not reach other nodes, but every statement here can be made again: whoever is disturbed begins anew.
async fn found_in_cluster(
    connector: &Connector,
    session: &mut Session,
    statements: &Statements,
) -> Result<(), StoreError> {
    for _ in 0..TRIES_MAX {
        match found(session, statements).await {
            Ok(()) => return Ok(()),
            Err(error) if is_contention(&error) => {}
            Err(error) => return Err(store_error("make the tables", error)),
        }
        connector.env.sleep(connector.env.random_time(PAUSE_MAX)).await;
    }
    Err(StoreError::unavailable(format!("making the tables was disturbed {TRIES_MAX} times: try again")))
}

/// The mark comes last: where it is, everything is.
async fn found(session: &mut Session, statements: &Statements) -> mysql_async::Result<()> {
    if matches!(version(session, statements).await, Ok(Some(_))) {
        return Ok(());
    }
    for table in &statements.tables {
        session.conn.query_drop(table).await?;
    }
    for procedure in &statements.procedures {
        match session.conn.query_drop(procedure).await {
            Err(error) if is_there(&error) => {}
            other => other?,
        }
    }
    session.conn.query_drop(&statements.mark).await
}

/// Whether the tables are there and of the right version.
async fn is_complete(session: &mut Session, statements: &Statements) -> Result<bool, StoreError> {
    match version(session, statements).await {
        Ok(Some(version)) if version == SCHEMA_VERSION.as_bytes() => Ok(true),
        Ok(Some(version)) => Err(StoreError::invalid(Reason::new(format!(
            "the tables are of version {}, this release knows {SCHEMA_VERSION}: use the release that made them, or a newer one",
            version.escape_ascii()
        )))),
        Ok(None) => Ok(false),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(store_error("look for the tables", error)),
    }
}

async fn version(session: &mut Session, statements: &Statements) -> mysql_async::Result<Option<Vec<u8>>> {
    session.conn.query_first(&statements.version).await
}
