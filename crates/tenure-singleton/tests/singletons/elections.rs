//! Our election as the oracle: several nodes, one store.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cluster, Onlooker, Settings};
use tenure_singleton::{Phase, Singleton, Singletons as _};
use tenure_store::{Commit, CommitError, Env, Faults, Faulty, Gate, Key, MemoryStore, Name, Store};

use crate::stage::{Diary, Manner};

struct Node {
    cluster: Cluster,
    link: Arc<Faulty>,
    gate: Gate,
    diary: Diary,
}

struct Fleet {
    env: Env,
    store: Arc<dyn Store>,
}

impl Fleet {
    fn new() -> Self {
        Self { env: Env::simulated(5), store: Arc::new(MemoryStore::new()) }
    }

    async fn join(&self, node: &str) -> Node {
        let mut settings = Settings::new("c", node).unwrap();
        // One process runs all of them.
        settings.proof_of_death = false;
        let gate = Gate::new();
        let link = Arc::new(Faulty::new(Arc::clone(&self.store), self.env.fork(), Faults::NONE));
        let env = self.env.fork().behind(&gate);
        let cluster = Cluster::join_in(Arc::clone(&link) as Arc<dyn Store>, settings, env).await.unwrap();
        Node { cluster, link, gate, diary: Diary::new(&self.env) }
    }

    async fn sleep(&self, ms: u64) {
        self.env.sleep(Duration::from_millis(ms)).await;
    }
}

impl Node {
    fn start(&self, manner: Manner) -> Singleton {
        let diary = self.diary.clone();
        let child = move |mandate| diary.clone().live(mandate, manner);
        self.cluster.singleton("nightly", child).start().unwrap()
    }
}

