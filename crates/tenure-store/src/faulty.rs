//! [`Faulty`]: a store that fails in every way a store may fail, by dice that a seed decides.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::{
    Commit, CommitError, Conflict, Env, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Waker,
    Watch, latest,
};

/// How likely each fault is, from 0 to 1, for each request. The kinds of one request exclude each other and must not sum to
/// more than 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// A commit is refused as if it had met a concurrent one. It never happens.
    pub conflict: f64,
    /// A commit or a read is refused. It never happens.
    pub unavailable: f64,
    /// A commit happens, and its answer is lost.
    pub unknown_landed: f64,
    /// A commit never happens, and that is not told.
    pub unknown_lost: f64,
    /// A commit's answer is lost, and it happens later, after up to `late`: when its maker may have looked already.
    pub unknown_late: f64,
    /// How long a late commit or waking may take.
    pub late: Duration,
    /// Every request is delayed by up to this long on its way there, and again on its way back.
    pub delay: Duration,
    /// A waking is lost: it comes only with the store's slow re-read, after `reread`.
    pub watch_lost: f64,
    /// A waking takes up to `late`.
    pub watch_late: f64,
    /// After how long a lost waking comes all the same.
    pub reread: Duration,
}

impl Faults {
    /// No faults.
    pub const NONE: Faults = Faults {
        conflict: 0.0,
        unavailable: 0.0,
        unknown_landed: 0.0,
        unknown_lost: 0.0,
        unknown_late: 0.0,
        late: Duration::from_millis(200),
        delay: Duration::ZERO,
        watch_lost: 0.0,
        watch_late: 0.0,
        reread: Duration::from_secs(5),
    };

    /// Some of everything: about one request in four fails.
    pub const STORM: Faults = Faults {
        conflict: 0.05,
        unavailable: 0.05,
        unknown_landed: 0.05,
        unknown_lost: 0.05,
        unknown_late: 0.05,
        delay: Duration::from_millis(5),
        watch_lost: 0.1,
        watch_late: 0.2,
        ..Faults::NONE
    };
}

/// How often each fault was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Commits refused as conflicts.
    pub conflict: u64,
    /// Requests refused as unavailable.
    pub unavailable: u64,
    /// Commits that happened without an answer.
    pub unknown_landed: u64,
    /// Commits that never happened, without an answer.
    pub unknown_lost: u64,
    /// Commits that came late, without an answer.
    pub unknown_late: u64,
    /// Wakings that came only with the slow re-read.
    pub watch_lost: u64,
    /// Wakings that came late.
    pub watch_late: u64,
    /// Requests made while the node was cut off.
    pub cut: u64,
}

/// One node's way to a store, with faults on it. Nodes that share a store get one each, so that each can be cut off alone.
///
/// What it injects is what the [contract](Store) allows: a protocol that fails over it would fail over a real store some day.
#[derive(Debug)]
pub struct Faulty {
    link: Arc<Link>,
}

#[derive(Debug)]
struct Link {
    inner: Arc<dyn Store>,
    env: Env,
    faults: Mutex<Faults>,
    tally: Mutex<Tally>,
    cut: latest::Sender<bool>,
}

/// What the dice say of a commit.
enum Fate {
    Passes,
    Conflict,
    Unavailable,
    Landed,
    Lost,
    Late(Duration),
}

impl Faulty {
    /// The way to `inner`, with these faults and the dice of `env`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, env: Env, faults: Faults) -> Self {
        let cut = latest::Sender::new(false);
        Self { link: Arc::new(Link { inner, env, faults: Mutex::new(faults), tally: Mutex::default(), cut }) }
    }

    /// From now on, these faults.
    pub fn set_faults(&self, faults: Faults) {
        *self.link.faults.lock() = faults;
    }

    /// Cuts the node off: until [`heal`](Faulty::heal), no request and no waking passes, and no answer returns.
    pub fn cut(&self) {
        self.link.cut.send_replace(true);
    }

    /// Ends the cut. Wakings that it held back arrive.
    pub fn heal(&self) {
        self.link.cut.send_replace(false);
    }

    /// What was injected so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        *self.link.tally.lock()
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.link.inner)
    }
}

