//! 15: late answers, timers, messages between servers, queues with a limit, reads.

use std::time::Duration;

use tenure_server::{CallOptions, Serve as _, ServerError};
use tenure_store::Faults;

use crate::fleet::{Fleet, Say, World, said, status, until, word, words};

#[tokio::test(start_paused = true)]
async fn w15_a_call_is_answered_later_from_another_node() {
    for inline in [true, false] {
        let fleet = Fleet::new();
        let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
        a.serve(World::default());
        let journal = if inline { a.journal("j") } else { client.journal("j") };
        let holding = {
            let journal = journal.clone();
            let patient = CallOptions::default().timeout(Duration::from_secs(60));
            tokio::spawn(async move { journal.call_with(Say::Hold, patient).await })
        };
        let held = b.journal("j");
        until(&fleet.env, || async { held.read(|pages| pages.waiting.is_some()).await.unwrap() }).await;
        let to = held.read(|pages| pages.waiting.clone()).await.unwrap().unwrap();
        assert!(!holding.is_finished());
        b.link.set_faults(Faults { unknown_landed: 0.5, unknown_lost: 0.4, ..Faults::NONE });
        b.cluster.reply(&to, &words(&["from b"])).await.unwrap();
        assert_eq!(holding.await.unwrap().unwrap(), words(&["from b"]));
        b.link.set_faults(Faults::NONE);
        b.cluster.reply(&to, &words(&["again"])).await.unwrap();
        assert_eq!(
            journal.call(word("next")).await.unwrap(),
            words(&["next"]),
            "a second answer is not heard"
        );
        fleet.env.sleep(Duration::from_secs(5)).await;
        let own = fleet.store_keys("own").await;
        assert!(own.iter().all(|key| !key.contains("reply")), "{own:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn w15_a_call_is_answered_later_by_another_message() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    let holding = {
        let journal = journal.clone();
        tokio::spawn(async move { journal.call(Say::Hold).await })
    };
    until(&fleet.env, || async { journal.read(|pages| pages.waiting.is_some()).await.unwrap() }).await;
    journal.cast(Say::Release).await.unwrap();
    assert_eq!(holding.await.unwrap().unwrap(), words(&["released"]));
}

#[tokio::test(start_paused = true)]
async fn w15_an_answer_to_a_caller_that_is_gone_is_no_error_and_leaves_nothing() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    tokio::spawn(async move { journal.call(Say::Hold).await });
    let near = a.journal("j");
    until(&fleet.env, || async { near.read(|pages| pages.waiting.is_some()).await.unwrap() }).await;
    let to = near.read(|pages| pages.waiting.clone()).await.unwrap().unwrap();
    client.kill();
    fleet.env.sleep(Duration::from_secs(30)).await;
    a.cluster.reply(&to, &words(&["late"])).await.unwrap();
    near.call(Say::Release).await.unwrap();
    let own = fleet.store_keys("own").await;
    assert!(own.iter().all(|key| !key.contains("reply")), "{own:?}");
}

#[tokio::test(start_paused = true)]
async fn w15_delayed_messages_come_in_time_and_once() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    a.serve(World::default());
    b.serve(World::default());
    let journal = client.journal("j");
    let start = fleet.env.now();
    for seconds in [30_u64, 10, 20] {
        journal.cast_after(Duration::from_secs(seconds), word(&seconds.to_string())).await.unwrap();
        journal.call(Say::Remind(seconds * 1000 + 500, format!("{seconds}.5"))).await.unwrap();
    }
    for (count, due) in [(1, 10_000), (2, 10_500), (3, 20_000), (4, 20_500), (5, 30_000), (6, 30_500)] {
        until(&fleet.env, || async { said(&journal).await.len() == count }).await;
        let (at, due) = (fleet.env.now() - start, Duration::from_millis(due));
        assert!(at >= due && at < due + Duration::from_millis(200), "{due:?} came at {at:?}");
    }
    assert_eq!(said(&journal).await, words(&["10", "10.5", "20", "20.5", "30", "30.5"]));
    assert_eq!((fleet.store_keys("timer").await, fleet.store_keys("due").await), (words(&[]), words(&[])));
}

