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
//! `outcome` is `ok`, `conflict`, `unknown`, `dropped` if nobody waited for the end, or the kind of error: `unavailable`, `invalid`,
//! `too_large`, `full`, `closed`, `corrupt`. Spans are `store.commit` and `store.read`, at debug level, with the fields `store` and `outcome`. Keys and values are in none
//! of them.

use std::fmt;

use async_trait::async_trait;
use metrics::SharedString;
use tracing::{Instrument as _, Span};

use crate::{
    Commit, CommitError, Env, Limits, Moment, Range, Read, Receipt, Snapshot, Store, StoreError, Watch,
};

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
        let mut request = self.request(span, "tenure_store_reads_total", "tenure_store_read_seconds");
        let answer = self.inner.read(reads).instrument(request.span.clone()).await;
        request.outcome = answer.as_ref().map_or_else(StoreError::kind, |_| "ok");
        answer
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let operations = commit.checks.len() + commit.writes.len();
        #[allow(clippy::cast_precision_loss, reason = "a histogram is approximate")]
        metrics::histogram!("tenure_store_commit_operations", "store" => self.store.clone())
            .record(operations as f64);
        let span = tracing::debug_span!("store.commit", store = %self.store, outcome = tracing::field::Empty);
        let mut request = self.request(span, "tenure_store_commits_total", "tenure_store_commit_seconds");
        let answer = self.inner.commit(commit).instrument(request.span.clone()).await;
        request.outcome = answer.as_ref().map_or_else(CommitError::kind, |_| "ok");
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

/// A request under way. What came of it is recorded when it ends, also if it ends because nobody waits for it any more.
struct Request<'a> {
    env: &'a Env,
    store: &'a SharedString,
    start: Moment,
    span: Span,
    counter: &'static str,
    histogram: &'static str,
    outcome: &'static str,
}

impl<S> Measured<S> {
    fn request(&self, span: Span, counter: &'static str, histogram: &'static str) -> Request<'_> {
        let (env, store, start) = (&self.env, &self.store, self.env.now());
        Request { env, store, start, span, counter, histogram, outcome: "dropped" }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.span.record("outcome", self.outcome);
        metrics::histogram!(self.histogram, "store" => self.store.clone())
            .record(self.env.now() - self.start);
        metrics::counter!(self.counter, "store" => self.store.clone(), "outcome" => self.outcome)
            .increment(1);
    }
}
