//! [`Limited`]: a store's limits made smaller.

use std::fmt;

use async_trait::async_trait;

use crate::{Commit, CommitError, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Watch};

/// A store that takes less than it could: for programs that are to run on other stores too ([`Limits::PORTABLE`]), and
/// for tests of what happens at a limit.
#[derive(Debug)]
pub struct Limited<S> {
    inner: S,
    limits: Limits,
}

impl<S: Store> Limited<S> {
    /// `inner`, within `limits` as well as its own.
    pub fn new(inner: S, limits: Limits) -> Self {
        let limits = limits.min(inner.limits());
        Self { inner, limits }
    }
}

impl<S: Store> fmt::Display for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl<S: Store> Store for Limited<S> {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.limits.admit_reads(&reads)?;
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.limits.admit_commit(&commit)?;
        self.inner.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}
