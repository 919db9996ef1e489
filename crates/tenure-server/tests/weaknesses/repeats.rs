//! 16: stop and start; calls that are repeated.

use std::time::Duration;

use tenure_server::{CallOptions, ServerError};
use tenure_store::Faults;

use crate::fleet::{Fleet, Say, World, said, status, until, word, words};

fn key(key: &str) -> CallOptions {
    CallOptions::default().idempotency_key(key).timeout(Duration::from_secs(60))
}

#[tokio::test(start_paused = true)]
async fn w16_a_call_that_stops_its_server_is_answered_and_the_rest_waits() {
    for inline in [true, false] {
        let fleet = Fleet::new();
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        a.serve(World::default());
        let journal = if inline { a.journal("j") } else { client.journal("j") };
        assert_eq!(journal.call(word("one")).await.unwrap(), words(&["one"]));
        assert_eq!(journal.call(Say::Stop).await.unwrap(), words(&["one"]));
        assert_eq!(status(&journal).await.stopped.as_deref(), Some("it was asked to"));
        let waiting = {
            let journal = journal.clone();
            let patient = CallOptions::default().timeout(Duration::from_secs(600));
            tokio::spawn(async move { journal.call_with(word("two"), patient).await })
        };
        until(&fleet.env, || async { status(&journal).await.waiting == 1 }).await;
        journal.cast(word("three")).await.unwrap();
        fleet.env.sleep(Duration::from_secs(60)).await;
        assert_eq!((said(&journal).await, status(&journal).await.waiting), (words(&["one"]), 2));
        let urgent = journal.priority_call(word("urgent"), CallOptions::default()).await.unwrap();
        assert_eq!(urgent, words(&["one", "urgent"]));
        assert!(journal.start().await.unwrap());
        assert!(!journal.start().await.unwrap(), "it is started");
        assert_eq!(waiting.await.unwrap().unwrap()[..3], words(&["one", "urgent", "two"]));
        until(&fleet.env, || async { said(&journal).await.len() == 4 }).await;
        assert_eq!(status(&journal).await.stopped, None);
    }
}

#[tokio::test(start_paused = true)]
async fn w16_an_operator_stops_and_starts() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    journal.call(word("one")).await.unwrap();
    assert!(journal.stop("upgrade").await.unwrap());
    journal.cast(word("two")).await.unwrap();
    a.journal("j").cast(word("three")).await.unwrap();
    a.kill();
    let b = fleet.join("b").await;
    b.serve(World::default());
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!(said(&journal).await, words(&["one"]), "it is stopped for all nodes");
    assert_eq!(status(&journal).await.stopped.as_deref(), Some("upgrade"));
    journal.start().await.unwrap();
    until(&fleet.env, || async { said(&journal).await == words(&["one", "two", "three"]) }).await;
}

#[tokio::test(start_paused = true)]
async fn w16_a_repeated_call_returns_the_first_answer_by_whatever_way() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    a.serve(World::default());
    b.serve(World::default());
    fleet.env.sleep(Duration::from_secs(2)).await;
    let (near, near_too, far) = (a.journal("j"), b.journal("j"), client.journal("j"));
    let first = words(&["one"]);
    assert_eq!(near.call_with(word("one"), key("k")).await.unwrap(), first);
    near.call(word("between")).await.unwrap();
    for journal in [&near, &near_too, &far] {
        assert_eq!(journal.call_with(word("one"), key("k")).await.unwrap(), first);
        let urgent = journal.priority_call(word("one"), key("k")).await.unwrap();
        assert_eq!(urgent, first);
    }
    assert_eq!(far.call_with(word("queued"), key("q")).await.unwrap().len(), 3);
    assert_eq!(near.call_with(word("queued"), key("q")).await.unwrap().len(), 3);
    assert_eq!(said(&far).await, words(&["one", "between", "queued"]));
    a.kill();
    b.kill();
    let c = fleet.join("c").await;
    c.serve(World::default());
    assert_eq!(c.journal("j").call_with(word("one"), key("k")).await.unwrap(), first, "after a restart");
    assert_eq!(far.call_with(word("one"), key("k")).await.unwrap(), first);
}

#[tokio::test(start_paused = true)]
async fn w16_repeats_in_one_batch_and_of_locked_work_run_once() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    let calls: Vec<_> = (0..5)
        .map(|number| {
            let (journal, say) =
                (journal.clone(), if number % 2 == 0 { word("x") } else { Say::Lock("y".into()) });
            let key = key(if number % 2 == 0 { "word" } else { "lock" });
            tokio::spawn(async move { journal.call_with(say, key).await })
        })
        .collect();
    until(&fleet.env, || async { fleet.entries("queue", "j").await > 0 }).await;
    let world = a.serve(World::default());
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap().unwrap());
    }
    assert_eq!(answers[0], answers[2]);
    assert_eq!(answers[0], answers[4]);
    assert_eq!(answers[1], answers[3]);
    assert_eq!((said(&journal).await, world.works()), (words(&["x", "lock y", "done y"]), 1));
}

#[tokio::test(start_paused = true)]
async fn w16_a_call_whose_outcome_is_unknown_can_be_repeated() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    // It loses its session while it waits, and with it the way for the answer.
    client.link.set_faults(Faults { watch_lost: 1.0, reread: Duration::from_secs(3600), ..Faults::NONE });
    let calling = {
        let journal = journal.clone();
        tokio::spawn(async move { journal.call_with(word("one"), key("k")).await })
    };
    until(&fleet.env, || async { said(&a.journal("j")).await.len() == 1 }).await;
    client.link.cut();
    fleet.env.sleep(Duration::from_secs(30)).await;
    client.link.heal();
    client.link.set_faults(Faults::NONE);
    let lost = calling.await.unwrap();
    assert!(matches!(lost, Err(ServerError::OutcomeUnknown(_)) | Ok(_)), "{lost:?}");
    assert_eq!(journal.call_with(word("one"), key("k")).await.unwrap(), words(&["one"]));
    assert_eq!(said(&journal).await, words(&["one"]));
}

#[tokio::test(start_paused = true)]
async fn w16_a_bad_idempotency_key_is_refused() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    for bad in [String::new(), "x".repeat(129)] {
        let refused = client.journal("j").call_with(word("one"), key(&bad)).await;
        assert!(
            matches!(&refused, Err(ServerError::Invalid(why)) if why.to_string().contains("128")),
            "{refused:?}"
        );
    }
    assert_eq!(client.journal("j").status().await.unwrap(), None, "nothing was sent");
}