#[async_trait]
impl Store for Faulty {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let link = &self.link;
        link.inner.limits().admit_reads(&reads)?;
        link.travel().await;
        let failed = link.env.chance(link.faults().unavailable);
        if link.is_cut() || failed {
            return Err(link.unavailable());
        }
        let snapshot = link.inner.read(reads).await?;
        link.travel().await;
        if link.is_cut() { Err(link.unavailable()) } else { Ok(snapshot) }
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let link = &self.link;
        link.inner.limits().admit_commit(&commit)?;
        let fate = link.fate();
        link.travel().await;
        if link.is_cut() {
            return Err(link.cut_before_landing());
        }
        let answer = match fate {
            Fate::Passes => link.inner.commit(commit).await,
            Fate::Conflict => {
                link.tally.lock().conflict += 1;
                return Err(Conflict::Contention.into());
            }
            Fate::Unavailable => return Err(link.unavailable().into()),
            Fate::Landed => {
                link.tally.lock().unknown_landed += 1;
                // Whatever came of it, the answer is lost.
                let _ = link.inner.commit(commit).await;
                return Err(CommitError::unknown("the answer was lost"));
            }
            Fate::Lost => {
                link.tally.lock().unknown_lost += 1;
                return Err(CommitError::unknown("the request was lost"));
            }
            Fate::Late(time) => {
                link.tally.lock().unknown_late += 1;
                link.land_late(commit, time);
                return Err(CommitError::unknown("the request is late"));
            }
        };
        link.travel().await;
        if link.is_cut() {
            link.tally.lock().cut += 1;
            return Err(CommitError::unknown("the node was cut off before the answer came"));
        }
        answer
    }

    fn watch(&self, range: Range) -> Watch {
        let inner = self.link.inner.watch(range);
        let (waker, watch) = Watch::pair();
        watch.guarded(AbortOnDrop(tokio::spawn(Arc::clone(&self.link).forward(inner, waker))))
    }

    fn limits(&self) -> Limits {
        self.link.inner.limits()
    }
}

impl Link {
    fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    fn is_cut(&self) -> bool {
        *self.cut.borrow()
    }

    fn unavailable(&self) -> StoreError {
        let mut tally = self.tally.lock();
        if self.is_cut() {
            tally.cut += 1;
            return StoreError::unavailable("the node is cut off from the store");
        }
        tally.unavailable += 1;
        StoreError::unavailable("an injected fault")
    }

    /// A cut-off node sees a refused connection as often as it waits for an answer that never comes.
    fn cut_before_landing(&self) -> CommitError {
        if self.env.chance(0.5) {
            return self.unavailable().into();
        }
        self.tally.lock().cut += 1;
        CommitError::unknown("the node was cut off before the request arrived")
    }

    fn fate(&self) -> Fate {
        let faults = self.faults();
        // One roll decides, so that each kind is as likely as it says, whatever the others are.
        let mut roll = self.env.random_time(Duration::from_secs(1)).as_secs_f64();
        let mut hit = |probability: f64| {
            roll -= probability;
            roll < 0.0
        };
        if hit(faults.conflict) {
            Fate::Conflict
        } else if hit(faults.unavailable) {
            Fate::Unavailable
        } else if hit(faults.unknown_landed) {
            Fate::Landed
        } else if hit(faults.unknown_lost) {
            Fate::Lost
        } else if hit(faults.unknown_late) {
            Fate::Late(self.env.random_time(faults.late))
        } else {
            Fate::Passes
        }
    }

    async fn travel(&self) {
        let delay = self.faults().delay;
        if !delay.is_zero() {
            self.env.sleep(self.env.random_time(delay)).await;
        }
    }

    fn land_late(&self, commit: Commit, time: Duration) {
        let (inner, env) = (Arc::clone(&self.inner), self.env.clone());
        tokio::spawn(async move {
            env.sleep(time).await;
            // Nobody waits for this answer.
            let _ = inner.commit(commit).await;
        });
    }

    async fn forward(self: Arc<Self>, mut inner: Watch, waker: Waker) {
        loop {
            inner.changed().await;
            let faults = self.faults();
            if self.env.chance(faults.watch_lost) {
                self.tally.lock().watch_lost += 1;
                self.env.sleep(faults.reread).await;
            } else if self.env.chance(faults.watch_late) {
                self.tally.lock().watch_late += 1;
                self.env.sleep(self.env.random_time(faults.late)).await;
            }
            // The sender lives in this very link, so waiting cannot fail.
            let _ = self.cut.subscribe().wait_for(|cut| !cut).await;
            waker.wake();
        }
    }
}

