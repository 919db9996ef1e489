//! The conformance suite: what every store must pass, one test for each case and store.
//!
//! A crate that brings a store runs the whole suite with one line. `open` gives a fresh, empty store, as `count` handles that
//! might as well be in `count` processes:
//!
//! ```
//! use std::sync::Arc;
//! use tenure_store::{MemoryStore, Store, testkit::Handles};
//!
//! async fn open(count: usize) -> Handles {
//!     let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//!     Handles::new(vec![store; count], ())
//! }
//!
//! tenure_store::conformance!(open);
//! ```
//!
//! The cases look at [`Store::limits`] and ask for no more than it allows. They assume a store that is reachable
//! throughout: what happens when it is not is each store's own to test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case tells what it found by panicking")]

mod cases;
mod endurance;
mod suite;
mod tools;

use std::{any::Any, fmt, future::Future, panic, pin::Pin, sync::Arc, time::Duration};

use crate::{Env, Store};

pub use endurance::{Endured, Progress, endure};
pub use suite::CASES;

/// The page on how to write a store is compiled and run like every other example.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/stores/writing-a-store.md")]
struct WritingAStore;

/// How long a case may take. Far longer than any needs: a case that hangs is a case that fails.
const CASE_TIME: Duration = Duration::from_secs(120);

/// How many handles each case gets.
pub const HANDLES: usize = 4;

/// Handles to one store.
pub struct Handles {
    stores: Vec<Arc<dyn Store>>,
    /// Dropped after the handles.
    _guard: Box<dyn Any + Send + Sync>,
}

impl Handles {
    /// These handles, and something that must outlive them, as the directory that the store is in.
    ///
    /// # Panics
    /// If there is no handle at all.
    #[must_use]
    pub fn new(stores: Vec<Arc<dyn Store>>, guard: impl Send + Sync + 'static) -> Self {
        assert!(!stores.is_empty(), "a suite needs a store");
        Self { stores, _guard: Box::new(guard) }
    }

    /// The first handle, for cases that need one.
    pub(crate) fn one(&self) -> &Arc<dyn Store> {
        &self.stores[0]
    }

    /// The `index`th handle, counted around.
    pub(crate) fn nth(&self, index: usize) -> &Arc<dyn Store> {
        &self.stores[index % self.stores.len()]
    }
}

impl fmt::Debug for Handles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handles").field(&self.stores).finish()
    }
}

type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The group it belongs to: the obligation it is about.
    pub group: &'static str,
    /// What it shows.
    pub name: &'static str,
    run: fn(Handles) -> CaseFuture,
}

/// Runs one case on a store of its own. This is what [`conformance!`](crate::conformance) calls.
///
/// # Panics
/// If the store does not pass, if the case takes too long, or if there is no such case.
pub fn run<Opening>(group: &str, name: &str, open: impl FnOnce(usize) -> Opening)
where
    Opening: Future<Output = Handles>,
{
    let case = CASES.iter().find(|case| case.group == group && case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {group}::{name}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let handles = open(HANDLES).await;
        // A task of its own, so that cases can be stopped wherever they wait.
        let running = tokio::spawn((case.run)(handles));
        Env::system().timeout(CASE_TIME, running).await
    });
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => panic::resume_unwind(failure.into_panic()),
        Err(elapsed) => {
            // Without waiting for the case: it may be one that never waits for anything.
            runtime.shutdown_background();
            panic!("{group}::{name}: {elapsed}");
        }
    }
}
