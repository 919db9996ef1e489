//! 11, 12: what is kept, and for how long.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure_server::{CallOptions, ServerError};
use tenure_store::{Limited, Limits, MemoryStore};

use crate::fleet::{Fleet, Journal, Say, Seat, World, is_locked, said, status, until, word, words};

/// Everything that a journal has in the store.
async fn left(fleet: &Fleet, id: &str) -> Vec<String> {
    let mut left = fleet.left().await;
    for list in ["queue", "urgent", "effect"] {
        if fleet.entries(list, id).await > 0 {
            left.push(format!("list {list}"));
        }
    }
    left
}

fn key(key: &str) -> CallOptions {
    CallOptions::default().idempotency_key(key)
}

#[tokio::test(start_paused = true)]
async fn w11_answers_are_kept_for_as_long_as_is_set() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    // More than are swept at once.
    for number in 0..100 {
        journal.call_with(Say::Attempt, key(&number.to_string())).await.unwrap();
    }
    fleet.env.sleep(Duration::from_secs(590)).await;
    assert_eq!(fleet.store_keys("once").await.len(), 100);
    assert!(fleet.store_keys("due").await.len() <= 3, "one sweep is enough for many");
    fleet.env.sleep(Duration::from_secs(10 + 600 / 8 + 10)).await;
    assert_eq!(left(&fleet, "j").await.len(), 1 + state_parts(&fleet).await, "the head and the state");
    assert_eq!(status(&journal).await.applied, 100);
    // Its time is over: it counts as new.
    journal.call_with(Say::Attempt, key("0")).await.unwrap();
    assert_eq!(said(&journal).await.len(), 101);
}

async fn state_parts(fleet: &Fleet) -> usize {
    fleet.store_keys("state").await.len()
}

#[tokio::test(start_paused = true)]
async fn w11_an_answer_whose_time_is_over_is_not_given_though_nobody_has_swept() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    a.serve(World::default());
    a.journal("j").call_with(word("one"), key("k")).await.unwrap();
    a.kill();
    fleet.env.sleep(Duration::from_secs(601)).await;
    let b = fleet.join("b").await;
    b.serve(World::default());
    assert_eq!(b.journal("j").call_with(word("two"), key("k")).await.unwrap(), words(&["one", "two"]));
}

#[tokio::test(start_paused = true)]
async fn w11_dead_letters_are_kept_for_as_long_as_is_set() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    journal.cast_all((0..60).map(|_| Say::Panic("bad".into()))).await.unwrap();
    until(&fleet.env, || async { status(&journal).await.died == 60 }).await;
    fleet.env.sleep(Duration::from_secs(1100)).await;
    assert_eq!(fleet.store_keys("dead").await.len(), 60);
    fleet.env.sleep(Duration::from_secs(100 + 1200 / 8 + 20)).await;
    assert_eq!(journal.dead_letters(None, 10).await.unwrap(), []);
    assert_eq!(left(&fleet, "j").await.len(), 1 + state_parts(&fleet).await);
    assert_eq!(status(&journal).await.died, 60);
}

