//! Mistakes that were found and mended: what is kept, what comes late, and what is lost with the store.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::time::Duration;

use fleet::*;
use tenure_server::*;
use tenure_store::{Faults, Limited, Limits, MemoryStore};
use tokio::task::JoinHandle;

fn key(key: &str) -> CallOptions {
    CallOptions::default().idempotency_key(key).timeout(Duration::from_secs(60))
}
fn portable() -> Fleet {
    Fleet::over(Limited::new(MemoryStore::new(), Limits::PORTABLE))
}
fn ask(
    journal: &ServerRef<Journal>,
    say: Say,
    options: CallOptions,
) -> JoinHandle<Result<Vec<String>, ServerError>> {
    let journal = journal.clone();
    tokio::spawn(async move { journal.call_with(say, options).await })
}
const LATE: Faults = Faults { unknown_late: 1.0, late: Duration::from_secs(60), ..Faults::NONE };

#[tokio::test(start_paused = true)]
async fn a_late_first_commit_does_not_bring_a_server_back() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World::default());
    fleet.env.sleep(Duration::from_secs(6)).await;
    a.link.set_faults(LATE);
    let asking = ask(&a.journal("j"), word("x"), key("k"));
    fleet.env.sleep(Duration::from_millis(30)).await;
    a.link.set_faults(Faults::NONE);
    assert_eq!(asking.await.unwrap().unwrap(), words(&["x"]));
    assert!(client.journal("j").delete().await.unwrap());
    fleet.env.sleep(Duration::from_secs(100)).await;
    assert_eq!(client.journal("j").status().await.unwrap(), None);
    // Others can still be the first.
    for id in ["k", "l"] {
        assert_eq!(a.journal(id).call(word("y")).await.unwrap(), words(&["y"]));
    }
    assert_eq!(world.ran(), 3, "once each");
}

#[tokio::test(start_paused = true)]
async fn a_late_deletion_of_a_queue_does_not_meet_later_messages() {
    let fleet = Fleet::new();
    let (operator, client) = (fleet.join("operator").await, fleet.join("client").await);
    let j = client.journal("j");
    j.cast(word("one")).await.unwrap();
    operator.link.set_faults(LATE);
    let deleting = operator.journal("j");
    let deleting = tokio::spawn(async move { deleting.delete().await });
    fleet.env.sleep(Duration::from_millis(30)).await;
    operator.link.set_faults(Faults::NONE);
    assert!(deleting.await.unwrap().unwrap());
    j.cast(word("two")).await.unwrap();
    fleet.env.sleep(Duration::from_secs(100)).await;
    assert_eq!(status(&j).await.waiting, 1);
}

