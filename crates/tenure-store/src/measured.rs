//! [`Measured`]: metrics and spans for everything that passes through a store.
//!
//! | metric | kind | labels | what it counts |
//! | --- | --- | --- | --- |
//! | `tenure_store_commits_total` | counter | `store`, `outcome` | commits, by how they ended |
//! | `tenure_store_commit_seconds` | histogram | `store` | from request to answer |
//! | `tenure_store_commit_operations` | histogram | `store` | checks and writes of a commit |
//! | `tenure_store_reads_total` | counter | `store`, `outcome` | reads, by how they ended |
//! | `tenure_store_read_seconds` | histogram | `store` | from request to answer |
//! | `tenure_store_watches_total` | counter | `store` | watches made |
//!
//! `outcome` is `ok`, `conflict`, `unknown`, or the kind of error: `unavailable`, `invalid`, `too_large`, `full`, `closed`,
//! `corrupt`. Spans are `store.commit` and `store.read`, at debug level, with the fields `store` and `outcome`. Keys and values are in none
//! of them.

use std::fmt;

use async_trait::async_trait;
use metrics::SharedString;
use tracing::Instrument as _;

use crate::{Commit, CommitError, Env, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Watch};

/// A store whose use is measured. The module lists the metrics.
#[derive(Debug)]
pub struct Measured<S> {
    inner: S,
    env: Env,
    /// What `inner` prints as, once.
    store: SharedString,
}

impl<S: Store> Measured<S> {
    /// `inner`, measured with the clock of `env`.
    pub fn new(inner: S, env: Env) -> Self {
        let store = inner.to_string().into();
        Self { inner, env, store }
    }
}

impl<S: Store> fmt::Display for Measured<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl<S: Store> Store for Measured<S> {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let span = tracing::debug_span!("store.read", store = %self.store, outcome = tracing::field::Empty);
        let start = self.env.now();
        let answer = self.inner.read(reads).instrument(span.clone()).await;
        let outcome = answer.as_ref().map_or_else(StoreError::kind, |_| "ok");
        span.record("outcome", outcome);
        let store = self.store.clone();
        metrics::histogram!("tenure_store_read_seconds", "store" => store.clone())
            .record(self.env.now() - start);
        metrics::counter!("tenure_store_reads_total", "store" => store, "outcome" => outcome).increment(1);
        answer
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let span = tracing::debug_span!("store.commit", store = %self.store, outcome = tracing::field::Empty);
        let start = self.env.now();
        let operations = commit.checks.len() + commit.writes.len();
        let answer = self.inner.commit(commit).instrument(span.clone()).await;
        let outcome = answer.as_ref().map_or_else(CommitError::kind, |_| "ok");
        span.record("outcome", outcome);
        let store = self.store.clone();
        #[allow(clippy::cast_precision_loss, reason = "a histogram is approximate")]
        metrics::histogram!("tenure_store_commit_operations", "store" => store.clone())
            .record(operations as f64);
        metrics::histogram!("tenure_store_commit_seconds", "store" => store.clone())
            .record(self.env.now() - start);
        metrics::counter!("tenure_store_commits_total", "store" => store, "outcome" => outcome).increment(1);
        answer
    }

    fn watch(&self, range: Range) -> Watch {
        metrics::counter!("tenure_store_watches_total", "store" => self.store.clone()).increment(1);
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}
