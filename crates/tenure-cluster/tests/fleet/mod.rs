//! A fleet of nodes in one process, on simulated time, over one store in memory.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure_cluster::{Cluster, ClusterError, Settings};
use tenure_store::{
    Commit, CommitError, Env, Faults, Faulty, Gate, Limits, MemoryStore, Range, Read, Receipt, Snapshot,
    Store, StoreError, Watch,
};

/// What all nodes of a test share.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) env: Env,
    pub(crate) store: Arc<dyn Store>,
}

/// One node: a simulated process with a link to the store that can be cut.
pub(crate) struct Seat {
    pub(crate) cluster: Cluster,
    pub(crate) gate: Gate,
    pub(crate) link: Arc<Faulty>,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self { env: Env::simulated(7), store: Arc::new(MemoryStore::new()) }
    }

    pub(crate) fn settings(node: &str) -> Settings {
        let mut settings = Settings::new("c", node).unwrap();
        // One process runs all of them.
        settings.proof_of_death = false;
        settings
    }

    pub(crate) async fn join(&self, node: &str) -> Seat {
        self.join_with(Self::settings(node)).await.unwrap()
    }

    pub(crate) async fn join_with(&self, settings: Settings) -> Result<Seat, ClusterError> {
        let gate = Gate::new();
        let env = self.env.fork().behind(&gate);
        let link = Arc::new(Faulty::new(Arc::clone(&self.store), self.env.fork(), Faults::NONE));
        let cluster = Cluster::join_in(Arc::clone(&link) as Arc<dyn Store>, settings, env).await?;
        Ok(Seat { cluster, gate, link })
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    /// What a future gives within a while, by simulated time.
    pub(crate) async fn soon<T>(&self, what: &str, seconds: u64, future: impl Future<Output = T>) -> T {
        let waited = self.env.timeout(Duration::from_secs(seconds), future).await;
        waited.unwrap_or_else(|_| panic!("{what} took longer than {seconds} s"))
    }
}

/// A store that counts what is asked of it.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    store: MemoryStore,
    reads: AtomicU64,
    commits: AtomicU64,
}

impl Counted {
    /// A fleet on such a store, and the store.
    pub(crate) fn fleet() -> (Fleet, Arc<Counted>) {
        let counted = Arc::new(Counted::default());
        (Fleet { store: Arc::clone(&counted) as Arc<dyn Store>, ..Fleet::new() }, counted)
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    pub(crate) fn all(&self) -> u64 {
        self.commits() + self.reads.load(Ordering::SeqCst)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl Store for Counted {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.store.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        self.store.watch(range)
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }
}
