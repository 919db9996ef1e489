//! [`Bench`]: a run, with its nodes, and raw rates between the rows.

use std::{sync::Arc, thread, time::Duration};

use tenure_bench::{
    counted::Counts,
    figures::{median, per_second},
    load,
};
use tenure_store::{Commit, Env, Key, Store, Tuple};
use tokio::runtime::Runtime;

use crate::{
    options::Options,
    process::Node,
    table::{self, Row},
    task::{Task, Work},
};

/// The cluster that this comparison has for itself, and its registry.
pub(crate) const CLUSTER: &str = "tenure-bench-registry";
pub(crate) const REGISTRY: &str = "devices";

/// How many nodes there are.
pub(crate) const NODES: u64 = 3;

/// How often the raw rate is measured between two rows.
const RAW_ROUNDS: usize = 3;

/// Between two looks at nodes.
const PAUSE: Duration = Duration::from_millis(20);

/// No leader is waited for longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) url: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) rows: Vec<Row>,
    pub(crate) figures: Figures,
    runtime: Runtime,
    store: Arc<dyn Store>,
    env: Env,
    /// How many nodes were started.
    started: u64,
    /// Whether the names that are kept are there.
    filled: bool,
    /// The raw rates before the next row.
    raw: Vec<f64>,
    dir: Option<tempfile::TempDir>,
}

/// What is not a rate.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The memory of a new process that follows, with no names and with all, in KiB.
    pub(crate) resident_empty: Option<u64>,
    pub(crate) resident_full: Option<u64>,
    /// How long a newcomer took to load all names, in milliseconds: several times.
    pub(crate) loads: Vec<f64>,
    /// Hand-overs, in milliseconds.
    pub(crate) left: Vec<f64>,
    pub(crate) killed: Vec<f64>,
}

impl Bench {
    pub(crate) fn start(options: Options) -> Self {
        let runtime = tenure_bench::runtime();
        let dir =
            options.url.is_none().then(|| tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap());
        let url = match (&options.url, &dir) {
            (Some(url), _) => url.clone(),
            (None, Some(dir)) => format!("sqlite:{}", dir.path().join("names.db").display()),
            (None, None) => unreachable!("a directory is made when no store is named"),
        };
        let store = runtime.block_on(tenure::open(&url)).unwrap();
        clear(&runtime, &store);
        let mut bench = Self {
            options,
            url,
            nodes: Vec::new(),
            rows: Vec::new(),
            figures: Figures::default(),
            runtime,
            store,
            env: Env::system(),
            started: 0,
            filled: false,
            raw: Vec::new(),
            dir,
        };
        println!("{}", bench.store);
        bench.join();
        bench.raw = bench.raw_rates();
        let raw = median(bench.raw.clone());
        println!("raw: one committer, one small commit after another: {}\n", per_second(raw));
        table::print_head();
        bench
    }

    /// Has all nodes take part, and not only the first.
    pub(crate) fn complete(&mut self) {
        for _ in 1..NODES {
            self.join();
        }
        self.figures.resident_empty = self.nodes.last_mut().map(|node| node.look().resident_kib);
    }

    /// A new node takes part, as the last one.
    pub(crate) fn join(&mut self) -> &mut Node {
        let name = format!("node-{}", self.started);
        self.started += 1;
        self.nodes.push(Node::start(&self.url, name));
        self.nodes.last_mut().expect("it was just added")
    }

    /// The place of the node that leads, and its epoch.
    pub(crate) fn leader(&mut self) -> (usize, u64) {
        let start = self.env.now();
        loop {
            let looks: Vec<_> = self.nodes.iter_mut().map(Node::look).collect();
            let newest = looks.iter().map(|look| look.epoch).max().unwrap_or(0);
            if let Some(place) = looks.iter().position(|look| look.leads && look.epoch == newest) {
                return (place, newest);
            }
            assert!(self.env.now() - start < PATIENCE, "nobody leads: {looks:?}");
            thread::sleep(PAUSE);
        }
    }

