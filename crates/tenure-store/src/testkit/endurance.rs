//! [`endure`]: writers that must lose nothing and do nothing twice while their store is killed, cut off and restarted.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;

use super::tools;
use crate::{
    Check, Commit, CommitError, Env, Key, Lane, Limits, Range, Read, Receipt, Retry, Snapshot, Store,
    StoreError, StoreExt as _, Watch,
};

/// How many counters the writers share: few enough that they meet on them all the time.
const COUNTERS: u64 = 4;

/// How often each writer must succeed once the disturbances are over.
const AFTERWARDS: u64 = 5;

/// Longer than any outage here: a writer that needs longer has not gone on by itself.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the writers met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endured {
    /// How many increments were acknowledged, and are there.
    pub increments: u64,
    /// How many commits had an unknown outcome at first.
    pub unknown: u64,
}

/// Tells a disturbance how far the writers have come, so that it can wait for them to go on.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Waits until so many more increments were acknowledged.
    ///
    /// # Panics
    /// If that takes so long that the writers must have given up.
    pub async fn more(&self, increments: u64) {
        let env = Env::system();
        let enough = self.0.load(Ordering::SeqCst) + increments;
        let coming = async {
            while self.0.load(Ordering::SeqCst) < enough {
                env.sleep(Duration::from_millis(5)).await;
            }
        };
        env.timeout(PATIENCE, coming).await.expect("the writers go on by themselves");
    }
}

/// Lets `writers` tasks, spread over these handles, increment counters through lanes until `disturb` is over, and each a few times more.
/// Then everything must be there that was acknowledged, and nothing else: in the counters, and in a list to which each
/// increment appended its name.
///
/// # Panics
/// If anything was lost or done twice, or a writer did not go on by itself.
pub async fn endure<Disturbance: Future<Output = ()>>(
    stores: &[Arc<dyn Store>],
    writers: u64,
    disturb: impl FnOnce(Progress) -> Disturbance,
) -> Endured {
    let progress = Progress::default();
    let unknown = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let index = usize::try_from(writer).expect("a small number") % stores.len();
            let inner = Arc::clone(&stores[index]);
            let store = Arc::new(Counted { inner, unknown: Arc::clone(&unknown) });
            tokio::spawn(write(store, writer, Arc::clone(&over), progress.clone()))
        })
        .collect();
    disturb(progress).await;
    over.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    for (writer, task) in (0..writers).zip(tasks) {
        let count = task.await.unwrap_or_else(|failure| std::panic::resume_unwind(failure.into_panic()));
        acknowledged.extend((1..=count).map(|number| name(writer, number)));
    }
    acknowledged.sort();
    let listed = listed(&stores[0]).await;
    let (lost, foreign) = (without(&acknowledged, &listed), without(&listed, &acknowledged));
    assert!(
        lost.is_empty() && foreign.is_empty(),
        "acknowledged and not there: {lost:?}; there once too often: {foreign:?}"
    );
    let mut total = 0;
    for counter in 0..COUNTERS {
        total +=
            tools::value(&stores[0], &counter_key(counter)).await.map_or(0, |value| tools::to_number(&value));
    }
    let increments = acknowledged.len() as u64;
    assert_eq!(total, increments, "the counters hold as many increments as were acknowledged");
    Endured { increments, unknown: unknown.load(Ordering::SeqCst) }
}

/// Increments until it is over, and a few times more; returns how often.
async fn write(store: Arc<dyn Store>, writer: u64, over: Arc<AtomicBool>, progress: Progress) -> u64 {
    let retry = Retry { within: PATIENCE, ..Retry::default() };
    let key = Key::from(format!("endure/lane/{writer}").as_str());
    let mut lane = Lane::open(Arc::clone(&store), Env::system(), key, retry).await.unwrap();
    let (mut done, mut afterwards) = (0, 0);
    while afterwards < AFTERWARDS {
        let was_over = over.load(Ordering::SeqCst);
        let counter = counter_key((writer + done) % COUNTERS);
        let entry = name(writer, done + 1);
        let outcome = lane.update(|| increment(&store, &counter, &entry)).await;
        outcome.unwrap_or_else(|error| panic!("writer {writer} gave up after {done} increments: {error}"));
        done += 1;
        progress.0.fetch_add(1, Ordering::SeqCst);
        afterwards += u64::from(was_over);
    }
    done
}

async fn increment(store: &Arc<dyn Store>, counter: &Key, entry: &Bytes) -> Result<(Commit, ()), StoreError> {
    let found = store.get(counter).await?;
    let (check, number) = match found {
        Some(found) => (Check::Version(counter.clone(), found.version), tools::to_number(&found.value)),
        None => (Check::Absent(counter.clone()), 0),
    };
    let commit = Commit::new()
        .check(check)
        .set(counter.clone(), tools::number(number + 1))
        .append(list_key(), entry.clone());
    Ok((commit, ()))
}

/// Every entry of the list, sorted.
async fn listed(store: &Arc<dyn Store>) -> Vec<Bytes> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = tools::page(store, &list_key(), after.as_ref(), store.limits().page_items).await;
        after = page.items.last().map(|entry| entry.id.clone());
        found.extend(page.items.into_iter().map(|entry| entry.value));
        if !page.more {
            found.sort();
            return found;
        }
    }
}

/// What the first has more of than the second; both are sorted.
fn without(first: &[Bytes], second: &[Bytes]) -> Vec<Bytes> {
    let mut rest = second.iter().peekable();
    let mut more = Vec::new();
    for one in first {
        while rest.next_if(|other| *other < one).is_some() {}
        if rest.next_if_eq(&one).is_none() {
            more.push(one.clone());
        }
    }
    more
}

fn counter_key(counter: u64) -> Key {
    Key::from(format!("endure/counter/{counter}").as_str())
}

fn list_key() -> Key {
    Key::from("endure/list")
}

fn name(writer: u64, number: u64) -> Bytes {
    Bytes::from(format!("{writer} {number}"))
}

/// Counts the unknown outcomes that pass through.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Store>,
    unknown: Arc<AtomicU64>,
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Store for Counted {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let outcome = self.inner.commit(commit).await;
        if matches!(outcome, Err(CommitError::OutcomeUnknown(_))) {
            self.unknown.fetch_add(1, Ordering::SeqCst);
        }
        outcome
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Faults, Faulty, MemoryStore};

    /// The harness itself: over faults in memory, whose unknown outcomes it must count.
    #[tokio::test]
    async fn unknown_outcomes_are_counted_and_settled() {
        let env = Env::system();
        let faults = Faults { unknown_landed: 0.2, unknown_lost: 0.2, ..Faults::NONE };
        let faulty = Faulty::new(Arc::new(MemoryStore::new()), env.clone(), faults);
        let stores: Vec<Arc<dyn Store>> = vec![Arc::new(faulty)];
        let endured = endure(&stores, 4, async |progress| progress.more(100).await).await;
        assert!(endured.increments >= 100 + 4 * AFTERWARDS && endured.unknown > 0, "{endured:?}");
    }

    #[test]
    fn what_is_lost_or_doubled_is_told_apart() {
        let list = |names: &[&'static str]| names.iter().map(|name| Bytes::from(*name)).collect::<Vec<_>>();
        let (acknowledged, listed) = (list(&["a", "b", "c", "e"]), list(&["b", "b", "d", "e"]));
        assert_eq!(without(&acknowledged, &listed), list(&["a", "c"]));
        assert_eq!(without(&listed, &acknowledged), list(&["b", "d"]));
    }
}
