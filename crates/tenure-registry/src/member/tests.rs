//! What a member makes of what it reads while it also hears the leader.

use std::fmt;

use async_trait::async_trait;
use tenure_cluster::{Cluster, Settings};
use tenure_store::{
    Commit, CommitError, Key, Limits, MemoryStore, Range, Read, Receipt, Snapshot, Store, Watch,
};
use tokio::sync::Semaphore;

use super::*;
use crate::{Registries as _, Registry, batch::Batch, mailbox};

/// A store whose readers of the log wait, once before they read and once before they hear what they have read.
#[derive(Debug)]
struct Held {
    inner: Arc<MemoryStore>,
    base: Mutex<Option<Key>>,
    before: Semaphore,
    after: Semaphore,
    have_read: AtomicU64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held {}", self.inner)
    }
}

#[async_trait]
impl Store for Held {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let base = self.base.lock().clone();
        if !base.is_some_and(|base| reads.contains(&Read::Key(base))) {
            return self.inner.read(reads).await;
        }
        let _before = self.before.acquire().await.unwrap();
        let found = self.inner.read(reads).await;
        self.have_read.fetch_add(1, Ordering::SeqCst);
        let _after = self.after.acquire().await.unwrap();
        found
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.inner.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

async fn node(store: Arc<dyn Store>, env: &Env, name: &str) -> (Cluster, Registry) {
    let mut settings = Settings::new("c", name).unwrap();
    settings.proof_of_death = false;
    let cluster = Cluster::join_in(store, settings, env.fork()).await.unwrap();
    let registry = cluster.registry_over("names", None).await.unwrap();
    registry.ready(Duration::from_secs(5)).await.unwrap();
    (cluster, registry)
}

#[tokio::test(start_paused = true)]
async fn how_much_is_missing_is_measured_from_where_the_reading_began() {
    let (env, memory) = (Env::simulated(3), Arc::new(MemoryStore::new()));
    let held = Arc::new(Held {
        inner: Arc::clone(&memory),
        base: Mutex::default(),
        before: Semaphore::new(0),
        after: Semaphore::new(0),
        have_read: AtomicU64::new(0),
    });
    let (_first, leader) = node(Arc::clone(&memory) as Arc<dyn Store>, &env, "a").await;
    let (_second, follower) = node(Arc::clone(&held) as Arc<dyn Store>, &env, "b").await;
    let member = Arc::clone(&follower.member);
    *held.base.lock() = Some(member.log.keys.base.clone());
    let reading = tokio::spawn(async move {
        member.refresh().await.unwrap();
        member.names.position()
    });
    env.sleep(Duration::from_millis(1)).await;
    // Before anything is read, the log grows and is shortened.
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let mut kept = Vec::new();
    for number in 0..200 {
        kept.push(leader.register(&format!("x{number}"), &mailbox).await.unwrap());
    }
    let (member, log) = (&follower.member, &leader.member.log);
    let base = log.tail(0).await.unwrap().base.position;
    assert!(member.names.position() < base && base < leader.member.names.position());
    held.before.add_permits(1000);
    while held.have_read.load(Ordering::SeqCst) == 0 {
        env.sleep(Duration::from_millis(1)).await;
    }
    // Meanwhile it hears of the batches up to the base, so that nothing seems to be missing any more.
    while member.names.position() < base {
        member.names.apply(member.names.position() + 1, Batch::default());
    }
    held.after.add_permits(1000);
    assert_eq!(reading.await.unwrap(), leader.member.names.position());
    assert!(follower.whereis("x199").is_some() && follower.whereis("x0").is_some());
}
