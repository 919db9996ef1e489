//! Places in a cluster for one test each: a prefix of its own, gone when the test is over.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    sync::Arc,
    time::Duration,
};

use tenure_etcd::{EtcdStore, Settings};
use tenure_store::{Commit, Env, Range, Store};
use tenure_testbed::Etcd;

/// A prefix of its own in a cluster.
pub(crate) struct Place {
    settings: Settings,
}

impl Place {
    /// A new place in the cluster at this URL.
    pub(crate) fn new(url: &str) -> Self {
        let mut settings = Settings::from_url(url).unwrap();
        settings.prefix = format!("test/{:016x}", Env::system().random_u64());
        Self { settings }
    }

    /// A new place in the shared cluster.
    pub(crate) fn shared() -> Self {
        Self::new(&tenure_testbed::etcd())
    }

    /// How to open a store here.
    pub(crate) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// A store here that knows one member alone, the `index`th counted around.
    pub(crate) async fn open_at(&self, index: usize) -> EtcdStore {
        let mut settings = self.settings();
        settings.hosts = vec![settings.hosts[index % settings.hosts.len()].clone()];
        EtcdStore::open_with(settings).await.unwrap()
    }

    /// A store here that knows every member.
    pub(crate) async fn open(&self) -> EtcdStore {
        EtcdStore::open_with(self.settings()).await.unwrap()
    }

    /// `count` stores here, each at another member.
    pub(crate) async fn handles(&self, count: usize) -> Vec<Arc<dyn Store>> {
        let mut stores: Vec<Arc<dyn Store>> = Vec::new();
        for index in 0..count {
            stores.push(Arc::new(self.open_at(index).await));
        }
        stores
    }
}

impl Drop for Place {
    /// Deletes everything, on a thread of its own, since the test's runtime may be ending.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let settings = self.settings();
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let store = EtcdStore::open_with(settings).await.unwrap();
                store.commit(Commit::new().delete_range(Range::all())).await.unwrap();
            });
        });
        cleaning.join().unwrap();
    }
}

/// Waits until `done` says so.
pub(crate) async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let env = Env::system();
    let limit = env.now().after(Duration::from_secs(30));
    while !done().await {
        assert!(env.now() < limit, "{what} did not happen");
        env.sleep(Duration::from_millis(10)).await;
    }
}

/// Runs etcd's own client on a cluster, as nobody or as `login`.
pub(crate) fn control(etcd: &Etcd, login: Option<&str>, args: &[&str]) {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", etcd.endpoints().join(",")));
    if let Some(login) = login {
        command.arg(format!("--user={login}"));
    }
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "etcdctl {args:?}: {output:?}");
}

/// The sum of a metric over all members, of the lines that contain all of `labels`.
pub(crate) fn metric(etcd: &Etcd, name: &str, labels: &[&str]) -> u64 {
    let pages = etcd.metrics_ports().into_iter().map(metrics_page);
    let lines = pages.flat_map(|page| page.lines().map(str::to_owned).collect::<Vec<_>>());
    let lines = lines.filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    });
    // Large counts are written as 1.5e+07.
    let number = |line: String| format!("{:.0}", line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    lines.map(|line| number(line).parse::<u64>().unwrap()).sum()
}

fn metrics_page(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}