#[tokio::test(start_paused = true)]
async fn large_answers_are_kept_and_swept() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World::default());
    for seat in [&client, &a] {
        let answer = seat.journal("j").call_with(Say::Large(300_000), key("k")).await.unwrap();
        assert_eq!((answer[0].len(), world.ran()), (300_000, 1));
    }
    assert_eq!(fleet.store_keys("piece").await.len(), 2);
    fleet.env.sleep(Duration::from_secs(700)).await;
    assert_eq!((fleet.store_keys("piece").await, fleet.store_keys("once").await), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_large_effect_is_done_and_removed() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World { effects_failing: 1.into(), ..World::default() });
    client.journal("j").call(Say::Effect("x".repeat(300_000))).await.unwrap();
    fleet.env.sleep(Duration::from_secs(5)).await;
    let done: Vec<usize> = world.effects().iter().map(|(effect, _)| effect.len()).collect();
    assert_eq!(done, [300_000, 300_000]);
    assert_eq!((fleet.entries("effect", "j").await, fleet.store_keys("effect").await), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_to_be_kept_is_refused_with_the_limit() {
    let fleet = portable();
    let a = fleet.join("a").await;
    let world = a.serve(World::default());
    let most = message_bytes_max(&Limits::PORTABLE).to_string();
    let answer = a.journal("j").call_with(Say::Large(600_000), key("k")).await.unwrap_err().to_string();
    assert!(answer.contains("600") && answer.contains(&most), "{answer}");
    assert_eq!(world.ran(), 1, "there is no use in trying again");
    let effect = a.journal("j").call_with(Say::Effect("x".repeat(500_000)), key("l")).await;
    assert!(effect.is_ok());
    // A message may not be as large: what a callback makes may.
    let letters = a.journal("j").dead_letters(None, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_given_later_is_kept() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    for (seat, held) in [(&client, "one"), (&a, "two")] {
        let j = seat.journal("j");
        let first = ask(&j, Say::Hold, key(held));
        fleet.env.sleep(Duration::from_secs(1)).await;
        j.call(Say::Release).await.unwrap();
        assert_eq!(first.await.unwrap().unwrap(), words(&["released"]));
        for seat in [&client, &a] {
            let again = seat.journal("j").call_with(Say::Hold, key(held)).await.unwrap();
            assert_eq!(again, words(&["released"]));
        }
    }
    fleet.env.sleep(Duration::from_secs(700)).await;
    assert_eq!((fleet.store_keys("piece").await, fleet.store_keys("once").await), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_held_and_answered_in_one_commit_is_kept() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let j = client.journal("j");
    let first = ask(&j, Say::Hold, key("k"));
    fleet.env.sleep(Duration::from_millis(100)).await;
    j.cast(Say::Release).await.unwrap();
    a.serve(World::default());
    assert_eq!(first.await.unwrap().unwrap(), words(&["released"]));
    assert_eq!(j.call_with(Say::Hold, key("k")).await.unwrap(), words(&["released"]));
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_of_another_server_is_kept() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let j = client.journal("j");
    let first = j.call_with(Say::Entrust("other".into()), key("k")).await.unwrap();
    assert_eq!(first[0].len(), 300_000);
    assert_eq!(j.call_with(Say::Entrust("other".into()), key("k")).await.unwrap(), first);
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_any_node_is_kept_as_long_as_there_is_its_call() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let j = client.journal("j");
    let first = ask(&j, Say::Hold, key("k"));
    fleet.env.sleep(Duration::from_secs(1)).await;
    let waiting = j.read(|pages| pages.waiting.clone()).await.unwrap().unwrap();
    client.cluster.reply(&waiting, &words(&["one"])).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap(), words(&["one"]));
    client.cluster.reply(&waiting, &words(&["two"])).await.unwrap();
    assert_eq!(j.call_with(Say::Hold, key("k")).await.unwrap(), words(&["one"]));
    j.delete().await.unwrap();
    client.cluster.reply(&waiting, &words(&["three"])).await.unwrap();
    assert_eq!(fleet.store_keys("piece").await, words(&[]));
}

/// Makes a call whose callback cuts the way to the store, and heals that a little later.
async fn through_a_cut(say: Say) -> (Fleet, Result<Vec<String>, ServerError>) {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let world = a.serve(World::default());
    let asking = ask(&a.journal("j"), say, key("k"));
    fleet.env.sleep(Duration::from_millis(500)).await;
    assert_eq!(world.ran(), 1);
    a.link.heal();
    let answer = asking.await.unwrap();
    (fleet, answer)
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_though_its_state_can_not_be_read_again() {
    let (_, answer) = through_a_cut(Say::Tear("x".into())).await;
    assert_eq!(answer.unwrap(), words(&["x"]));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_though_the_timers_of_its_server_can_not_be_read() {
    let (fleet, answer) = through_a_cut(Say::DeleteCut).await;
    assert_eq!(answer.unwrap(), words(&[]));
    assert_eq!(fleet.left().await, words(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_was_lost_is_not_made_again() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World::default());
    client.journal("j").call(word("x")).await.unwrap();
    a.link.set_faults(Faults { unknown_landed: 1.0, ..Faults::NONE });
    let asking = ask(&a.journal("j"), Say::Delete, key("k"));
    fleet.env.sleep(Duration::from_millis(200)).await;
    a.link.set_faults(Faults::NONE);
    let told = asking.await.unwrap();
    assert!(matches!(told, Err(ServerError::OutcomeUnknown(_))), "{told:?}");
    assert_eq!((world.ran(), client.journal("j").status().await.unwrap()), (2, None));
}

#[tokio::test(start_paused = true)]
async fn messages_do_not_wait_until_all_is_swept() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    a.serve(World::default());
    let j = a.journal("j");
    for number in 0..3000 {
        j.call_with(Say::Note("n".into(), number), key(&number.to_string())).await.unwrap();
    }
    fleet.env.sleep(Duration::from_secs(590)).await;
    a.link.set_faults(Faults { delay: Duration::from_millis(10), ..Faults::NONE });
    while fleet.store_keys("once").await.len() == 3000 {
        fleet.env.sleep(Duration::from_millis(100)).await;
    }
    let asked = fleet.env.now();
    j.call(word("x")).await.unwrap();
    let took = fleet.env.now() - asked;
    assert!(took < Duration::from_millis(200), "{took:?}");
    assert!(fleet.store_keys("once").await.len() > 2000, "most is still to be swept");
    fleet.env.sleep(Duration::from_secs(30)).await;
    assert_eq!(fleet.store_keys("once").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_swept_fits_a_commit() {
    let fleet = portable();
    let a = fleet.join("a").await;
    a.serve(World::default());
    let j = a.journal("j");
    for number in 0..40 {
        let held = key(&number.to_string()).timeout(Duration::from_millis(10));
        assert!(j.call_with(Say::Hold, held).await.is_err());
    }
    for _ in 0..40 {
        j.cast(Say::Panic("x".into())).await.unwrap();
    }
    until(&fleet.env, || async { status(&j).await.died == 40 }).await;
    a.kill();
    fleet.env.sleep(Duration::from_secs(1400)).await;
    assert_eq!((fleet.store_keys("once").await.len(), fleet.store_keys("dead").await.len()), (40, 40));
    let b = fleet.join("b").await;
    b.serve(World::default());
    fleet.env.sleep(Duration::from_secs(60)).await;
    let due = fleet.store_keys("due").await;
    assert_eq!(
        (fleet.store_keys("once").await, fleet.store_keys("dead").await, due),
        (vec![], vec![], vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn pieces_of_an_answer_whose_time_is_over_go_when_another_takes_its_place() {
    let fleet = portable();
    let a = fleet.join("a").await;
    a.serve(World::default());
    let large = Say::Large(300_000);
    a.journal("j").call_with(large.clone(), key("k")).await.unwrap();
    let held = ask(&a.journal("j"), Say::Hold, key("held"));
    fleet.env.sleep(Duration::from_secs(1)).await;
    a.journal("j").call(Say::Release).await.unwrap();
    assert_eq!(held.await.unwrap().unwrap(), words(&["released"]));
    let before = fleet.store_keys("piece").await;
    a.kill();
    fleet.env.sleep(Duration::from_secs(601)).await;
    let b = fleet.join("b").await;
    b.serve(World::default());
    assert_eq!(b.journal("j").call_with(word("x"), key("held")).await.unwrap(), words(&["x"]));
    b.journal("j").call_with(large, key("k")).await.unwrap();
    let after = fleet.store_keys("piece").await;
    assert_eq!((before.len(), after.len()), (3, 2), "{after:?}");
    assert!(!after.iter().any(|key| before.contains(key)), "{after:?}");
}
