//! Nodes in one process, on simulated time, over one store in memory, and children that count themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_cluster::{Cluster, Settings};
use tenure_singleton::{Mandate, Singleton, SingletonBuilder, Singletons as _};
use tenure_store::{
    Commit, CommitError, Env, Faults, Faulty, Gate, Limited, Limits, MemoryStore, Moment, Range, Read,
    Receipt, Snapshot, Store, StoreError, Watch,
};

/// What all nodes of a test share.
pub(crate) struct Fleet {
    pub(crate) env: Env,
    pub(crate) store: Arc<Counted>,
    pub(crate) stage: Arc<Stage>,
}

/// One node: a simulated process with a link to the store that can be cut.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) cluster: Cluster,
    pub(crate) gate: Gate,
    pub(crate) link: Arc<Faulty>,
    pub(crate) singletons: Vec<Singleton>,
    env: Env,
    stage: Arc<Stage>,
}

/// Where children run.
#[derive(Default)]
pub(crate) struct Stage {
    now: Mutex<BTreeMap<String, Vec<String>>>,
    /// Each start: what, where, when.
    starts: Mutex<Vec<(String, String, Moment)>>,
    doubles: AtomicU64,
}

/// A child that runs.
pub(crate) struct Act {
    stage: Arc<Stage>,
    name: String,
    node: String,
}

impl Drop for Act {
    fn drop(&mut self) {
        let mut now = self.stage.now.lock();
        let on = now.get_mut(&self.name).unwrap();
        on.remove(on.iter().position(|node| *node == self.node).unwrap());
    }
}

impl Stage {
    pub(crate) fn enter(self: &Arc<Self>, name: &str, node: &str, at: Moment) -> Act {
        let mut now = self.now.lock();
        let on = now.entry(name.to_owned()).or_default();
        on.push(node.to_owned());
        if on.len() > 1 {
            self.doubles.fetch_add(1, Ordering::SeqCst);
        }
        self.starts.lock().push((name.to_owned(), node.to_owned(), at));
        Act { stage: Arc::clone(self), name: name.to_owned(), node: node.to_owned() }
    }

    /// Where each singleton runs. No two children of one have ever run at once.
    pub(crate) fn running(&self) -> BTreeMap<String, String> {
        assert_eq!(self.doubles.load(Ordering::SeqCst), 0, "two children of one singleton at a time");
        let now = self.now.lock();
        now.iter().filter_map(|(name, on)| Some((name.clone(), on.first()?.clone()))).collect()
    }

    /// How many run on each node.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        self.running().into_values().for_each(|node| *counts.entry(node).or_default() += 1);
        counts
    }

    /// What was started since the last call.
    pub(crate) fn take_starts(&self) -> Vec<(String, String, Moment)> {
        std::mem::take(&mut *self.starts.lock())
    }

    /// How often anything was started since then.
    pub(crate) fn started(&self) -> usize {
        self.starts.lock().len()
    }
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let store = Arc::new(Counted::default());
        Self { env: Env::simulated(11), store, stage: Arc::default() }
    }

    pub(crate) async fn join(&self, name: &str) -> Node {
        self.join_with(name, &[]).await
    }

    pub(crate) async fn join_with(&self, name: &str, labels: &[(&str, &str)]) -> Node {
        let gate = Gate::new();
        let env = self.env.fork().behind(&gate);
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let link = Arc::new(Faulty::new(store, self.env.fork(), Faults::NONE));
        let mut settings = Settings::new("c", name).unwrap();
        // One process runs all of them.
        settings.proof_of_death = false;
        settings.labels =
            labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
        let cluster =
            Cluster::join_in(Arc::clone(&link) as Arc<dyn Store>, settings, env.clone()).await.unwrap();
        let (name, stage) = (name.to_owned(), Arc::clone(&self.stage));
        Node { name, cluster, gate, link, singletons: Vec::new(), env, stage }
    }

    /// So many nodes, each of which spreads so many singletons.
    pub(crate) async fn start(&self, nodes: usize, singletons: usize) -> Vec<Node> {
        let mut all = Vec::new();
        for number in 0..nodes {
            let mut node = self.join(&format!("n{number}")).await;
            node.spread(singletons);
            all.push(node);
        }
        all
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until something is so; returns how long it took.
    pub(crate) async fn until(&self, what: &str, seconds: u64, mut is: impl FnMut() -> bool) -> Duration {
        let start = self.env.now();
        while !is() {
            assert!(self.env.now() - start < Duration::from_secs(seconds), "{what}: not within {seconds} s");
            self.env.sleep(Duration::from_millis(20)).await;
        }
        self.env.now() - start
    }

    pub(crate) async fn all_run(&self, count: usize, seconds: u64) -> Duration {
        self.until("all run", seconds, || self.stage.running().len() == count).await
    }

    /// Waits until nothing was started for a while.
    pub(crate) async fn calm(&self, seconds: u64, most: u64) {
        let start = self.env.now();
        loop {
            let before = self.stage.started();
            self.sleep(seconds).await;
            if self.stage.started() == before {
                return;
            }
            assert!(self.env.now() - start < Duration::from_secs(most), "it does not come to rest");
        }
    }
}

