//! Mistakes that were found and mended, each with the test that found it.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::{sync::atomic::AtomicU64, time::Duration};

use fleet::*;
use tenure_server::*;
use tenure_store::{Faults, Limited, Limits, MemoryStore};

fn key(key: &str) -> CallOptions {
    CallOptions::default().idempotency_key(key).timeout(Duration::from_secs(60))
}
fn patient() -> CallOptions {
    CallOptions::default().timeout(Duration::from_secs(600))
}
fn portable() -> Fleet {
    Fleet::over(Limited::new(MemoryStore::new(), Limits::PORTABLE))
}
const SLOWLY: Faults = Faults { delay: Duration::from_millis(1), ..Faults::NONE };

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_counts_though_its_process_is_back_within_the_ttl() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    let j = client.journal("j");
    j.cast_all([word("one"), Say::Kill, word("two")]).await.unwrap();
    for n in 0..12 {
        let seat = fleet.join(&format!("w{n}")).await;
        seat.serve(World::default());
        until(&fleet.env, || async {
            seat.gate.is_dead() || j.status().await.unwrap().is_some_and(|s| s.died > 0)
        })
        .await;
        if !seat.gate.is_dead() {
            return;
        }
    }
    panic!("12 processes killed, no dead letter");
}

#[tokio::test(start_paused = true)]
async fn effects_of_a_node_that_lives_are_left_to_it() {
    for from_a in [true, false] {
        let fleet = Fleet::new();
        let (a, b) = (fleet.join("a").await, fleet.join("b").await);
        for s in [&a, &b] {
            s.serve(World { effects_failing: AtomicU64::new(u64::MAX), ..World::default() });
            s.link.set_faults(SLOWLY);
        }
        fleet.env.sleep(Duration::from_secs(3)).await;
        if from_a { &a } else { &b }.journal("j").call(Say::Effect("x".into())).await.unwrap();
        let before = (a.counted.reads(), b.counted.reads());
        fleet.env.sleep(Duration::from_secs(10)).await;
        let reads = (a.counted.reads() - before.0, b.counted.reads() - before.1);
        assert!(reads.0 < 300 && reads.1 < 300, "{reads:?} reads in 10 s");
    }
}

#[tokio::test(start_paused = true)]
async fn sweeping_ends_though_more_is_kept_than_a_page_holds() {
    let fleet = Fleet::over(Limited::new(MemoryStore::new(), Limits { page_items: 20, ..Limits::PORTABLE }));
    let a = fleet.join("a").await;
    a.serve(World::default());
    a.link.set_faults(SLOWLY);
    let j = a.journal("j");
    j.call_with(word("x"), key("zzz")).await.unwrap();
    fleet.env.sleep(Duration::from_secs(500)).await;
    for n in 0..30 {
        j.call_with(word("x"), key(&format!("a{n}"))).await.unwrap();
    }
    fleet.env.sleep(Duration::from_secs(90)).await;
    let before = a.counted.commits();
    fleet.env.sleep(Duration::from_secs(100)).await;
    let commits = a.counted.commits() - before;
    assert!(commits < 100, "{commits} commits in 100 s");
}

#[tokio::test(start_paused = true)]
async fn what_is_behind_a_stop_waits() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let j = client.journal("j");
    j.cast_all([word("one"), Say::Stop, word("two")]).await.unwrap();
    a.serve(World::default());
    fleet.env.sleep(Duration::from_secs(5)).await;
    assert_eq!(said(&j).await, words(&["one"]));
}

#[tokio::test(start_paused = true)]
async fn no_delay_is_too_long() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    client.journal("j").cast_after(Duration::MAX, word("x")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn casts_that_nobody_waits_for_keep_their_order() {
    for seed in 0..60 {
        let fleet = Fleet::with_seed(seed, MemoryStore::new());
        let (a, b) = (fleet.join("a").await, fleet.join("b").await);
        for s in [&a, &b] {
            s.serve(World::default());
        }
        fleet.env.sleep(Duration::from_secs(2)).await;
        for s in [&a, &b] {
            s.link.set_faults(Faults { delay: Duration::from_millis(15), ..Faults::NONE });
        }
        for n in 0..40 {
            a.journal("j").cast_nowait(word(&format!("a {n}"))).unwrap();
            b.journal("j").cast_nowait(word(&format!("b {n}"))).unwrap();
            fleet.env.sleep(fleet.env.random_time(Duration::from_millis(12))).await;
        }
        until(&fleet.env, || async { said(&a.journal("j")).await.len() == 80 }).await;
        for of in ["a", "b"] {
            let all: Vec<String> =
                said(&a.journal("j")).await.into_iter().filter(|w| w.starts_with(of)).collect();
            assert_eq!(all, (0..40).map(|n| format!("{of} {n}")).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_call_of_this_process_is_refused_in_words() {
    let fleet = portable();
    let a = fleet.join("a").await;
    a.serve(World::default());
    let r = a.journal("j").call_with(Say::Fail("x".repeat(2_000_000), 99), patient()).await;
    assert!(!matches!(r, Err(ServerError::Left)), "the node has not left");
}

#[tokio::test(start_paused = true)]
async fn the_shards_of_a_consumer_that_leaves_are_taken() {
    for seed in 0..20 {
        let fleet = Fleet::with_seed(seed, MemoryStore::new());
        let client = fleet.join("client").await;
        let mut seats = Vec::new();
        for n in 0..3 {
            let s = fleet.join(&format!("s{n}")).await;
            s.serve(World::default());
            s.link.set_faults(SLOWLY);
            seats.push(s);
        }
        let ids: Vec<String> = (0..12).map(|n| format!("{n}-ledger")).collect();
        for round in 0..5 {
            for (n, id) in ids.iter().enumerate() {
                match seats.get((n + round) % 4) {
                    Some(s) => drop(s.journal(id).call_with(word("x"), patient()).await.unwrap()),
                    None => client.journal(id).cast(word("x")).await.unwrap(),
                }
            }
        }
        for id in &ids {
            until(&fleet.env, || async { said(&client.journal(id)).await.len() == 5 }).await;
        }
        let gone = seats.remove(0);
        gone.cluster.leave().await;
        for id in &ids {
            let r = client.journal(id).call_with(word("last"), patient()).await;
            assert!(r.is_ok(), "seed {seed} {id} {r:?}");
        }
    }
}
