//! Tenure's embedded store: one SQLite file, shared by many processes on one machine, without a server.
//!
//! # What it promises
//! The [contract of a store](tenure_store::Store), by these means:
//!
//! - **Acknowledged means on disk.** WAL with `synchronous=FULL`: a commit is answered after its flush.
//! - **One flush for many.** In each process one writer takes all commits that wait and makes them in one transaction. Each has its own
//!   checks and its own answer; a conflict of one is not a conflict of another.
//! - **Fair turns.** Processes take turns in the order in which they came. SQLite's own lock, which knows no order, still decides who may
//!   write; the turn only decides who asks for it next. A process that dies or stops loses its turn.
//! - **Reads never wait for writes.** They run on connections and threads of their own, each on a snapshot. (In memory, where SQLite has
//!   no such log, they wait for the transaction that is being made.)
//! - **Watches see other processes** within milliseconds, through a message of the kernel about a file, not by polling.
//!
//! # What is where
//! | file | what it is |
//! | --- | --- |
//! | `path` | the database |
//! | `path-wal`, `path-shm` | SQLite's log and its index |
//! | `path-turn` | tickets for turns, and the bell that tells other processes of a change; holds nothing that could be lost |
//!
//! All are created readable and writable by their owner only.
//!
//! # What breaks it
//! A network file system, or two machines on one file: SQLite's locks and shared memory do not reach across machines. A warning is
//! logged where this can be seen. Linux only.
//!
//! # Example
//! ```
//! use tenure_sqlite::SqliteStore;
//! use tenure_store::{Commit, Key, Store, StoreExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure_store::CommitError> {
//! let store = SqliteStore::open("sqlite::memory:").await?;
//! store.commit(Commit::new().set(Key::from("k"), "v")).await?;
//! assert_eq!(store.get(&Key::from("k")).await?.unwrap().value, "v");
//! # Ok(())
//! # }
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("tenure-sqlite needs Linux: its turns and wakings rest on open-file locks and inotify");

mod store;

mod changes;
mod error;
mod files;
mod notice;
mod queue;
mod reader;
mod schema;
mod settings;
mod sql;
mod turn;
mod writer;

pub use settings::{Location, Settings};
pub use store::{SqliteStore, Stats};
