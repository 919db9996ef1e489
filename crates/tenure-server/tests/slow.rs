//! Callbacks that take long are reported, while they run. On real time: a callback can't wait in a simulated one.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, mpsc},
    time::Duration,
};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use parking_lot::Mutex;
use tenure_cluster::{Cluster, Settings};
use tenure_server::{Context, Failure, Never, Policy, Serve as _, Server};
use tenure_store::{Env, MemoryStore};

/// By name, kind and sort.
type Counts = BTreeMap<[String; 3], f64>;

/// For all threads of this program, since another than the callback's reports it; and what it has counted so far.
static COUNTED: LazyLock<Mutex<(Snapshotter, Counts)>> = LazyLock::new(|| {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    Mutex::new((snapshotter, BTreeMap::new()))
});

/// What was counted of one kind, by the sort of message.
fn counted(name: &str, kind: &str, sort: &str) -> f64 {
    let mut counted = COUNTED.lock();
    for (key, _, _, value) in counted.0.snapshot().into_vec() {
        let label = |name: &str| {
            let found = key.key().labels().find(|label| label.key() == name);
            found.map(|label| label.value().to_owned()).unwrap_or_default()
        };
        let place = counted.1.entry([key.key().name().to_owned(), label("kind"), label("sort")]).or_default();
        // A snapshot begins to count anew, gauges too.
        #[allow(clippy::cast_precision_loss, reason = "a test counts to a few")]
        match value {
            DebugValue::Counter(count) => *place += count as f64,
            DebugValue::Gauge(change) => *place += change.into_inner(),
            DebugValue::Histogram(values) => *place += values.len() as f64,
        }
    }
    counted.1.get(&[name, kind, sort].map(str::to_owned)).copied().unwrap_or_default()
}

/// Takes its time.
#[derive(Default)]
struct Slow;

impl Server for Slow {
    const KIND: &'static str = "slow";
    const POLICY: Policy = Policy { slow: Duration::from_millis(5), ..Policy::DEFAULT };
    type State = u64;
    type Call = u64;
    type Reply = ();
    type Cast = Never;
    type Effect = Never;

    fn handle_call(&self, _: &mut u64, ms: &u64, _: &mut Context<'_, Self>) -> Result<Option<()>, Failure> {
        std::thread::sleep(Duration::from_millis(*ms));
        Ok(Some(()))
    }

    fn handle_cast(&self, _: &mut u64, cast: &Never, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        match *cast {}
    }
}

#[tokio::test]
async fn slow_callbacks_are_counted_once() {
    LazyLock::force(&COUNTED);
    let settings = Settings::new("c", "a").unwrap();
    let cluster = Cluster::join(Arc::new(MemoryStore::new()), settings).await.unwrap();
    cluster.serve::<Slow>().unwrap();
    let slow = cluster.server::<Slow>("s").unwrap();
    for (ms, counts) in [(10, 1.0), (200, 2.0)] {
        slow.call(ms).await.unwrap();
        assert_eq!(counted("tenure_server_slow_callbacks_total", "slow", "call"), counts);
        assert_eq!(counted("tenure_server_slow_callbacks", "slow", "call"), 0.0, "it has returned");
    }
    cluster.leave().await;
}

/// Does not return until it is told to.
struct Stuck(Mutex<mpsc::Receiver<()>>);

impl Server for Stuck {
    const KIND: &'static str = "stuck";
    type State = u64;
    type Call = Never;
    type Reply = ();
    type Cast = u64;
    type Effect = Never;

    fn handle_call(
        &self,
        _: &mut u64,
        call: &Never,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<()>, Failure> {
        match *call {}
    }

    fn handle_cast(&self, _: &mut u64, _: &u64, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        Ok(self.0.lock().recv()?)
    }
}

#[test]
fn a_callback_that_does_not_return_is_reported_though_no_task_of_its_process_can_run() {
    LazyLock::force(&COUNTED);
    let (go, wait) = mpsc::channel();
    // One thread for all tasks of that node, which the callback keeps.
    let node = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let settings = Settings::new("c", "a").unwrap();
            let cluster = Cluster::join(Arc::new(MemoryStore::new()), settings).await.unwrap();
            cluster.serve_with(Stuck(Mutex::new(wait))).unwrap();
            let told = cluster.server::<Stuck>("s").unwrap().cast(1).await;
            cluster.leave().await;
            told
        })
    });
    let env = Env::system();
    let start = env.now();
    let now = || counted("tenure_server_slow_callbacks", "stuck", "cast");
    while now() < 1.0 {
        assert!(env.now() - start < Duration::from_secs(60), "it was never reported");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(counted("tenure_server_slow_callbacks_total", "stuck", "cast"), 1.0);
    assert!(!node.is_finished(), "it still runs");
    go.send(()).unwrap();
    node.join().unwrap().unwrap();
    assert_eq!((now(), counted("tenure_server_slow_callbacks_total", "stuck", "cast")), (0.0, 1.0));
}
