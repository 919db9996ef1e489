//! What is kept in the store: how much, and what happens when it is something else than was written.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure_cluster::{Cluster, Settings};
use tenure_registry::{Elector, Metadata, Query, Registries as _, mailbox};
use tenure_store::{
    Commit, CommitError, Env, Faults, Key, Limits, MemoryStore, Range, Read, Receipt, Snapshot, Store,
    StoreError, StoreExt as _, Watch, Write,
};

use crate::sim::{Seat, Sim, TIME};

/// Registers and unregisters a few names, many times.
async fn churn(seat: &Seat, rounds: usize) {
    for round in 0..rounds {
        let (mailbox, _inbox) = mailbox::<(), ()>(1);
        let name = format!("x{}", round % 5);
        let registered = seat.registry.register(&name, &mailbox).await.unwrap();
        registered.unregister(TIME).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_is_bounded_by_the_number_of_names() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let _kept = seats[1].register("kept").await.unwrap();
    churn(&seats[1], 1500).await;
    assert!(seats[0].registry.status().applied > 2000, "many batches");
    sim.until("compacted", || seats[0].registry.status().lag() == 0).await;
    let (log, pages) =
        (sim.stored(sim.keys("log").range()).await, sim.stored(sim.keys("page").range()).await);
    assert!(log.len() < 140, "{} batches", log.len());
    assert!(pages.len() <= 1, "{} pages", pages.len());
    // Whoever comes later knows the same, from pages and log.
    let late = sim.seat("late").await;
    assert_eq!((late.registry.len(), late.knows("kept")), (1, true));
    assert_eq!(late.registry.status().applied, seats[0].registry.status().applied);
}

#[tokio::test(start_paused = true)]
async fn pages_are_as_many_as_names_fill_and_go_with_them() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let mut held = Vec::new();
    for number in 0..300 {
        let metadata = Metadata::new().data(vec![7; 2000]);
        let name = format!("large/{number:03}");
        held.push(seat.registry.register_with(&name, &mailbox, metadata, TIME).await.unwrap());
    }
    churn(&seat, 200).await;
    let pages = sim.stored(sim.keys("page").range()).await.len();
    assert!((10..40).contains(&pages), "600 kB in {pages} pages");
    let late = sim.seat("late").await;
    assert_eq!(late.registry.len(), 300);
    assert_eq!(late.registry.whereis("large/123").unwrap().metadata().data.len(), 2000);
    for registered in held {
        registered.unregister(TIME).await.unwrap();
    }
    churn(&seat, 200).await;
    let pages = sim.stored(sim.keys("page").range()).await.len();
    assert!(pages <= 2, "{pages} pages of nothing: the first stays, and one that had a name just then");
    let late = sim.seat("later").await;
    assert_eq!(late.registry.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_learnt_from_the_store_first_gets_into_its_page_all_the_same() {
    let sim = Sim::new();
    let leader = sim.seat("n0").await;
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let mut held = Vec::new();
    for number in 0..300 {
        let metadata = Metadata::new().data(vec![7; 2000]);
        let name = format!("large/{number:03}");
        held.push(leader.registry.register_with(&name, &mailbox, metadata, TIME).await.unwrap());
    }
    churn(&leader, 200).await;
    // The leader waits for the answers of its commits while its node reads the log.
    leader.link.set_faults(Faults { delay: Duration::from_millis(20), ..Faults::NONE });
    let (cluster, env) = (leader.cluster.clone(), sim.env.clone());
    let reading = tokio::spawn(async move {
        loop {
            // To open it again reads the store.
            cluster.registry_over("names", None).await.unwrap();
            env.sleep(Duration::from_millis(1)).await;
        }
    });
    // One of each page.
    for number in (0..300).rev().step_by(16) {
        held.swap_remove(number).unregister(4 * TIME).await.unwrap();
    }
    reading.abort();
    leader.link.set_faults(Faults::NONE);
    churn(&leader, 200).await;
    let late = sim.seat("late").await;
    let names = |seat: &Seat| -> Vec<String> {
        let page = seat.registry.list(&Query::all(), None, 1000);
        page.entries.iter().map(|entry| entry.name().to_owned()).collect()
    };
    assert_eq!(names(&late), names(&leader));
}

async fn put(sim: &Sim, key: &Key, value: &'static [u8]) {
    sim.store.commit(Commit::new().set(key.clone(), value)).await.unwrap();
}

/// What a node says that comes when something in the store is not as it was written.
async fn refusal(sim: &Sim, node: &str) -> String {
    let mut settings = Settings::new("fleet", node).unwrap();
    settings.proof_of_death = false;
    let store = Arc::clone(&sim.store) as Arc<dyn Store>;
    let env: Env = sim.env.fork();
    let cluster = Cluster::join_in(store, settings, env).await.unwrap();
    cluster.registry_over("names", None).await.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn what_was_never_written_is_refused_by_name() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    let _kept = seat.register("kept").await.unwrap();
    churn(&seat, 100).await;
    let log = sim.stored(sim.keys("log").range()).await;
    let leader = Elector::leader_key(&seat.cluster, "names").unwrap();
    seat.kill();
    let places =
        [log.last().unwrap().clone(), sim.keys("page").text("").key(), sim.keys("base").key(), leader];
    for (number, key) in places.iter().enumerate() {
        let right = sim.store.get(key).await.unwrap().unwrap().value;
        let newer: &'static [u8] = &[9, 9, 9];
        for (word, wrong) in [("empty", &b""[..]), ("short", &b"\x01\x00"[..]), ("newer", newer)] {
            put(&sim, key, wrong).await;
            let refused = refusal(&sim, &format!("new-{number}-{word}")).await;
            assert!(refused.contains(&key.to_string()), "{word} in {key}: {refused}");
        }
        assert_eq!(sim.store.get(key).await.unwrap().unwrap().value, &[9, 9, 9][..], "it is left as it is");
        sim.store.commit(Commit::new().set(key.clone(), right)).await.unwrap();
    }
    // A hole in the log is noticed as well.
    let hole = &log[log.len() / 2];
    sim.store.commit(Commit::new().delete(hole.clone())).await.unwrap();
    let refused = refusal(&sim, "new-hole").await;
    assert!(refused.contains(&hole.to_string()), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_request_in_the_post_that_is_not_understood_is_removed() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    let lonely = sim.seat_without_links("lonely").await;
    let post = sim.keys("post").key();
    for wrong in [&b""[..], &b"\x01abc"[..], &[9; 40][..]] {
        sim.store.commit(Commit::new().append(post.clone(), wrong.to_vec())).await.unwrap();
    }
    let _registered = lonely.register("x").await.unwrap();
    sim.until("known", || seat.knows("x")).await;
    for _ in 0..100 {
        if sim.store.entries(&post, 10).await.unwrap().items.is_empty() {
            return;
        }
        sim.env.sleep(Duration::from_millis(50)).await;
    }
    panic!("it stays");
}

/// A store that has no room for the log, for a while.
#[derive(Debug)]
struct Full {
    inner: Arc<MemoryStore>,
    log: Range,
    is_full: AtomicBool,
    refused: AtomicUsize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "full {}", self.inner)
    }
}

#[async_trait]
impl Store for Full {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let grows =
            commit.writes.iter().any(|write| matches!(write, Write::Set(key, _) if self.log.contains(key)));
        if grows && self.is_full.load(Ordering::SeqCst) {
            // Time would stand still for whoever asks without a pause.
            assert!(self.refused.fetch_add(1, Ordering::SeqCst) < 10_000, "asked without a pause");
            return Err(StoreError::Full("no room for the log".into()).into());
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

#[tokio::test(start_paused = true)]
async fn a_store_that_is_full_is_asked_again_with_pauses_and_names_are_freed_when_there_is_room() {
    let sim = Sim::new();
    let store = Arc::new(Full {
        inner: Arc::clone(&sim.store),
        log: sim.keys("log").range(),
        is_full: AtomicBool::new(false),
        refused: AtomicUsize::new(0),
    });
    let mut settings = Settings::new("fleet", "leader").unwrap();
    settings.proof_of_death = false;
    let cluster =
        Cluster::join_in(Arc::clone(&store) as Arc<dyn Store>, settings, sim.env.fork()).await.unwrap();
    let registry = cluster.registry_over("names", None).await.unwrap();
    registry.ready(TIME).await.unwrap();
    let owner = sim.seat_without_links("owner").await;
    let _held = owner.register("x").await.unwrap();
    store.is_full.store(true, Ordering::SeqCst);
    owner.kill();
    sim.until("refused", || store.refused.load(Ordering::SeqCst) > 0).await;
    sim.env.sleep(TIME).await;
    let refused = store.refused.load(Ordering::SeqCst);
    assert!((2..100).contains(&refused), "{refused} times in {TIME:?}");
    assert!(registry.whereis("x").is_some());
    store.is_full.store(false, Ordering::SeqCst);
    sim.until("free", || registry.whereis("x").is_none()).await;
}