#[cfg(feature = "testkit")]
#[tokio::test(start_paused = true)]
async fn our_election_is_an_oracle_as_it_should_be() {
    use tenure_singleton::{
        ElectionOracle, Oracle,
        oracle::testkit::{Conduct, conforms},
    };
    let fleet = Fleet::new();
    let conduct = Conduct { env: fleet.env.clone(), ..Conduct::default() };
    // Each candidate is a node of its own, and stays until the end.
    let nodes = parking_lot::Mutex::new(Vec::new());
    let make = async |name: String| {
        let number = nodes.lock().len();
        nodes.lock().push(None);
        let node = fleet.join(&format!("node-{number}")).await;
        let election = node.cluster.election(&name).unwrap();
        nodes.lock()[number] = Some(node);
        Box::new(ElectionOracle::new(election, 0, fleet.env.clone())) as Box<dyn Oracle>
    };
    conforms(&conduct, make).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_starts_at_once_after_a_shutdown_and_never_early() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (first, second) = (a.start(Manner::Slow(500)), b.start(Manner::Good));
    first.leads().await;
    fleet.sleep(1_000).await;
    assert_eq!((a.diary.running(), b.diary.running()), (1, 0));
    first.shutdown().await;
    second.leads().await;
    fleet.sleep(1).await;
    let (ended, started) = (a.diary.lives()[0].end.unwrap(), b.diary.lives()[0].start);
    assert!(started >= ended && started - ended < Duration::from_millis(10), "{:?}", started - ended);
    assert_eq!((a.diary.lives()[0].term, b.diary.lives()[0].term), (Some(1), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_stops_its_children_first() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (first, second) = (a.start(Manner::Slow(2_000)), b.start(Manner::Good));
    first.leads().await;
    fleet.sleep(1_000).await;
    a.cluster.leave().await;
    assert_eq!(first.status().phase, Phase::Ended);
    second.leads().await;
    fleet.sleep(1).await;
    assert!(b.diary.lives()[0].start >= a.diary.lives()[0].end.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_ends_its_child_before_another_starts() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (first, second) = (a.start(Manner::Deaf), b.start(Manner::Good));
    first.leads().await;
    fleet.sleep(1_000).await;
    a.link.cut();
    second.leads().await;
    fleet.sleep(1).await;
    let lost = a.diary.lives()[0].clone();
    assert!(!lost.left.is_zero() && lost.end.unwrap() < b.diary.lives()[0].start, "{lost:?}");
    a.link.heal();
    fleet.sleep(60_000).await;
    assert_eq!((a.diary.running(), b.diary.running()), (0, 1), "the incumbent stays");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (first, second) = (a.start(Manner::Good), b.start(Manner::Good));
    first.leads().await;
    a.gate.kill();
    second.leads().await;
    fleet.sleep(1).await;
    assert_eq!(b.diary.lives()[0].term, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_leader_hands_over_to_a_named_node_and_stands_again() {
    let fleet = Fleet::new();
    let (a, b, c) = (fleet.join("a").await, fleet.join("b").await, fleet.join("c").await);
    let (first, second, third) = (a.start(Manner::Good), b.start(Manner::Good), c.start(Manner::Good));
    first.leads().await;
    fleet.sleep(1_000).await;
    first.hand_over("c".parse().unwrap()).await;
    third.leads().await;
    fleet.sleep(1).await;
    assert_eq!((a.diary.running(), b.diary.running(), c.diary.running()), (0, 0, 1));
    // Nothing to hand over, nothing to wait for.
    second.hand_over("a".parse().unwrap()).await;
    third.shutdown().await;
    second.leads().await;
    second.shutdown().await;
    first.leads().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_an_operator_asks_stops_its_child_and_hands_over() {
    let fleet = Fleet::new();
    let (a, b, c) = (fleet.join("a").await, fleet.join("b").await, fleet.join("c").await);
    let (first, second, third) = (a.start(Manner::Good), b.start(Manner::Good), c.start(Manner::Good));
    first.leads().await;
    fleet.sleep(1_000).await;
    let look = Onlooker::new(Arc::clone(&fleet.store), a.cluster.settings().cluster.clone());
    let nightly: Name = "nightly".parse().unwrap();
    look.ask(&nightly, Some("c".parse().unwrap())).await.unwrap().unwrap();
    third.leads().await;
    fleet.sleep(1).await;
    assert_eq!((a.diary.running(), b.diary.running(), c.diary.running()), (0, 0, 1));
    assert!(a.diary.lives()[0].end <= Some(c.diary.lives()[0].start), "the child ends first");
    // Whoever waits first, if nobody is named; and the one that was asked stands again.
    look.ask(&nightly, None).await.unwrap().unwrap();
    second.leads().await;
    second.shutdown().await;
    first.leads().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_child_commits_under_its_guard_is_refused_once_another_leads() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let first = a
        .cluster
        .singleton("nightly", move |mandate: tenure_singleton::Mandate| {
            tell.send(mandate.clone()).unwrap();
            async move { mandate.cancelled().await }
        })
        .start()
        .unwrap();
    let mandate = told.recv().await.unwrap();
    let write = || mandate.guarded(Commit::new().set(Key::from("k"), "v")).unwrap();
    fleet.store.commit(write()).await.unwrap();
    let second = b.start(Manner::Good);
    fleet.sleep(1_000).await;
    first.shutdown().await;
    second.leads().await;
    assert!(mandate.remaining().is_zero());
    assert!(matches!(fleet.store.commit(write()).await, Err(CommitError::Conflict(_))));
}

#[tokio::test(start_paused = true)]
async fn a_broken_node_gives_the_office_away() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (first, second) = (a.start(Manner::Fails(1)), b.start(Manner::Good));
    first.leads().await;
    second.leads().await;
    fleet.sleep(600_000).await;
    assert_eq!(b.diary.running(), 1);
    assert_eq!(a.diary.lives().len(), 5, "it does not win again for ever");
}

#[tokio::test(start_paused = true)]
async fn a_grace_that_does_not_fit_the_ttl_is_refused() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let builder =
        a.cluster.singleton("s", |_| async {}).policy(|policy| policy.grace = Duration::from_secs(6));
    let words = builder.start().err().unwrap().to_string();
    assert!(words.contains("6s") && words.contains("15s") && words.contains("grace x 3 <= ttl"), "{words}");
}

/// Who has more priority comes first, though it came last; who leads is displaced by nobody.
#[tokio::test(start_paused = true)]
async fn who_has_more_priority_is_elected_first() {
    let fleet = Fleet::new();
    let (a, b, c) = (fleet.join("a").await, fleet.join("b").await, fleet.join("c").await);
    let start = |node: &Node, priority| {
        let diary = node.diary.clone();
        let child = move |mandate| diary.clone().live(mandate, Manner::Good);
        node.cluster.singleton("nightly", child).priority(priority).start().unwrap()
    };
    let first = start(&a, -5);
    first.leads().await;
    let _second = start(&b, 1);
    fleet.sleep(1_000).await;
    let third = start(&c, 7);
    fleet.sleep(60_000).await;
    assert_eq!((a.diary.running(), b.diary.running(), c.diary.running()), (1, 0, 0), "the incumbent stays");
    first.shutdown().await;
    third.leads().await;
    fleet.sleep(1).await;
    assert_eq!((a.diary.running(), b.diary.running(), c.diary.running()), (0, 0, 1));
}
