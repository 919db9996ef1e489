//! Copies of requests that come late, however late.

use std::time::Duration;

use tenure_registry::{Event, Query, Registration, Subscription, mailbox};
use tenure_store::{Commit, Store as _, StoreExt as _};

use crate::sim::{Seat, Sim, TIME};

/// How many names are registered and taken back at once.
const AT_ONCE: usize = 1000;

/// Registers a name through the store. Returns the request, too, as it was posted.
async fn register_by_post(sim: &Sim, leader: &Seat, lonely: &Seat, name: &str) -> (Registration, Vec<u8>) {
    leader.gate.pause();
    let registry = lonely.registry.clone();
    let asked = name.to_owned();
    let registering = tokio::spawn(async move {
        let (mailbox, _inbox) = mailbox::<u64, u64>(1);
        registry.register_with(&asked, &mailbox, tenure_registry::Metadata::new(), 4 * TIME).await
    });
    let post = sim.keys("post").key();
    let posted = loop {
        if let Some(entry) = sim.store.entries(&post, 1).await.unwrap().items.first() {
            break entry.value.to_vec();
        }
        sim.env.sleep(Duration::from_millis(1)).await;
    };
    leader.gate.resume();
    (registering.await.unwrap().unwrap(), posted)
}

/// Registers and takes back so many names.
async fn churn(sim: &Sim, seat: &Seat, count: usize) {
    let (mailbox, _inbox) = mailbox::<u64, u64>(1);
    for round in 0..count.div_ceil(AT_ONCE) {
        let making = (0..AT_ONCE).map(|number| {
            let (registry, mailbox) = (seat.registry.clone(), mailbox.clone());
            tokio::spawn(async move { registry.register(&format!("{round}/{number}"), &mailbox).await })
        });
        for made in making.collect::<Vec<_>>() {
            drop(made.await.unwrap().unwrap());
        }
    }
    sim.until("all are taken back", || seat.registry.status().waiting == 0).await;
}

/// Posts a copy, and asserts that it brings nothing.
async fn assert_copy_brings_nothing(sim: &Sim, leader: &Seat, copy: Vec<u8>) {
    let mut events: Subscription = leader.registry.subscribe(Query::all());
    let first = events.next().await;
    assert!(matches!(first, Event::Snapshot { .. }), "{first:?}");
    let post = sim.keys("post").key();
    sim.store.commit(Commit::new().append(post.clone(), copy)).await.unwrap();
    while !sim.store.entries(&post, 1).await.unwrap().items.is_empty() {
        sim.env.sleep(Duration::from_millis(5)).await;
    }
    sim.env.sleep(TIME).await;
    assert_eq!(events.try_next(), None);
}

#[tokio::test(start_paused = true)]
async fn a_copy_brings_nothing_back_however_much_was_taken_back_since() {
    let sim = Sim::new();
    let leader = sim.seat("n0").await;
    let lonely = sim.seat_without_links("lonely").await;
    let (registered, copy) = register_by_post(&sim, &leader, &lonely, "x").await;
    registered.unregister(TIME).await.unwrap();
    churn(&sim, &leader, 70_000).await;
    assert_copy_brings_nothing(&sim, &leader, copy).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_brings_nothing_back_where_names_were_learnt_from_pages() {
    let sim = Sim::new();
    let leader = sim.seat("n0").await;
    let lonely = sim.seat_without_links("lonely").await;
    let (registered, copy) = register_by_post(&sim, &leader, &lonely, "x").await;
    registered.unregister(TIME).await.unwrap();
    churn(&sim, &leader, 6000).await;
    for number in 0..100 {
        // One after another, so that the log is shortened.
        let (kept, _inbox) = leader.register(&format!("kept/{number}")).await.unwrap();
        kept.unregister(TIME).await.unwrap();
    }
    let next = sim.seat("n1").await;
    sim.until_members(&next, 3).await;
    // The lonely one must not lead: it has not learnt from pages. It stands still for a moment only, since its session must last.
    lonely.gate.pause();
    leader.cluster.leave().await;
    sim.until_leads(&next).await;
    lonely.gate.resume();
    assert!(lonely.cluster.session().ended().is_none());
    assert_copy_brings_nothing(&sim, &next, copy).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_brings_nothing_to_whoever_has_left() {
    let sim = Sim::new();
    let leader = sim.seat("n0").await;
    let lonely = sim.seat_without_links("lonely").await;
    let (_registered, copy) = register_by_post(&sim, &leader, &lonely, "x").await;
    lonely.registry.clone().leave().await;
    sim.until("free", || !leader.knows("x")).await;
    assert_copy_brings_nothing(&sim, &leader, copy).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_of_a_session_goes_with_it() {
    let sim = Sim::new();
    let leader = sim.seat("n0").await;
    let floors = async || {
        let found = sim.store.get(&sim.keys("floors").key()).await.unwrap();
        found.map_or(0, |found| found.value.len())
    };
    // One after another, so that the log is shortened: the log itself says it before.
    let shorten = async || {
        for _ in 0..100 {
            let (kept, _inbox) = leader.register("kept").await.unwrap();
            kept.unregister(TIME).await.unwrap();
        }
        floors().await
    };
    let before = shorten().await;
    for round in 0..3 {
        let seat = sim.seat(&format!("n1-{round}")).await;
        let (registered, _inbox) = seat.register("x").await.unwrap();
        registered.unregister(TIME).await.unwrap();
        assert!(shorten().await > before, "it is remembered while its session lasts");
        seat.cluster.leave().await;
        sim.env.sleep(4 * TIME).await;
    }
    assert_eq!(shorten().await, before, "no session but the leader's is there");
}
