//! Mistakes that were found and mended, each with the test that found it.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::{sync::atomic::AtomicU64, time::Duration};

use fleet::*;
use tenure_server::*;
use tenure_store::{Commit, Faults, Limited, Limits, MemoryStore, Store as _, StoreExt as _};
use tokio::task::JoinHandle;

fn key(key: &str) -> CallOptions {
    CallOptions::default().idempotency_key(key).timeout(Duration::from_secs(60))
}
fn patient() -> CallOptions {
    CallOptions::default().timeout(Duration::from_secs(600))
}
fn portable() -> Fleet {
    Fleet::over(Limited::new(MemoryStore::new(), Limits::PORTABLE))
}
fn ask(journal: &ServerRef<Journal>, say: Say, urgent: bool) -> JoinHandle<Result<Vec<String>, ServerError>> {
    let journal = journal.clone();
    tokio::spawn(async move {
        match urgent {
            true => journal.priority_call(say, patient()).await,
            false => journal.call_with(say, patient()).await,
        }
    })
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
    for seed in 0..100 {
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

/// Lets process after process serve, until a message is a dead letter. Returns how many were killed, and the one that
/// lives.
async fn survive(fleet: &Fleet, journal: &ServerRef<Journal>, pause: Duration) -> (usize, Seat) {
    for killed in 0..12 {
        let seat = fleet.join(&format!("w{killed}")).await;
        seat.serve(World::default());
        until(&fleet.env, || async {
            seat.gate.is_dead() || journal.status().await.unwrap().is_some_and(|status| status.died > 0)
        })
        .await;
        if !seat.gate.is_dead() {
            return (killed, seat);
        }
        fleet.env.sleep(pause).await;
    }
    panic!("12 processes killed, no dead letter");
}

#[tokio::test(start_paused = true)]
async fn a_priority_message_that_kills_is_a_dead_letter_in_the_end() {
    for pause in [Duration::ZERO, Duration::from_secs(30)] {
        let fleet = Fleet::new();
        let client = fleet.join("client").await;
        let j = client.journal("j");
        j.priority_cast(Say::Kill).await.unwrap();
        assert_eq!(survive(&fleet, &j, pause).await.0, 6, "one more than it has attempts");
        let letters = j.dead_letters(None, 10).await.unwrap();
        assert_eq!(letters.iter().map(|letter| letter.attempts.len()).collect::<Vec<_>>(), [5]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_other_message_is_blamed_for_a_priority_message_that_kills() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    let j = client.journal("j");
    j.cast_all([word("a"), word("b")]).await.unwrap();
    for say in [word("c"), Say::Kill, word("d")] {
        j.priority_cast(say).await.unwrap();
    }
    let (_, _seat) = survive(&fleet, &j, Duration::from_secs(30)).await;
    j.cast(word("e")).await.unwrap();
    until(&fleet.env, || async { said(&j).await.len() == 5 }).await;
    let mut all = said(&j).await;
    all.sort_unstable();
    assert_eq!((all, status(&j).await.died), (words(&["a", "b", "c", "d", "e"]), 1));
    assert_eq!(fleet.entries("urgent", "j").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_priority_message_costs_one_commit_of_its_consumer() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let j = client.journal("j");
    j.priority_call(word("one"), patient()).await.unwrap();
    fleet.env.sleep(Duration::from_millis(100)).await;
    let before = a.counted.commits();
    j.priority_call(word("two"), patient()).await.unwrap();
    assert_eq!(a.counted.commits() - before, 1, "of one that another node sends");
    let before = a.counted.commits();
    a.journal("j").priority_call(word("three"), patient()).await.unwrap();
    assert_eq!(a.counted.commits() - before, 1, "of one of the same process");
}

/// Has callers wait in every way: set aside after a failure, in pieces, past the queue.
async fn wait_in_every_way(fleet: &Fleet) -> (Seat, Vec<JoinHandle<Result<Vec<String>, ServerError>>>) {
    let (a, client) = (fleet.join("first").await, fleet.join("client").await);
    let world = a.serve(World::default());
    let j = client.journal("j");
    let mut waiting: Vec<_> = (0..60).map(|_| ask(&j, Say::Panic("x".into()), false)).collect();
    waiting.push(ask(&j, Say::Panic("y".into()), true));
    until(&fleet.env, || async { world.ran() >= 61 }).await;
    fleet.env.sleep(Duration::from_millis(20)).await;
    a.kill();
    waiting.push(ask(&j, word(&"x".repeat(300_000)), false));
    fleet.env.sleep(Duration::from_millis(20)).await;
    (client, waiting)
}

async fn all_are_told(fleet: &Fleet, waiting: Vec<JoinHandle<Result<Vec<String>, ServerError>>>) {
    for (at, told) in waiting.into_iter().enumerate() {
        let told = fleet.env.timeout(Duration::from_secs(60), told).await;
        assert!(matches!(told, Ok(Ok(Err(ServerError::Deleted(_))))), "{at}: {told:?}");
    }
    fleet.env.sleep(Duration::from_secs(5)).await;
    let left = fleet.left().await;
    assert!(left.iter().all(|key| key.contains("work")), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_are_told_of_a_deletion() {
    let fleet = portable();
    let (_client, waiting) = wait_in_every_way(&fleet).await;
    let operator = fleet.join("operator").await;
    let urgent = ask(&operator.journal("j"), word("x"), true);
    fleet.env.sleep(Duration::from_millis(20)).await;
    assert!(operator.journal("j").delete().await.unwrap());
    let told = urgent.await.unwrap();
    assert!(matches!(told, Err(ServerError::Deleted(_))), "{told:?}");
    all_are_told(&fleet, waiting).await;
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_are_told_when_a_server_deletes_itself() {
    let fleet = portable();
    let (_client, waiting) = wait_in_every_way(&fleet).await;
    let b = fleet.join("second").await;
    b.serve(World::default());
    b.journal("j").priority_call(Say::Delete, patient()).await.unwrap();
    all_are_told(&fleet, waiting).await;
}

#[tokio::test(start_paused = true)]
async fn effects_outlive_a_server_that_deletes_itself() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let large = "x".repeat(300_000);
    let casts = [Say::Effect("bye".into()), Say::Effect(large.clone()), Say::Delete];
    client.journal("j").cast_all(casts).await.unwrap();
    let world = a.serve(World { effects_failing: 3.into(), ..World::default() });
    fleet.env.sleep(Duration::from_secs(60)).await;
    let done: Vec<String> = world.effects().into_iter().map(|(effect, _)| effect).collect();
    assert!(done.contains(&"bye".to_owned()) && done.contains(&large), "{} were tried", done.len());
    assert_eq!(fleet.left().await, words(&[]));
}

#[tokio::test(start_paused = true)]
async fn effects_outlive_a_server_and_its_node() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World { effects_failing: u64::MAX.into(), ..World::default() });
    client.journal("j").call(Say::Effect("x".into())).await.unwrap();
    assert!(client.journal("j").delete().await.unwrap());
    a.kill();
    let b = fleet.join("b").await;
    let world = b.serve(World::default());
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!(world.effects().len(), 1);
    assert_eq!(client.journal("j").status().await.unwrap(), None);
}

/// How often this effect was tried.
fn tries(world: &World, effect: &str) -> usize {
    world.effects().iter().filter(|(found, _)| found == effect).count()
}

#[tokio::test(start_paused = true)]
async fn an_effect_gets_its_turn_though_many_before_it_fail() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World::default());
    let effects = [HOPELESS; 40].into_iter().chain(["good"]);
    client.journal("j").cast_all(effects.map(|effect| Say::Effect(effect.into()))).await.unwrap();
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!((tries(&world, "good"), fleet.entries("effect", "j").await), (1, 40));
    let hopeless = tries(&world, HOPELESS) / 40;
    assert!((4..15).contains(&hopeless), "{hopeless} tries of each in a minute");
    // Nor does one that comes later wait for the others' pauses.
    client.journal("j").call(Say::Effect("later".into())).await.unwrap();
    fleet.env.sleep(Duration::from_millis(500)).await;
    assert_eq!((tries(&world, "later"), tries(&world, HOPELESS) / 40), (1, hopeless));
}

#[tokio::test(start_paused = true)]
async fn a_node_finds_its_effects_behind_those_of_another() {
    let fleet = portable();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (_, world) = (a.serve(World::default()), b.serve(World::default()));
    for _ in 0..150 {
        a.journal("j").call(Say::Effect(HOPELESS.into())).await.unwrap();
    }
    for _ in 0..30 {
        b.journal("j").call(Say::Effect("good".into())).await.unwrap();
    }
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!((tries(&world, "good"), tries(&world, HOPELESS)), (30, 0));
    assert_eq!(fleet.entries("effect", "j").await, 150);
}

#[tokio::test(start_paused = true)]
async fn an_effect_is_done_though_nobody_knows_what_became_of_its_commit() {
    // One of them does not look after the shard of this server.
    for from_a in [true, false] {
        let fleet = Fleet::new();
        let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
        let worlds = [a.serve(World::default()), b.serve(World::default())];
        client.journal("j").call(word("x")).await.unwrap();
        fleet.env.sleep(Duration::from_secs(3)).await;
        let seat = if from_a { &a } else { &b };
        let lost = Faults { unknown_landed: 1.0, delay: Duration::from_millis(200), ..Faults::NONE };
        seat.link.set_faults(lost);
        let asking = ask(&seat.journal("j"), Say::Effect("good".into()), false);
        while fleet.entries("effect", "j").await == 0 {
            fleet.env.sleep(Duration::from_millis(1)).await;
        }
        // The mark of the commit is gone before anybody has looked.
        assert!(client.journal("j").delete().await.unwrap());
        seat.link.set_faults(Faults::NONE);
        let told = asking.await.unwrap();
        assert!(matches!(told, Err(ServerError::OutcomeUnknown(_))), "{told:?}");
        fleet.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(tries(&worlds[usize::from(!from_a)], "good"), 1);
        assert_eq!(fleet.entries("effect", "j").await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_does_not_fit_a_commit_is_a_dead_letter() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World::default());
    let j = client.journal("j");
    j.cast_all([word("one"), Say::Scatter(100), word("two")]).await.unwrap();
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!((said(&j).await, status(&j).await.waiting), (words(&["one", "two"]), 0));
    let letters = j.dead_letters(None, 10).await.unwrap();
    assert!(letters.len() == 1 && letters[0].attempts[0].error.contains("split"), "{letters:?}");
    assert!(world.ran() < 10, "there is no use in trying again");
    // One that fits is carried out, though others wait for the server.
    j.call(Say::Scatter(40)).await.unwrap();
    assert_eq!(j.status().await.unwrap(), None);
    until(&fleet.env, || async { said(&client.journal("39-other")).await.len() == 1 }).await;
}

#[tokio::test(start_paused = true)]
async fn timers_do_not_wait_for_sweeps_of_servers_that_can_not_be_read() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    for number in 0..500 {
        client.journal(&format!("{number}-broken")).call_with(word("x"), key("k")).await.unwrap();
    }
    client.journal("whole").call_with(word("x"), key("k")).await.unwrap();
    for number in 0..20 {
        let timed = client.journal(&format!("{number}-timed"));
        timed.cast_after(Duration::from_secs(800), word("x")).await.unwrap();
    }
    let heads = fleet.store.scan(&fleet.area("head").range(), 1000).await.unwrap().items;
    for head in heads.into_iter().filter(|head| name(&head.key).contains("broken")) {
        fleet.store.commit(Commit::new().set(head.key, &b"garbage"[..])).await.unwrap();
    }
    fleet.env.sleep(Duration::from_secs(830)).await;
    for number in 0..20 {
        assert_eq!(said(&client.journal(&format!("{number}-timed"))).await, words(&["x"]), "{number}");
    }
    let kept = fleet.store_keys("once").await;
    assert!(kept.len() == 500 && !kept.iter().any(|key| key.contains("whole")), "{} are kept", kept.len());
}

#[tokio::test(start_paused = true)]
async fn what_a_callback_sends_is_no_larger_than_a_message_may_be() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let told = client.journal("j").call_with(Say::Post("other".into(), 600_000), patient()).await;
    let (told, most) = (told.unwrap_err().to_string(), message_bytes_max(&Limits::PORTABLE).to_string());
    assert!(told.contains("600") && told.contains(&most), "{told}");
    assert_eq!(client.journal("other").status().await.unwrap(), None);
    client.journal("j").call(Say::Post("other".into(), 500_000)).await.unwrap();
    until(&fleet.env, || async { said(&client.journal("other")).await.len() == 1 }).await;
}
