//! [`Daemon`]: `tenure serve`, built for release, on a store of its own.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use tenure_bench::program;
use tenure_store::{Commit, Store as _, Tuple};
use tokio::runtime::Runtime;

use crate::options::Options;

/// The cluster that this comparison has for itself.
const CLUSTER: &str = "tenure-bench-http";

/// A daemon. Killed when dropped.
pub(crate) struct Daemon {
    process: Child,
    pub(crate) address: SocketAddr,
    url: String,
    dir: Option<tempfile::TempDir>,
}

impl Daemon {
    pub(crate) fn start(runtime: &Runtime, options: &Options) -> Self {
        let dir =
            options.url.is_none().then(|| tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap());
        let url = match (&options.url, &dir) {
            (Some(url), _) => url.clone(),
            (None, Some(dir)) => format!("sqlite:{}", dir.path().join("leases.db").display()),
            (None, None) => unreachable!("a directory is made when no store is named"),
        };
        clear(runtime, &url);
        let mut process = Command::new(program::tenure())
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--cluster", CLUSTER])
            // Everybody on the machine could read an argument.
            .env("TENURE_STORE", &url)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("://").expect("it says where it serves").1.parse().unwrap();
        Self { process, address, url, dir }
    }

    /// How much memory it has had at most.
    pub(crate) fn memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Ends it, and deletes what it wrote.
    pub(crate) fn end(mut self, runtime: &Runtime) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        if self.dir.is_none() {
            clear(runtime, &self.url);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn clear(runtime: &Runtime, url: &str) {
    runtime.block_on(async {
        let store = tenure::open(url).await.unwrap();
        let range = Tuple::new().text("tenure").name(&CLUSTER.parse().unwrap()).range();
        store.commit(Commit::new().delete_range(range)).await.unwrap();
    });
}
