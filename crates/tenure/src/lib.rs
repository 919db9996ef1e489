//! Leader election, membership, singletons, durable servers and a process registry, kept in the database you already run.
//!
//! This crate is the door to the others: [`open()`] opens a store by its URL, and [`prelude`] has what most programs use. Here so far are the stores,
//! the [`cluster`] (sessions, members, elections, messages between nodes), durable [servers](server), [singletons](singleton) and the [registry].
//!
//! ```
//! use tenure::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), CommitError> {
//! let store = tenure::open("sqlite::memory:").await?;
//! store.commit(Commit::new().set(Key::from("greeting"), "hello")).await?;
//! # Ok(())
//! # }
//! ```

mod open;

pub use open::open;
pub use tenure_cluster as cluster;
#[cfg(feature = "etcd")]
pub use tenure_etcd as etcd;
#[cfg(feature = "mysql")]
pub use tenure_mysql as mysql;
#[cfg(feature = "postgres")]
pub use tenure_postgres as postgres;
pub use tenure_registry as registry;
pub use tenure_server as server;
pub use tenure_singleton as singleton;
#[cfg(feature = "sqlite")]
pub use tenure_sqlite as sqlite;
pub use tenure_store as store;

/// What most programs use.
pub mod prelude {
    pub use tenure_cluster::{Cluster, ClusterError, Election, Leadership, Settings, Term};
    pub use tenure_registry::{
        Inbox, Mailbox, Metadata, Query, Registration, Registries, Registry, RegistryError, mailbox,
    };
    pub use tenure_server::{
        CallOptions, Context, Failure, Fold, List, Locked, Map, Never, Serve, Server, ServerError, ServerRef,
        State,
    };
    pub use tenure_singleton::{
        Mandate, Oracle, Policy, Restart, Singleton, SingletonBuilder, Singletons, Standby,
    };
    pub use tenure_store::{
        Check, Commit, CommitError, Conflict, Env, Key, Lane, LaneError, Name, Prefixed, Range, Read,
        Receipt, Retry, Store, StoreError, StoreExt, Tuple, Version, Watch, Write,
    };
}

/// The programs in the README and on these pages are compiled and run like every other example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/singletons.md")]
#[doc = include_str!("../../../docs/registry.md")]
struct Pages;
