//! Watches go on when their stream breaks, when what they missed was compacted away, and when etcd tells nothing.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::time::Duration;

use tenure_etcd::{EtcdStore, Settings};
use tenure_store::{Commit, Env, Host, Key, Range, Store, Watch};
use tenure_testbed::{Etcd, Options, Proxy};

/// So seldom that no look comes to the help of a test.
const NEVER: Duration = Duration::from_secs(3600);

/// Longer than any waking takes.
const SOON: Duration = Duration::from_secs(10);

/// Long enough for a waking that should not come.
const WHILE: Duration = Duration::from_millis(700);

fn key(text: &str) -> Key {
    Key::from(text)
}

fn set(text: &str) -> Commit {
    Commit::new().set(key(text), "v")
}

async fn woken(watch: &mut Watch) -> bool {
    Env::system().timeout(SOON, watch.changed()).await.is_ok()
}

async fn asleep(watch: &mut Watch) -> bool {
    Env::system().timeout(WHILE, watch.changed()).await.is_err()
}

/// A cluster of one, a store at it, and another that reaches it through a proxy and whose watches look every `reread`.
struct Scene {
    etcd: Etcd,
    proxy: Proxy,
    writer: EtcdStore,
    watcher: EtcdStore,
}

impl Scene {
    async fn new(reread: Duration) -> Self {
        let etcd = Etcd::start(1, &Options::default()).unwrap();
        let proxy = Proxy::start(etcd.ports()[0]).unwrap();
        let writer = EtcdStore::open(&etcd.url()).await.unwrap();
        let host = Host { name: "127.0.0.1".into(), port: Some(proxy.port()) };
        let watcher = EtcdStore::open_with(Settings { reread, ..Settings::new(vec![host]) }).await.unwrap();
        Self { etcd, proxy, writer, watcher }
    }

    /// A watch that was woken once because it was set up.
    async fn watch(&self, text: &str) -> Watch {
        let mut watch = self.watcher.watch(Range::Key(key(text)));
        assert!(woken(&mut watch).await);
        assert!(asleep(&mut watch).await);
        watch
    }

    fn cut_off(&self) {
        self.proxy.refuse(true).unwrap();
        self.proxy.cut();
    }
}

#[tokio::test]
async fn a_change_wakes_whom_it_concerns_and_no_others() {
    let scene = Scene::new(NEVER).await;
    let (mut watch, mut other) = (scene.watch("k").await, scene.watcher.watch(Range::Key(key("other"))));
    scene.writer.commit(set("k")).await.unwrap();
    assert!(woken(&mut watch).await);
    assert!(asleep(&mut other).await);
    scene.writer.commit(Commit::new().append(key("other"), "v")).await.unwrap();
    assert!(woken(&mut other).await);
    assert!(asleep(&mut watch).await);
}

#[tokio::test]
async fn what_happened_while_the_stream_was_broken_wakes_whom_it_concerns() {
    let scene = Scene::new(NEVER).await;
    let (mut watch, mut other) = (scene.watch("k").await, scene.watcher.watch(Range::Key(key("other"))));
    for round in 0..3 {
        scene.cut_off();
        scene.writer.commit(set("k")).await.unwrap();
        assert!(asleep(&mut watch).await, "round {round}");
        scene.proxy.refuse(false).unwrap();
        assert!(woken(&mut watch).await, "round {round}");
        assert!(asleep(&mut other).await, "it goes on where it was, and wakes nobody else");
        scene.writer.commit(set("k")).await.unwrap();
        assert!(woken(&mut watch).await, "round {round}: it goes on behind");
    }
}

#[tokio::test]
async fn what_was_compacted_away_meanwhile_wakes_all() {
    let scene = Scene::new(NEVER).await;
    let (mut watch, mut other) = (scene.watch("k").await, scene.watcher.watch(Range::Key(key("other"))));
    scene.cut_off();
    scene.writer.commit(set("k")).await.unwrap();
    let last = scene.writer.commit(set("unwatched")).await.unwrap().version;
    place::control(&scene.etcd, None, &["compact", &last.0.to_string()]);
    assert!(asleep(&mut watch).await);
    scene.proxy.refuse(false).unwrap();
    assert!(woken(&mut watch).await && woken(&mut other).await);
    scene.writer.commit(set("k")).await.unwrap();
    assert!(woken(&mut watch).await, "it goes on from there");
    assert!(asleep(&mut other).await);
}

#[tokio::test]
async fn a_compaction_under_a_live_watch_is_no_matter() {
    let scene = Scene::new(NEVER).await;
    let mut watch = scene.watch("k").await;
    for _ in 0..5 {
        let last = scene.writer.commit(set("k")).await.unwrap().version;
        assert!(woken(&mut watch).await);
        place::control(&scene.etcd, None, &["compact", &last.0.to_string()]);
    }
    assert!(asleep(&mut watch).await);
}

/// Revisions that the watch does not tell of are, to it, as lost as those of its own: here somebody else's.
#[tokio::test]
async fn what_the_watch_does_not_tell_of_wakes_all_after_a_while() {
    let scene = Scene::new(Duration::from_millis(100)).await;
    let mut watch = scene.watch("k").await;
    scene.writer.commit(set("unwatched")).await.unwrap();
    assert!(asleep(&mut watch).await, "it was told of");
    place::control(&scene.etcd, None, &["put", "foreign", "v"]);
    assert!(woken(&mut watch).await);
    assert!(asleep(&mut watch).await, "once is enough");
    // In the middle of what it is told of.
    place::control(&scene.etcd, None, &["put", "foreign", "v"]);
    scene.writer.commit(set("unwatched")).await.unwrap();
    assert!(woken(&mut watch).await);
    assert!(asleep(&mut watch).await);
}

#[tokio::test]
async fn a_stream_is_open_while_anybody_watches_and_only_then() {
    let scene = Scene::new(Duration::from_millis(100)).await;
    let streams = || place::metric(&scene.etcd, "etcd_debugging_mvcc_watch_stream_total", &[]);
    assert_eq!(streams(), 0);
    let watches = [scene.watch("k").await, scene.watcher.watch(Range::all())];
    assert_eq!(streams(), 1);
    drop(watches);
    place::eventually("the end of the stream", async || streams() == 0).await;
    let mut again = scene.watch("k").await;
    assert_eq!(streams(), 1);
    scene.writer.commit(set("k")).await.unwrap();
    assert!(woken(&mut again).await);
    drop((again, scene.watcher));
    let streams = || place::metric(&scene.etcd, "etcd_debugging_mvcc_watch_stream_total", &[]);
    place::eventually("the end of the stream with its store", async || streams() == 0).await;
}

/// The stream is at one member, and goes on at another.
#[tokio::test]
async fn a_watch_outlives_its_member() {
    let etcd = Etcd::start(3, &Options::default()).unwrap();
    let mut settings = Settings::from_url(&etcd.url()).unwrap();
    settings.reread = NEVER;
    let watcher = EtcdStore::open_with(settings).await.unwrap();
    let mut watch = watcher.watch(Range::Key(key("k")));
    assert!(woken(&mut watch).await);
    for victim in 0..3 {
        etcd.kill(victim).unwrap();
        place::eventually("a commit", async || watcher.commit(set("k")).await.is_ok()).await;
        assert!(woken(&mut watch).await, "without member {victim}");
        etcd.restart(victim).unwrap();
        while !asleep(&mut watch).await {}
    }
}