impl Node {
    /// A singleton whose child counts itself.
    pub(crate) fn singleton(&self, name: &str) -> SingletonBuilder {
        let (stage, name, node, env) =
            (Arc::clone(&self.stage), name.to_owned(), self.name.clone(), self.env.clone());
        let id = name.clone();
        self.cluster.singleton(&id, move |mandate: Mandate| {
            let act = stage.enter(&name, &node, env.now());
            async move {
                let _act = act;
                mandate.cancelled().await;
            }
        })
    }

    pub(crate) fn spread(&mut self, count: usize) {
        for number in 0..count {
            let singleton = self.singleton(&format!("s{number:04}")).spread().start().unwrap();
            self.singletons.push(singleton);
        }
    }

    /// Ends the process at once: nothing of it reaches the store any more.
    pub(crate) fn kill(&self) {
        self.link.cut();
        self.gate.kill();
    }

    /// Who places singletons.
    pub(crate) async fn placer(&self) -> Option<String> {
        let election = self.cluster.ground().election("tenure/placer".parse().unwrap());
        election.leader().await.unwrap().leader.map(|leader| leader.node.to_string())
    }
}

/// Whether all of these are within a tenth of the mean, or one singleton.
pub(crate) fn is_even(counts: &BTreeMap<String, usize>, nodes: usize) -> bool {
    let mean = counts.values().sum::<usize>() as f64 / nodes as f64;
    counts.len() == nodes
        && counts.values().all(|count| (*count as f64 - mean).abs() <= (mean * 0.1).max(1.0))
}

/// The names that run elsewhere, or did not run, before.
pub(crate) fn moved(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeSet<String> {
    after
        .iter()
        .filter(|(name, node)| before.get(*name) != Some(node))
        .map(|(name, _)| name.clone())
        .collect()
}

/// A store within the limits of all stores that counts what it is asked, and refuses a placer's words if it is to.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: Limited<MemoryStore>,
    reads: AtomicU64,
    commits: AtomicU64,
    pub(crate) refuses_posts: AtomicBool,
}

impl Default for Counted {
    fn default() -> Self {
        let inner = Limited::new(MemoryStore::new(), Limits::PORTABLE);
        let (reads, commits, refuses_posts) = Default::default();
        Self { inner, reads, commits, refuses_posts }
    }
}

impl Counted {
    /// Commits and reads since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.commits.swap(0, Ordering::SeqCst), self.reads.swap(0, Ordering::SeqCst))
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
        let post = commit
            .writes
            .iter()
            .any(|write| write.range().start().as_bytes().windows(4).any(|bytes| bytes == b"post"));
        if post && self.refuses_posts.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("no placer may write").into());
        }
        self.inner.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}