    /// The place of a node that does not lead.
    pub(crate) fn follower(&mut self) -> usize {
        let (leader, _) = self.leader();
        (leader + 1) % self.nodes.len()
    }

    /// The names that a node keeps.
    pub(crate) fn share(&self, place: usize) -> (u64, u64) {
        let (names, place) = (self.options.names(), place as u64);
        (names * place / NODES, names * (place + 1) / NODES)
    }

    /// Has all names registered that are kept, a share on each node.
    pub(crate) fn fill(&mut self) {
        if !std::mem::replace(&mut self.filled, true) {
            for place in 0..self.nodes.len() {
                let (from, to) = self.share(place);
                self.nodes[place].does(&Task::Own { from, to });
            }
        }
        self.await_names(self.options.names());
    }

    /// Waits until all nodes know so many names.
    pub(crate) fn await_names(&mut self, names: u64) {
        let start = self.env.now();
        while self.nodes.iter_mut().any(|node| node.look().names != names) {
            assert!(self.env.now() - start < PATIENCE, "not all know {names} names");
            thread::sleep(PAUSE);
        }
    }

    /// Measures a row on one node, and prints it.
    pub(crate) fn row(&mut self, name: &str, place: usize, task: &Task) -> &Row {
        let before = self.counts(place);
        let mut work = self.nodes[place].work(task);
        work.counts = work.counts + (self.counts(place) - before);
        let after = self.raw_rates();
        let raw = median(std::mem::replace(&mut self.raw, after.clone()).into_iter().chain(after).collect());
        self.add(Row { name: name.to_owned(), work, raw })
    }

    fn add(&mut self, row: Row) -> &Row {
        row.print();
        self.rows.push(row);
        self.rows.last().expect("it was just added")
    }

    /// What all other nodes have asked of their stores.
    fn counts(&mut self, but: usize) -> Counts {
        let others = self.nodes.iter_mut().enumerate().filter(|(place, _)| *place != but);
        others.map(|(_, node)| node.look().counts).fold(Counts::default(), |sum, counts| sum + counts)
    }

    /// The row of this name, if it was measured.
    pub(crate) fn found(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Lets all leave, and removes what was written.
    pub(crate) fn end(mut self) {
        for node in std::mem::take(&mut self.nodes) {
            node.leave();
        }
        if self.dir.is_none() {
            clear(&self.runtime, &self.store);
        }
    }

    /// Commits a second, of one committer, a few times.
    fn raw_rates(&self) -> Vec<f64> {
        let time = Duration::from_secs_f64(self.options.raw_seconds());
        let round = |_| {
            self.runtime.block_on(async {
                let (start, mut count) = (self.env.now(), 0_u64);
                while self.env.now() - start < time {
                    let commit = Commit::new().set(raw_key(), load::value(count));
                    self.store.commit(commit).await.unwrap();
                    count += 1;
                }
                count as f64 / (self.env.now() - start).as_secs_f64()
            })
        };
        (0..RAW_ROUNDS).map(round).collect()
    }
}

fn raw_key() -> Key {
    Key::from("tenure-bench/raw-registry")
}

/// Deletes what this run, or one that was broken off, has written.
fn clear(runtime: &Runtime, store: &Arc<dyn Store>) {
    let cluster = Tuple::new().text("tenure").name(&CLUSTER.parse().unwrap()).range();
    let commit = Commit::new().delete_range(cluster).delete(raw_key());
    if let Err(error) = runtime.block_on(store.commit(commit)) {
        println!("what was written could not be deleted: {error}");
    }
}

impl Bench {
    /// What came of a task that asks nothing of the store.
    pub(crate) fn memory(&mut self, name: &str, place: usize, task: &Task) -> &Row {
        let work: Work = self.nodes[place].work(task);
        self.add(Row { name: name.to_owned(), work, raw: f64::NAN })
    }
}
