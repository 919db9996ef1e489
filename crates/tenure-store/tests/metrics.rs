//! What [`Measured`] counts, and what it never tells.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tenure_store::{
    Check, Commit, CommitError, Env, Faults, Faulty, Key, Limits, Measured, MemoryStore, Range, Read, Reason,
    Receipt, Snapshot, Store, StoreError, StoreExt as _, Watch,
};

const SECRET: &str = "secret";

/// Answers everything with one error.
#[derive(Debug)]
struct Broken(CommitError);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

#[async_trait]
impl Store for Broken {
    async fn read(&self, _: Vec<Read>) -> Result<Snapshot, StoreError> {
        match &self.0 {
            CommitError::Failed(error) => Err(error.clone()),
            _ => Ok(Snapshot::new(Vec::new())),
        }
    }

    async fn commit(&self, _: Commit) -> Result<Receipt, CommitError> {
        Err(self.0.clone())
    }

    fn watch(&self, _: Range) -> Watch {
        Watch::pair().1
    }

    fn limits(&self) -> Limits {
        Limits::PORTABLE
    }
}

/// Metrics by name and labels: the count of a counter, or how many values a histogram was given.
type Metrics = BTreeMap<String, u64>;

/// What is recorded while `work` runs.
fn recorded(work: impl Future<Output = ()>) -> Metrics {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work));
    let name = |key: &metrics::Key| {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        format!("{}{{{}}}", key.name(), labels.join(","))
    };
    let entry = |(key, _, _, value): (metrics_util::CompositeKey, _, _, DebugValue)| {
        let count = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => panic!("there are no gauges"),
        };
        (name(key.key()), count)
    };
    snapshotter.snapshot().into_vec().into_iter().map(entry).collect()
}

/// Uses a store in every way, with secrets everywhere.
async fn use_it(store: &impl Store) {
    let key = Key::from(SECRET);
    store.commit(Commit::new().set(key.clone(), SECRET).append(key.clone(), SECRET)).await.unwrap();
    store.commit(Commit::new().set(key.clone(), SECRET)).await.unwrap();
    store.commit(Commit::new().check(Check::Absent(key.clone()))).await.unwrap_err();
    store.commit(Commit::new().set(Key::from(""), SECRET)).await.unwrap_err();
    store.get(&key).await.unwrap();
    store.scan(&Range::Prefix(key.clone()), 0).await.unwrap_err();
    drop(store.watch(Range::Key(key.clone())));
    drop(store.watch(Range::Prefix(key)));
}

#[test]
fn everything_is_counted_by_its_outcome() {
    let metrics = recorded(async { use_it(&Measured::new(MemoryStore::new(), Env::system())).await });
    let expected = [
        ("tenure_store_commits_total{store=memory,outcome=ok}", 2),
        ("tenure_store_commits_total{store=memory,outcome=conflict}", 1),
        ("tenure_store_commits_total{store=memory,outcome=invalid}", 1),
        ("tenure_store_commit_seconds{store=memory}", 4),
        ("tenure_store_commit_operations{store=memory}", 4),
        ("tenure_store_reads_total{store=memory,outcome=ok}", 1),
        ("tenure_store_reads_total{store=memory,outcome=invalid}", 1),
        ("tenure_store_read_seconds{store=memory}", 2),
        ("tenure_store_watches_total{store=memory}", 2),
    ];
    assert_eq!(metrics, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[test]
fn every_kind_of_error_is_an_outcome() {
    let errors = [
        (CommitError::unknown(SECRET), "unknown"),
        (StoreError::unavailable(SECRET).into(), "unavailable"),
        (StoreError::invalid(SECRET).into(), "invalid"),
        (StoreError::too_large(SECRET).into(), "too_large"),
        (StoreError::Full(Reason::new(SECRET)).into(), "full"),
        (StoreError::Closed(Reason::new(SECRET)).into(), "closed"),
        (StoreError::corrupt(SECRET).into(), "corrupt"),
    ];
    for (error, kind) in errors {
        let metrics = recorded(async {
            let store = Measured::new(Broken(error.clone()), Env::system());
            store.commit(Commit::new().set(Key::from(SECRET), SECRET)).await.unwrap_err();
            assert_eq!(store.read(vec![Read::Key(Key::from(SECRET))]).await.is_err(), kind != "unknown");
        });
        assert_eq!(metrics[&format!("tenure_store_commits_total{{store=broken,outcome={kind}}}")], 1);
        let read = if kind == "unknown" { "ok" } else { kind };
        assert_eq!(metrics[&format!("tenure_store_reads_total{{store=broken,outcome={read}}}")], 1);
        assert!(metrics.keys().all(|name| !name.contains(SECRET)), "{metrics:?}");
    }
}

#[test]
fn a_request_that_nobody_waits_for_is_counted_as_dropped() {
    let metrics = recorded(async {
        let env = Env::system();
        let slow = Faults { delay: Duration::from_secs(3600), ..Faults::NONE };
        let store = Measured::new(Faulty::new(Arc::new(MemoryStore::new()), env.clone(), slow), env.clone());
        let commit = store.commit(Commit::new().set(Key::from("k"), "v"));
        env.timeout(Duration::from_millis(1), commit).await.unwrap_err();
    });
    assert_eq!(metrics["tenure_store_commits_total{store=faulty memory,outcome=dropped}"], 1, "{metrics:?}");
}

#[test]
fn a_measured_store_prints_as_what_it_measures() {
    assert_eq!(Measured::new(MemoryStore::new(), Env::system()).to_string(), "memory");
}
