//! [`Bench`]: a run, with the node that serves, and raw rates between the rows.

use std::{sync::Arc, time::Duration};

use tenure_bench::{
    bare::{BareEtcd, BareMysql, BareSqlite, PgBench},
    counted::{Counted, Counts},
    figures::{median, per_second},
    load,
};
use tenure_cluster::Cluster;
use tenure_server::Serve as _;
use tenure_store::{Commit, Env, Key, Store, Tuple};
use tokio::runtime::Runtime;

use crate::{
    crowd::Work,
    kinds::{Counter, Ledger},
    options::Options,
    process::{self, Task},
    table::{self, Row},
};

/// The cluster that this comparison has for itself.
pub(crate) const CLUSTER: &str = "tenure-bench-server";

/// How often the raw rate is measured between two rows.
const RAW_ROUNDS: usize = 3;

/// What goes on after the last answer (marks that are removed, looks that find nothing) has ended when nothing was asked of the store for so long: janitors go round every second.
const REST: Duration = Duration::from_millis(1500);

/// No row's aftermath is waited for longer.
const REST_MOST: Duration = Duration::from_secs(8);

/// How many commits the bare client makes.
const BARE_COMMITS: u64 = 1000;

/// A run.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) runtime: Runtime,
    pub(crate) url: String,
    /// The store of this process, counted.
    pub(crate) counted: Arc<Counted>,
    /// This process's node, which serves all kinds; `None` once it has left.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) rows: Vec<Row>,
    /// The same store, not counted.
    store: Arc<dyn Store>,
    env: Env,
    /// The raw rates before the next row.
    raw: Vec<f64>,
    dir: Option<tempfile::TempDir>,
}

impl Bench {
    pub(crate) fn start(options: Options) -> Self {
        let runtime = tenure_bench::runtime();
        let dir =
            options.url.is_none().then(|| tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap());
        let url = match (&options.url, &dir) {
            (Some(url), _) => url.clone(),
            (None, Some(dir)) => format!("sqlite:{}", dir.path().join("servers.db").display()),
            (None, None) => unreachable!("a directory is made when no store is named"),
        };
        let store = runtime.block_on(tenure::open(&url)).unwrap();
        clear(&runtime, &store);
        let counted = Arc::new(Counted::new(Arc::clone(&store), &CLUSTER.parse().unwrap()));
        let cluster = runtime.block_on(async {
            let cluster = process::join(&counted, "consumer").await;
            cluster.serve::<Counter>().unwrap();
            cluster.serve::<Ledger>().unwrap();
            cluster
        });
        let env = Env::system();
        let cluster = Some(cluster);
        let mut bench = Self {
            options,
            runtime,
            url,
            counted,
            cluster,
            rows: Vec::new(),
            store,
            env,
            raw: Vec::new(),
            dir,
        };
        println!("{}", bench.store);
        bench.settle();
        let (name, bare) = bench.bare();
        bench.raw = bench.raw_rates();
        let raw = median(bench.raw.clone());
        println!(
            "raw: one committer, one small commit after another: {} through our store, {} by {name}\n",
            per_second(raw),
            per_second(bare)
        );
        table::print_head();
        bench
    }

    /// The node that serves.
    pub(crate) fn cluster(&self) -> Cluster {
        self.cluster.clone().expect("the node leaves after the last row that needs it")
    }

    /// Measures a row, and prints it. `note` is what else there is to say of it.
    pub(crate) fn row(
        &mut self,
        name: &str,
        measure: impl FnOnce(&Self) -> Work,
        note: impl FnOnce(&Work) -> String,
    ) {
        let mut work = measure(self);
        work.counts = work.counts + self.settle();
        let after = self.raw_rates();
        let raw = median(std::mem::replace(&mut self.raw, after.clone()).into_iter().chain(after).collect());
        let row = Row { name: name.to_owned(), note: note(&work), work, raw };
        row.print();
        self.rows.push(row);
    }

    /// Has a task done by another process, while this one serves.
    pub(crate) fn done_elsewhere(&self, task: &Task) -> Work {
        process::done_elsewhere(&self.url, task, &|| self.counted.counts())
    }

    /// The row of this name, if it was measured.
    pub(crate) fn found(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Leaves, and removes what was written.
    pub(crate) fn end(mut self) {
        if let Some(cluster) = self.cluster.take() {
            self.runtime.block_on(cluster.leave());
        }
        if self.dir.is_none() {
            clear(&self.runtime, &self.store);
        }
    }

    /// Waits until servers are at rest, and returns what was asked of the store until then.
    fn settle(&self) -> Counts {
        let start = (self.env.now(), self.counted.counts());
        let (mut since, mut seen) = start;
        loop {
            self.runtime.block_on(self.env.sleep(Duration::from_millis(50)));
            let (now, counts) = (self.env.now(), self.counted.counts());
            if counts != seen {
                (since, seen) = (now, counts);
            }
            if now - since > REST || now - start.0 > REST_MOST {
                return counts - start.1;
            }
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

    /// The rate of one client without us, and what it is.
    fn bare(&self) -> (&'static str, f64) {
        let scheme = self.url.split(':').next().unwrap_or_default();
        match scheme {
            "sqlite" => {
                let path = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
                ("bare SQLite", BareSqlite::open(&path.path().join("bare.db")).commits(BARE_COMMITS))
            }
            "postgres" | "postgresql" => ("pgbench", PgBench::prepare(&self.url, 1).commits(1)),
            "mysql" | "mariadb" => {
                ("a bare client", BareMysql::connect(&self.runtime, &self.url, 1).commits(BARE_COMMITS))
            }
            "etcd" => ("a bare client", BareEtcd::connect(&self.runtime, &self.url).commits(1, BARE_COMMITS)),
            _ => ("nobody", f64::NAN),
        }
    }
}

fn raw_key() -> Key {
    Key::from("tenure-bench/raw")
}

/// Deletes what this run, or one that was broken off, has written.
fn clear(runtime: &Runtime, store: &Arc<dyn Store>) {
    let cluster = Tuple::new().text("tenure").name(&CLUSTER.parse().unwrap()).range();
    let commit = Commit::new().delete_range(cluster).delete(raw_key());
    if let Err(error) = runtime.block_on(store.commit(commit)) {
        println!("what was written could not be deleted: {error}");
    }
}
