//! [`Ledger`]: a store that shows every commit to whoever checks it, in the order in which they took effect.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_store::{Commit, CommitError, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Watch};

/// Sees every commit that took effect.
pub trait Auditor: Send + 'static {
    /// The next commit.
    ///
    /// # Errors
    /// What is wrong with it.
    fn took_effect(&mut self, commit: &Commit) -> Result<(), String>;
}

/// A store whose commits are audited. On a single-threaded runtime the order in which it sees them is the order in which they happened.
#[derive(Clone)]
pub struct Ledger {
    store: Arc<dyn Store>,
    auditors: Arc<Mutex<Vec<Box<dyn Auditor>>>>,
    flaw: Arc<Mutex<Option<String>>>,
}

impl Ledger {
    /// This store, seen by these auditors.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, auditors: Vec<Box<dyn Auditor>>) -> Self {
        Self { store, auditors: Arc::new(Mutex::new(auditors)), flaw: Arc::default() }
    }

    /// The first thing that was wrong.
    ///
    /// # Errors
    /// That.
    pub fn verdict(&self) -> Result<(), String> {
        self.flaw.lock().clone().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("store", &self.store).finish_non_exhaustive()
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl Store for Ledger {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let receipt = self.store.commit(commit.clone()).await?;
        for auditor in self.auditors.lock().iter_mut() {
            if let Err(flaw) = auditor.took_effect(&commit) {
                self.flaw.lock().get_or_insert(flaw);
            }
        }
        Ok(receipt)
    }

    fn watch(&self, range: Range) -> Watch {
        self.store.watch(range)
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }
}
