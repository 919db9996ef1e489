//! [`Counted`]: a store that counts what it is asked.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use tenure_store::{Commit, CommitError, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Watch};

/// A store that counts what it is asked.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: Arc<dyn Store>,
    reads: AtomicU64,
    commits: AtomicU64,
}

impl Counted {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, reads: AtomicU64::new(0), commits: AtomicU64::new(0) }
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counted {}", self.inner)
    }
}

#[async_trait]
impl Store for Counted {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.inner.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}
