//! The small contract that Tenure stands on, and what can be built on it alone.
//!
//! ```text
//! read(questions)  -> Snapshot   keys, ranges and lists, all as of one instant
//! commit(Commit)   -> Receipt    all checks hold, or nothing is written
//! watch(range)     -> Watch      wakes when something in the range may have changed
//! limits()         -> Limits     what is too large, refused before any I/O
//! ```
//!
//! # A first look
//! ```
//! use tenure_store::{Check, Commit, CommitError, Key, MemoryStore, Store, StoreExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), CommitError> {
//! let store = MemoryStore::new();
//! let key = Key::from("greeting");
//!
//! store.commit(Commit::new().check(Check::Absent(key.clone())).set(key.clone(), "hello")).await?;
//! let found = store.get(&key).await?.expect("it was just written");
//! assert_eq!(found.value, "hello");
//!
//! // Whoever read this version may replace it, once.
//! let change = Commit::new().check(Check::Version(key.clone(), found.version)).set(key, "good day");
//! store.commit(change.clone()).await?;
//! assert!(matches!(store.commit(change).await, Err(CommitError::Conflict(_))));
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//! | for | see |
//! | --- | --- |
//! | the contract, with its obligations | [`Store`] |
//! | changes as values | [`Commit`], [`Check`], [`Write`] |
//! | questions and answers | [`Read`], [`Snapshot`], [`StoreExt`] |
//! | keys that keep order and never collide | [`Tuple`], [`Name`], [`Range`] |
//! | commits that happen exactly once though answers get lost | [`Lane`] |
//! | many clusters in one store | [`Prefixed`] |
//! | a store's limits made smaller | [`Limited`] |
//! | metrics and spans | [`Measured`] |
//! | tests under failure | [`Faulty`], [`Faults`] |
//! | the model | [`MemoryStore`] |
//! | time and randomness that a simulation can own | [`Env`] |
//! | writing a store of your own | [`Store`], [`WatchHub`], the conformance suite in `testkit` |

mod store;

mod commit;
mod error;
mod ext;
mod key;
mod limits;
mod name;
mod read;
mod tuple;
mod url;
mod watch;

mod env;
mod gate;
mod lane;
pub mod latest;
mod memory;
pub mod record;
mod retry;

mod faulty;
mod limited;
mod measured;
mod prefixed;

#[cfg(feature = "testkit")]
pub mod testkit;

pub use commit::{Check, Commit, Receipt, Version, Write};
pub use env::{Elapsed, Env, Moment};
pub use error::{CommitError, Conflict, Reason, StoreError};
pub use ext::StoreExt;
pub use faulty::{Faults, Faulty, Tally};
pub use gate::Gate;
pub use key::{Key, Range};
pub use lane::{Lane, LaneError, Settled};
pub use limited::Limited;
pub use limits::Limits;
pub use measured::Measured;
pub use memory::MemoryStore;
pub use name::Name;
pub use prefixed::Prefixed;
pub use read::{Answer, Entry, EntryId, Item, Page, Read, Snapshot, Versioned, Weigh};
pub use retry::{Pauses, Retry};
pub use store::Store;
pub use tuple::{Int, Part, Tuple};
pub use url::{Host, Password, StoreUrl};
pub use watch::{Waker, Watch, WatchHub};

pub use bytes::Bytes;
