//! Tenure's store in PostgreSQL 12 or later, through any pooler in between.
//!
//! # What it promises
//! The [contract of a store](tenure_store::Store), by these means:
//!
//! - **A commit is one round trip and one flush**, whatever it contains: one call of one function, in a transaction of its own.
//! - **Correct at READ COMMITTED.** A commit first takes an advisory transaction lock on everything it speaks of, in one order for
//!   all, and looks only then. So it meets nobody half-way, no deadlock can arise, and what does not exist can be locked too. Commits that
//!   speak of different things never wait for each other; only the deletion of a range waits for all, and all for it.
//! - **A read is one statement**, hence one snapshot. Reads that wait at the same time share a statement.
//! - **Nothing is tied to a connection**, so that a pooler in transaction mode may stand in between. A few connections serve everybody.
//! - **Watches see other processes** within milliseconds, through NOTIFY: sent after the commit, never in it, many changes at once,
//!   and only while another process listens. Where LISTEN cannot work, a poll takes its place.
//!
//! # What is where
//! | in the schema, `tenure` unless told otherwise | what it is |
//! | --- | --- |
//! | table `kv` | keys with their values and versions |
//! | table `entries` | the entries of all lists |
//! | sequence `versions` | a version for each commit |
//! | function `apply` | a commit |
//! | table `listeners`, unlogged | which processes want to be told of changes |
//! | table `layout` | which release made all this |
//!
//! # What breaks it
//! `fsync = off`. A replica promoted before it had everything. A standby is refused, and so is an isolation level other than READ COMMITTED.
//!
//! # Example
//! ```no_run
//! use tenure_postgres::PostgresStore;
//! use tenure_store::{Commit, Key, Store, StoreExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure_store::CommitError> {
//! let store = PostgresStore::open("postgres://alice@localhost/office").await?;
//! store.commit(Commit::new().set(Key::from("k"), "v")).await?;
//! assert_eq!(store.get(&Key::from("k")).await?.unwrap().value, "v");
//! # Ok(())
//! # }
//! ```

mod store;

mod announcement;
mod apply;
mod committers;
mod connection;
mod error;
mod herald;
mod listener;
mod plain;
mod readers;
mod schema;
mod settings;
mod tls;

pub use plain::{PlainConnection, connect};
pub use schema::ddl;
pub use settings::{Settings, Tls};
pub use store::PostgresStore;
