//! Tenure's store in MySQL and MariaDB, on one server or on a Galera cluster.
//!
//! # What it promises
//! The [contract of a store](tenure_store::Store), by these means:
//!
//! - **A commit is one round trip and one flush**, whatever it contains: a call of a stored procedure, which locks, checks, writes and commits.
//! - **A read is one round trip and one instant**: one statement, or one call on one snapshot. Reads of keys that wait at the same time share a
//!   statement.
//! - **Correct at READ COMMITTED.** What a commit checks and writes is locked, through slots that always exist, in one order, before
//!   anything is looked at. So commits wait for each other and never in a circle, and those on different keys do not meet. There is no
//!   counter that all of them would have to pass.
//! - **In a cluster, checks are writes.** Galera compares at commit which rows changed, and nothing else; so what a commit checked is changed too.
//!   A commit that came second is refused, as [`Contention`](tenure_store::Conflict). Reads and checks wait for what other nodes acknowledged.
//! - **Watches look for changes**, since the server can't send messages: every 20 ms at rest and every 1 ms after a change or a new watch, by one small
//!   query for all watches of a process, and only while there are any.
//! - **Few connections**, whatever is done over them: 8 that commit, 2 that read, 1 that looks, each opened when it is first needed.
//! - **Bytes are bytes**, whatever the server's SQL mode, character set, collation and time zone: columns are binary, and a session sets
//!   everything that matters. Nothing that users choose becomes part of a statement.
//!
//! A server that would lose acknowledged commits in a crash is refused, unless `durability=relax` says otherwise.
//!
//! # Where to look
//! | for | see |
//! | --- | --- |
//! | what is locked, and why that is enough | `slots.rs` |
//! | the commit itself | `sql/commit.sql`, its arguments in `pack.rs` |
//! | what a connection sets and demands | `session.rs` |
//! | which errors leave the outcome open | `error.rs` |
//! | how others hear of a commit | `note.rs`, `notice.rs` |
//! | the tables | `sql/tables.sql`, made in `schema.rs`; [`ddl`] prints them |
//!
//! # Example
//! ```no_run
//! use tenure_mysql::MysqlStore;
//! use tenure_store::{Commit, Key, Store, StoreExt};
//!
//! # async fn run() -> Result<(), tenure_store::CommitError> {
//! let store = MysqlStore::open("mysql://user:password@localhost/app").await?;
//! store.commit(Commit::new().set(Key::from("k"), "v")).await?;
//! assert_eq!(store.get(&Key::from("k")).await?.unwrap().value, "v");
//! # Ok(())
//! # }
//! ```

mod store;

mod commits;
mod crew;
mod error;
mod note;
mod notice;
mod pack;
mod plain;
mod reads;
mod schema;
mod session;
mod settings;
mod slots;
mod sql;
mod tls;

pub use plain::{connect, disconnect};
pub use schema::ddl;
pub use settings::{Durability, Settings, Tls};
pub use store::MysqlStore;