#[tokio::test(start_paused = true)]
async fn w11_large_dead_letters_go_with_all_their_pieces() {
    let fleet = Fleet::over(Limited::new(MemoryStore::new(), Limits::PORTABLE));
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    for _ in 0..3 {
        journal.cast(Say::Fail("x".repeat(400_000), 99)).await.unwrap();
    }
    until(&fleet.env, || async { status(&journal).await.died == 3 }).await;
    let pieces = fleet.store_keys("piece").await;
    assert_eq!(pieces.len(), 6, "{pieces:?}");
    let dead = journal.dead_letters(None, 10).await.unwrap();
    assert!(dead.iter().all(|letter| letter.body.len() > 400_000 && letter.attempts.len() == 5));
    assert!(journal.drop_dead_letter(dead[0].number).await.unwrap());
    assert_eq!(fleet.store_keys("piece").await.len(), 4);
    fleet.env.sleep(Duration::from_secs(1400)).await;
    assert_eq!((fleet.store_keys("piece").await.len(), fleet.store_keys("dead").await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn w11_a_dead_letter_that_is_replayed_is_a_message_like_others() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    journal.cast(Say::Panic("bad".into())).await.unwrap();
    until(&fleet.env, || async { status(&journal).await.died == 1 }).await;
    assert!(journal.replay(1).await.unwrap());
    assert!(!journal.replay(1).await.unwrap(), "it is not there twice");
    until(&fleet.env, || async { status(&journal).await.died == 2 }).await;
    assert_eq!(journal.dead_letters(None, 10).await.unwrap().len(), 1);
}

/// A journal with something of everything, and locked work under way.
async fn furnish(
    fleet: &Fleet,
    a: &Seat,
    client: &Seat,
) -> (tokio::task::JoinHandle<Result<Vec<String>, ServerError>>, Arc<World>) {
    let world =
        a.serve(World { effects_failing: std::sync::atomic::AtomicU64::new(u64::MAX), ..World::waiting() });
    let journal = client.journal("j");
    journal.call_with(word("old"), key("k")).await.unwrap();
    journal.cast_all([Say::Panic("bad".into()), Say::Effect("never".into()), Say::Notes(20)]).await.unwrap();
    until(fleet, &journal, 1).await;
    for seconds in 100..110 {
        journal.cast(Say::Remind(seconds * 1000, "never".into())).await.unwrap();
        journal.cast_after(Duration::from_secs(seconds), word("never")).await.unwrap();
    }
    let locking = {
        let journal = journal.clone();
        tokio::spawn(async move {
            journal.call_with(Say::Lock("x".into()), key("lock").timeout(Duration::from_secs(60))).await
        })
    };
    crate::fleet::until(&fleet.env, || async { world.works() == 1 }).await;
    journal.cast(word(&"x".repeat(400_000))).await.unwrap();
    return (locking, world);

    async fn until(fleet: &Fleet, journal: &tenure_server::ServerRef<Journal>, died: u64) {
        crate::fleet::until(&fleet.env, || async { status(journal).await.died == died }).await;
    }
}

/// Of a server that was deleted there is an effect that is not done, and nothing when it is.
async fn outlive(fleet: &Fleet, world: &World) {
    let rest = left(fleet, "j").await;
    assert!(rest.len() == 2 && rest[0].contains("work") && rest[1] == "list effect", "{rest:?}");
    world.effects_failing.store(0, Ordering::SeqCst);
    fleet.env.sleep(Duration::from_secs(45)).await;
    assert_eq!(left(fleet, "j").await, words(&[]));
}

#[tokio::test(start_paused = true)]
async fn w12_a_deleted_server_leaves_nothing_and_comes_back_fresh() {
    let fleet = Fleet::over(Limited::new(MemoryStore::new(), Limits::PORTABLE));
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let (locking, world) = furnish(&fleet, &a, &client).await;
    let journal = client.journal("j");
    let before = left(&fleet, "j").await;
    for word in
        ["head", "state", "piece", "timer", "once", "dead", "work", "due", "list queue", "list effect"]
    {
        assert!(before.iter().any(|key| key.contains(word)), "there is no {word}: {before:?}");
    }
    assert!(is_locked(&journal).await);
    assert!(journal.delete().await.unwrap());
    let told = locking.await.unwrap();
    assert!(matches!(told, Err(ServerError::Deleted(_))), "{told:?}");
    fleet.env.sleep(Duration::from_secs(5)).await;
    outlive(&fleet, &world).await;
    assert!(!journal.delete().await.unwrap(), "there is nothing any more");
    assert_eq!(journal.status().await.unwrap(), None);
    assert_eq!(journal.call(word("new")).await.unwrap(), words(&["new"]));
    assert_eq!((status(&journal).await.applied, is_locked(&journal).await), (1, false));
    fleet.env.sleep(Duration::from_secs(200)).await;
    assert_eq!(said(&journal).await, words(&["new"]), "nothing of its past comes back");
}

#[tokio::test(start_paused = true)]
async fn w12_a_server_that_deletes_itself_leaves_nothing() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let (locking, world) = furnish(&fleet, &a, &client).await;
    let journal = client.journal("j");
    let answer = journal.priority_call(Say::Delete, CallOptions::default()).await.unwrap();
    assert_eq!(answer, words(&["old", "lock x"]));
    let _ = locking.await.unwrap().unwrap_err();
    fleet.env.sleep(Duration::from_secs(5)).await;
    outlive(&fleet, &world).await;
    assert_eq!(journal.call(word("new")).await.unwrap(), words(&["new"]));
    assert!(!is_locked(&journal).await);
}

#[tokio::test(start_paused = true)]
async fn w12_those_who_wait_are_told_when_their_server_is_deleted() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    let journal = client.journal("j");
    let waiting: Vec<_> = (0..5)
        .map(|number| {
            let journal = journal.clone();
            tokio::spawn(async move {
                journal
                    .call_with(
                        word(&number.to_string()),
                        CallOptions::default().timeout(Duration::from_secs(60)),
                    )
                    .await
            })
        })
        .collect();
    until(&fleet.env, || async { journal.status().await.unwrap().is_some_and(|status| status.waiting == 5) })
        .await;
    assert!(journal.delete().await.unwrap());
    for told in waiting {
        let told = told.await.unwrap();
        assert!(matches!(told, Err(ServerError::Deleted(_))), "{told:?}");
    }
    assert_eq!(left(&fleet, "j").await, words(&[]));
}