#[tokio::test(start_paused = true)]
async fn w15_delayed_messages_come_once_though_answers_get_lost() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    a.serve(World::default());
    b.serve(World::default());
    let journal = client.journal("j");
    for number in 0..20 {
        journal
            .cast_after(Duration::from_millis(1000 + 10 * number), word(&number.to_string()))
            .await
            .unwrap();
    }
    for seat in [&a, &b] {
        seat.link.set_faults(Faults {
            unknown_landed: 0.3,
            unknown_lost: 0.2,
            unknown_late: 0.2,
            ..Faults::NONE
        });
    }
    fleet.env.sleep(Duration::from_secs(20)).await;
    for seat in [&a, &b] {
        seat.link.set_faults(Faults::NONE);
    }
    until(&fleet.env, || async { said(&journal).await.len() >= 20 }).await;
    fleet.env.sleep(Duration::from_secs(30)).await;
    let mut all = said(&journal).await;
    all.sort_by_key(|word| word.parse::<u64>().unwrap());
    assert_eq!(all, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn w15_timers_survive_all_consumers() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    journal.call(Say::Remind(10_000, "one".into())).await.unwrap();
    a.kill();
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!(said(&journal).await, words(&[]));
    let b = fleet.join("b").await;
    b.serve(World::default());
    until(&fleet.env, || async { said(&journal).await == words(&["one"]) }).await;
}

#[tokio::test(start_paused = true)]
async fn w15_delayed_messages_can_be_cancelled_until_they_are_due() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    let timer = journal.cast_after(Duration::from_secs(10), word("never")).await.unwrap();
    let soon = journal.cast_after(Duration::from_secs(1), word("soon")).await.unwrap();
    journal.call(Say::Remind(10_000, "never either".into())).await.unwrap();
    assert!(a.cluster.cancel(&timer).await.unwrap(), "any node can");
    assert!(!client.cluster.cancel(&timer).await.unwrap());
    journal.call(Say::Forget).await.unwrap();
    until(&fleet.env, || async { said(&journal).await == words(&["soon"]) }).await;
    assert!(!client.cluster.cancel(&soon).await.unwrap(), "it was due");
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!(said(&journal).await, words(&["soon"]));
    assert_eq!((fleet.store_keys("timer").await, fleet.store_keys("due").await), (words(&[]), words(&[])));
}

#[tokio::test(start_paused = true)]
async fn w15_a_full_queue_refuses_and_recovers() {
    let fleet = Fleet::new();
    let (a, client, other) = (fleet.join("a").await, fleet.join("client").await, fleet.join("other").await);
    let (journal, elsewhere) = (client.journal("j"), other.journal("j"));
    let mut sent = 0;
    let refused = loop {
        match journal.cast(word(&sent.to_string())).await {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 200, "it has no limit");
    };
    assert!(matches!(refused, ServerError::Full { limit: 100, .. }), "{refused:?}");
    assert!(refused.to_string().contains("queue of server j is full"), "{refused}");
    assert_eq!((sent, status(&journal).await.waiting), (100, 100));
    for _ in 0..3 {
        let refused = elsewhere.cast(word("no")).await;
        assert!(matches!(refused, Err(ServerError::Full { .. })), "{refused:?}");
    }
    journal.priority_cast(word("urgent")).await.unwrap();
    journal.cast_after(Duration::from_secs(600), word("later")).await.unwrap();
    a.serve(World::default());
    until(&fleet.env, || async { status(&journal).await.waiting == 0 }).await;
    elsewhere.cast(word("again")).await.unwrap();
    journal.call(word("and again")).await.unwrap();
    assert_eq!(said(&journal).await.len(), 103);
    assert_eq!(fleet.store_keys("full").await, words(&[]));
}

#[tokio::test(start_paused = true)]
async fn w15_a_read_sees_all_that_was_acknowledged_before_it() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    a.serve(World::default());
    b.serve(World::default());
    fleet.env.sleep(Duration::from_secs(2)).await;
    for seat in [&a, &b, &client] {
        seat.link.set_faults(Faults { delay: Duration::from_millis(3), ..Faults::NONE });
    }
    let journals = [a.journal("j"), b.journal("j"), client.journal("j")];
    for number in 0..60 {
        // Casts to a queue are acknowledged before they are applied; calls are applied.
        journals[number % 3].call(Say::Attempt).await.unwrap();
        for journal in &journals {
            assert_eq!(said(journal).await.len(), number + 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn w15_messages_to_other_servers_are_sent_with_the_commit_and_once() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let (from, to) = (client.journal("from"), client.journal("to"));
    a.link.set_faults(Faults { unknown_landed: 0.3, unknown_lost: 0.2, unknown_late: 0.2, ..Faults::NONE });
    for number in 0..10 {
        from.cast(Say::Send("to".into(), vec![format!("{number}a"), format!("{number}b")])).await.unwrap();
    }
    fleet.env.sleep(Duration::from_secs(5)).await;
    a.link.set_faults(Faults::NONE);
    until(&fleet.env, || async { said(&to).await.len() >= 20 }).await;
    fleet.env.sleep(Duration::from_secs(5)).await;
    let expected: Vec<String> =
        (0..10).flat_map(|number| [format!("{number}a"), format!("{number}b")]).collect();
    assert_eq!(said(&to).await, expected);
}
