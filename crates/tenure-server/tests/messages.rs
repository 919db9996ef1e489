//! What becomes of messages, on simulated time.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::{sync::Arc, time::Duration};

use fleet::{Fleet, Journal, Say, World, status, until, word, words};
use tenure_server::{CallOptions, Serve, ServerError, ServerRef};
use tenure_store::Faults;

async fn said(journal: &ServerRef<Journal>) -> Vec<String> {
    journal.read(|pages| pages.said.clone()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_consuming_node_answers_inline() {
    let fleet = Fleet::new();
    let seat = fleet.join("a").await;
    seat.cluster.serve_with(Journal::default()).unwrap();
    let journal = seat.cluster.server::<Journal>("j").unwrap();
    assert_eq!(journal.call(word("one")).await.unwrap(), words(&["one"]));
    journal.cast(word("two")).await.unwrap();
    assert_eq!(said(&journal).await, words(&["one", "two"]));
    assert_eq!(journal.status().await.unwrap().unwrap().applied, 2);
}

#[tokio::test(start_paused = true)]
async fn other_nodes_are_answered_through_the_queue() {
    let fleet = Fleet::new();
    let (server, client) = (fleet.join("a").await, fleet.join("b").await);
    let journal = client.cluster.server::<Journal>("j").unwrap();
    journal.cast(word("before")).await.unwrap();
    server.cluster.serve_with(Journal::default()).unwrap();
    assert_eq!(journal.call(word("one")).await.unwrap(), words(&["before", "one"]));
    journal.cast_all([word("two"), word("three")]).await.unwrap();
    assert_eq!(journal.call(word("four")).await.unwrap(), words(&["before", "one", "two", "three", "four"]));
    assert_eq!(said(&journal).await.len(), 5);
    fleet.env.sleep(Duration::from_secs(5)).await;
    let left = fleet.left().await;
    assert!(left.iter().all(|key| key.contains("head") || key.contains("state")), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn what_fails_comes_back_and_the_rest_goes_on() {
    let fleet = Fleet::new();
    let (server, client) = (fleet.join("a").await, fleet.join("b").await);
    let journal = client.cluster.server::<Journal>("j").unwrap();
    journal
        .cast_all([
            word("one"),
            Say::Fail("two".into(), 2),
            word("three"),
            Say::Panic("four".into()),
            word("five"),
        ])
        .await
        .unwrap();
    server.cluster.serve_with(Journal::default()).unwrap();
    until(&fleet.env, || async { said(&journal).await == words(&["one", "three", "five", "two"]) }).await;
    until(&fleet.env, || async { !journal.dead_letters(None, 10).await.unwrap().is_empty() }).await;
    let dead = journal.dead_letters(None, 10).await.unwrap();
    assert_eq!((dead.len(), dead[0].attempts.len()), (1, 5));
    assert!(dead[0].attempts[0].error.contains("four is terrible"), "{dead:?}");
    let failed = journal
        .call_with(Say::Panic("six".into()), CallOptions::default().timeout(Duration::from_secs(60)))
        .await;
    assert!(matches!(&failed, Err(ServerError::Failed { attempts: 5, .. })), "{failed:?}");
    assert!(journal.replay(dead[0].number).await.unwrap());
    assert!(!journal.drop_dead_letter(dead[0].number).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn locked_work_waits_and_priority_does_not() {
    let fleet = Fleet::new();
    let (server, client) = (fleet.join("a").await, fleet.join("b").await);
    let journal_server = Journal(std::sync::Arc::new(fleet::World {
        permits: Some(tokio::sync::Semaphore::new(0)),
        ..Default::default()
    }));
    server.cluster.serve_with(journal_server.clone()).unwrap();
    let journal = client.cluster.server::<Journal>("j").unwrap();
    let locking = {
        let journal = journal.clone();
        tokio::spawn(async move { journal.call(Say::Lock("x".into())).await })
    };
    until(&fleet.env, || async { journal.status().await.unwrap().is_some_and(|status| status.is_locked) })
        .await;
    journal.cast(word("later")).await.unwrap();
    assert_eq!(
        journal.priority_call(word("now"), CallOptions::default()).await.unwrap(),
        words(&["lock x", "now"])
    );
    journal_server.0.permits.as_ref().unwrap().add_permits(1);
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "now", "done x"]));
    until(&fleet.env, || async { said(&journal).await == words(&["lock x", "now", "done x", "later"]) })
        .await;
}

#[tokio::test(start_paused = true)]
async fn locked_work_of_a_node_that_stops_serving_has_not_failed() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let j = client.journal("j");
    a.link.set_faults(Faults { delay: Duration::from_millis(5), ..Faults::NONE });
    for number in 0..25 {
        let world = Arc::new(World::default());
        let serving = a.cluster.serve_with(Journal(world)).unwrap();
        j.cast_all((0..3).map(|part| Say::Lock(format!("{number} {part}")))).await.unwrap();
        fleet.env.sleep(Duration::from_millis(2 * number)).await;
        serving.stop().await.unwrap();
        fleet.env.sleep(Duration::from_secs(1)).await;
    }
    b.serve(World::default());
    until(&fleet.env, || async { said(&j).await.len() >= 150 }).await;
    assert_eq!(status(&j).await.died, 0);
    assert_eq!(said(&j).await.len(), 150, "each is done once");
}