/// Ends the task when its handle goes.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Key, MemoryStore, StoreExt};

    use super::*;

    fn faulty(faults: Faults) -> (Arc<MemoryStore>, Faulty) {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::clone(&memory) as Arc<dyn Store>;
        (memory, Faulty::new(store, Env::simulated(1), faults))
    }

    fn put(key: &str) -> Commit {
        Commit::new().set(Key::from(key), "v")
    }

    async fn is_there(memory: &MemoryStore, key: &str) -> bool {
        memory.get(&Key::from(key)).await.unwrap().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn each_fault_does_what_it_says() {
        let (memory, store) = faulty(Faults { conflict: 1.0, ..Faults::NONE });
        assert!(matches!(store.commit(put("a")).await, Err(CommitError::Conflict(Conflict::Contention))));

        store.set_faults(Faults { unavailable: 1.0, ..Faults::NONE });
        assert!(matches!(store.commit(put("a")).await, Err(CommitError::Failed(StoreError::Unavailable(_)))));
        assert!(matches!(store.get(&Key::from("a")).await, Err(StoreError::Unavailable(_))));

        store.set_faults(Faults { unknown_lost: 1.0, ..Faults::NONE });
        assert!(matches!(store.commit(put("a")).await, Err(CommitError::OutcomeUnknown(_))));
        assert!(!is_there(&memory, "a").await);

        store.set_faults(Faults { unknown_landed: 1.0, ..Faults::NONE });
        assert!(matches!(store.commit(put("b")).await, Err(CommitError::OutcomeUnknown(_))));
        assert!(is_there(&memory, "b").await);

        store.set_faults(Faults { unknown_late: 1.0, ..Faults::NONE });
        assert!(matches!(store.commit(put("c")).await, Err(CommitError::OutcomeUnknown(_))));
        assert!(!is_there(&memory, "c").await, "it is not there when its maker looks");
        store.link.env.sleep(Duration::from_secs(1)).await;
        assert!(is_there(&memory, "c").await, "and comes afterwards");

        let expected = Tally {
            conflict: 1,
            unavailable: 2,
            unknown_lost: 1,
            unknown_landed: 1,
            unknown_late: 1,
            ..Tally::default()
        };
        assert_eq!(store.tally(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_stops_everything_until_it_heals() {
        let (memory, store) = faulty(Faults::NONE);
        let mut watch = store.watch(Range::all());
        store.cut();
        for key in ["a", "b", "c", "d"] {
            store.commit(put(key)).await.unwrap_err();
            assert!(!is_there(&memory, key).await);
        }
        store.get(&Key::from("a")).await.unwrap_err();
        memory.commit(put("elsewhere")).await.unwrap();
        let env = &store.link.env;
        env.timeout(Duration::from_secs(3600), watch.changed()).await.unwrap_err();
        store.heal();
        env.timeout(Duration::from_secs(1), watch.changed()).await.unwrap();
        store.commit(put("a")).await.unwrap();
        assert!(store.tally().cut >= 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_while_the_answer_travels_makes_the_outcome_unknown() {
        let delay = Duration::from_secs(10);
        let (memory, store) = faulty(Faults { delay, ..Faults::NONE });
        let store = Arc::new(store);
        let env = store.link.env.clone();
        let sent = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.commit(put("a")).await }
        });
        while !is_there(&memory, "a").await {
            env.sleep(Duration::from_millis(100)).await;
        }
        store.cut();
        assert!(matches!(sent.await.unwrap(), Err(CommitError::OutcomeUnknown(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_wakings_come_with_the_slow_reread() {
        let (_, store) = faulty(Faults { watch_lost: 1.0, ..Faults::NONE });
        let env = store.link.env.clone();
        let mut watch = store.watch(Range::all());
        let start = env.now();
        store.commit(put("a")).await.unwrap();
        watch.changed().await;
        assert_eq!(env.now() - start, Faults::NONE.reread);
        assert_eq!(store.tally().watch_lost, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_watch_ends_its_task() {
        let (memory, store) = faulty(Faults::NONE);
        let watch = store.watch(Range::all());
        tokio::task::yield_now().await;
        drop(watch);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        drop(memory);
        assert_eq!(Arc::strong_count(&store.link), 1);
    }
}
