//! Tenure's store in etcd.
//!
//! # What it promises
//! The [contract of a store](tenure_store::Store), by these means:
//!
//! - **A commit is one transaction of etcd**, decided in its log, also one that only checks.
//! - **A read is one transaction**, that asks the leader first; never what one member happens to know.
//! - **Versions are mod revisions.** No leases: nothing here passes by itself.
//! - **Appends keep their order** by ids that begin with a revision the cluster had after the append was submitted. That is one more question before
//!   the commit, which all appends of a process share that come at the same time.
//! - **Watches are hints.** One stream for all watches of a process; what it fails to tell of is noticed by looking at the revision.
//! - **The loss of a member costs nobody but those who were waiting for its answer.** The next request goes to another.
//!
//! # What is where
//! Everything is under a prefix, by default `tenure`: see `layout`.
//!
//! # No `protoc`
//! The messages are written by hand, see `messages`, so that nobody needs more than Rust and a C compiler to build this.
//!
//! # Example
//! ```no_run
//! use tenure_etcd::EtcdStore;
//! use tenure_store::{Commit, Key, Store, StoreExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure_store::CommitError> {
//! let store = EtcdStore::open("etcd://10.0.0.1,10.0.0.2,10.0.0.3/tenure").await?;
//! store.commit(Commit::new().set(Key::from("k"), "v")).await?;
//! assert_eq!(store.get(&Key::from("k")).await?.unwrap().value, "v");
//! # Ok(())
//! # }
//! ```

mod store;

mod cluster;
mod commit;
mod error;
mod layout;
mod members;
mod messages;
mod notice;
mod read;
mod rounds;
mod settings;

pub use settings::Settings;
pub use store::EtcdStore;
