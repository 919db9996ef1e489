//! Servers shared by all tests of a process, or, by an environment variable, by many processes.

use std::{env, sync::OnceLock};

use anyhow::Result;

use crate::{Etcd, Galera, MariaDb, Options, PgBouncer, Postgres};

/// Members of the shared etcd cluster: as few as can lose one.
const ETCD_NODES: usize = 3;

/// The URL of a PostgreSQL server: `TENURE_TEST_POSTGRES`, else of one started for this process.
///
/// # Panics
/// If it can't be started. The message shows the end of its log.
#[must_use]
pub fn postgres() -> String {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    named("TENURE_TEST_POSTGRES").unwrap_or_else(|| SERVER.get_or_init(|| started(Postgres::start())).url())
}

/// The URL of a PgBouncer in transaction mode in front of [`postgres()`]: `TENURE_TEST_PGBOUNCER`, else of one started for this process.
///
/// # Panics
/// If it can't be started. The message shows the end of its log.
#[must_use]
pub fn pgbouncer() -> String {
    static SERVER: OnceLock<PgBouncer> = OnceLock::new();
    named("TENURE_TEST_PGBOUNCER")
        .unwrap_or_else(|| SERVER.get_or_init(|| started(PgBouncer::start(&postgres()))).url())
}

/// The URL of a MariaDB server: `TENURE_TEST_MARIADB`, else of one started for this process.
///
/// # Panics
/// If it can't be started. The message shows the end of its log.
#[must_use]
pub fn mariadb() -> String {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    named("TENURE_TEST_MARIADB").unwrap_or_else(|| SERVER.get_or_init(|| started(MariaDb::start())).url())
}

/// The URLs of the three nodes of a Galera cluster: `TENURE_TEST_GALERA`, separated by commas, else of one started for this process.
///
/// # Panics
/// If it can't be started. The message shows the end of a log.
#[must_use]
pub fn galera() -> Vec<String> {
    static SERVER: OnceLock<Galera> = OnceLock::new();
    match named("TENURE_TEST_GALERA") {
        Some(urls) => urls.split(',').map(str::to_owned).collect(),
        None => SERVER.get_or_init(|| started(Galera::start())).urls(),
    }
}

/// The URL of an etcd cluster of three nodes: `TENURE_TEST_ETCD`, else of one started for this process.
///
/// # Panics
/// If it can't be started. The message shows the end of a log.
#[must_use]
pub fn etcd() -> String {
    static SERVER: OnceLock<Etcd> = OnceLock::new();
    let start = || started(Etcd::start(ETCD_NODES, &Options::default()));
    named("TENURE_TEST_ETCD").unwrap_or_else(|| SERVER.get_or_init(start).url())
}

fn named(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

/// A test can't go on without its server: a missing one is a failure, never a reason to skip.
fn started<T>(server: Result<T>) -> T {
    server.unwrap_or_else(|error| panic!("a server for the tests could not be started: {error:#}"))
}
