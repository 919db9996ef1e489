//! 4, 5, 10: sending.

use std::time::Duration;

use tenure_server::{CallOptions, Serve as _, ServerError};
use tenure_store::{Faults, MemoryStore};

use crate::fleet::{Fleet, Say, World, said, status, until, word, words};

fn numbered(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of} {number}")).collect()
}

#[tokio::test(start_paused = true)]
async fn w04_an_unknown_outcome_of_sending_sends_once() {
    let kinds = [
        Faults { unknown_landed: 1.0, ..Faults::NONE },
        Faults { unknown_lost: 1.0, ..Faults::NONE },
        Faults { unknown_late: 1.0, ..Faults::NONE },
        Faults { unknown_landed: 0.3, unknown_lost: 0.3, unknown_late: 0.3, ..Faults::NONE },
    ];
    for faults in kinds {
        let fleet = Fleet::new();
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        a.serve(World::default());
        let journal = client.journal("j");
        journal.cast(word("first")).await.unwrap();
        client.link.set_faults(faults);
        let mend = {
            let (env, link) = (fleet.env.clone(), std::sync::Arc::clone(&client.link));
            tokio::spawn(async move {
                env.sleep(Duration::from_secs(3)).await;
                link.set_faults(Faults::NONE);
            })
        };
        journal.cast(word("one")).await.unwrap();
        journal.cast_all([word("two"), word("three")]).await.unwrap();
        let patient = CallOptions::default().timeout(Duration::from_secs(60));
        let answer = journal.call_with(word("four"), patient).await.unwrap();
        assert_eq!(answer, words(&["first", "one", "two", "three", "four"]), "{faults:?}");
        mend.await.unwrap();
        fleet.env.sleep(Duration::from_secs(10)).await;
        assert_eq!((said(&journal).await, status(&journal).await.applied), (answer, 5), "{faults:?}");
        let own = fleet.store_keys("own").await;
        assert!(own.iter().all(|key| !key.contains("reply")), "answers are not kept: {own:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn w04_an_unknown_outcome_of_an_inline_call_runs_once() {
    let kinds = [
        Faults { unknown_landed: 1.0, ..Faults::NONE },
        Faults { unknown_lost: 1.0, ..Faults::NONE },
        Faults { unknown_late: 1.0, ..Faults::NONE },
    ];
    for faults in kinds {
        let fleet = Fleet::new();
        let a = fleet.join("a").await;
        a.serve(World::default());
        let journal = a.journal("j");
        a.link.set_faults(faults);
        let calling = {
            let journal = journal.clone();
            tokio::spawn(async move {
                journal.call_with(word("one"), CallOptions::default().timeout(Duration::from_secs(60))).await
            })
        };
        fleet.env.sleep(Duration::from_secs(2)).await;
        a.link.set_faults(Faults::NONE);
        assert_eq!(calling.await.unwrap().unwrap(), words(&["one"]), "{faults:?}");
        fleet.env.sleep(Duration::from_secs(5)).await;
        assert_eq!(
            (said(&journal).await, status(&journal).await.applied),
            (words(&["one"]), 1),
            "{faults:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn w05_what_was_cast_survives_its_sender() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    // Slow enough that a cast that returns before its commit would be seen.
    client.link.set_faults(Faults { delay: Duration::from_millis(50), ..Faults::NONE });
    client.journal("queued").cast(word("one")).await.unwrap();
    client.kill();
    assert_eq!(fleet.entries("queue", "queued").await, 1);
    a.serve(World::default());
    a.link.set_faults(Faults { delay: Duration::from_millis(50), ..Faults::NONE });
    a.journal("inline").cast(word("two")).await.unwrap();
    a.kill();
    assert_eq!(said(&b.journal("inline")).await, words(&["two"]));
    b.serve(World::default());
    until(&fleet.env, || async { said(&b.journal("queued")).await == words(&["one"]) }).await;
}

#[tokio::test(start_paused = true)]
async fn w05_sending_without_waiting_keeps_its_order() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let (near, far) = (a.journal("j"), client.journal("j"));
    for link in [&a.link, &client.link] {
        link.set_faults(Faults { delay: Duration::from_millis(20), ..Faults::NONE });
    }
    for number in 0..30 {
        near.cast_nowait(word(&format!("near {number}"))).unwrap();
        far.cast_nowait(word(&format!("far {number}"))).unwrap();
        fleet.env.sleep(Duration::from_millis(3)).await;
    }
    until(&fleet.env, || async { said(&near).await.len() == 60 }).await;
    for of in ["near", "far"] {
        let all: Vec<String> = said(&near).await.into_iter().filter(|word| word.starts_with(of)).collect();
        assert_eq!(all, numbered(of, 30));
    }
}

#[tokio::test(start_paused = true)]
async fn w05_a_call_comes_behind_what_was_acknowledged_before_it() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    a.journal("j").call(word("first")).await.unwrap();
    // The consumer does not hear of what is in the queue.
    a.link.set_faults(Faults { watch_lost: 1.0, reread: Duration::from_secs(3600), ..Faults::NONE });
    for number in 1..20 {
        client.journal("j").cast(word("queued")).await.unwrap();
        let answer = a.journal("j").call(word("inline")).await.unwrap();
        assert_eq!((answer.len(), answer[2 * number - 1].as_str()), (2 * number + 1, "queued"));
    }
}

#[tokio::test(start_paused = true)]
async fn w05_many_casts_are_sent_together_or_not_at_all() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    journal.cast_all(numbered("a", 60).iter().map(|of| word(of))).await.unwrap();
    let refused = journal.cast_all(numbered("b", 60).iter().map(|of| word(of))).await;
    assert!(matches!(refused, Err(ServerError::Full { limit: 100, .. })), "{refused:?}");
    assert_eq!(status(&journal).await.waiting, 60);
    let large = journal.cast_all((0..10).map(|_| word(&"x".repeat(1_000_000)))).await;
    assert!(matches!(large, Err(ServerError::TooLarge(_))), "{large:?}");
    client.link.set_faults(Faults { unknown_landed: 0.5, unknown_lost: 0.5, ..Faults::NONE });
    journal.cast_all(numbered("c", 30).iter().map(|of| word(of))).await.unwrap();
    a.serve(World::default());
    until(&fleet.env, || async { status(&journal).await.waiting == 0 }).await;
    let all = [numbered("a", 60), numbered("c", 30)].concat();
    assert_eq!(said(&journal).await, all);
    journal.cast_all([]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn w10_a_call_may_wait_for_ever() {
    let fleet = Fleet::over(MemoryStore::new());
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    let queued = {
        let journal = journal.clone();
        tokio::spawn(async move {
            journal.call_with(word("one"), CallOptions::default().timeout(Duration::MAX)).await
        })
    };
    fleet.env.sleep(Duration::from_secs(24 * 3600)).await;
    a.serve(World::default());
    assert_eq!(queued.await.unwrap().unwrap(), words(&["one"]));
    let inline = a.journal("j").call_with(word("two"), CallOptions::default().timeout(Duration::MAX)).await;
    assert_eq!(inline.unwrap(), words(&["one", "two"]));
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    let timer = journal.cast_after(century, word("late")).await.unwrap();
    assert!(timer.at() > century);
    assert!(client.cluster.cancel(&timer).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn w10_a_call_that_gave_up_leaves_nothing_and_is_carried_out() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    let late = journal.call_with(word("one"), CallOptions::default().timeout(Duration::from_secs(1))).await;
    assert!(matches!(late, Err(ServerError::Timeout { .. })), "{late:?}");
    let held = journal.call_with(Say::Hold, CallOptions::default().timeout(Duration::from_secs(1)));
    let _ = held.await.unwrap_err();
    a.serve(World::default());
    until(&fleet.env, || async { said(&journal).await == words(&["one"]) }).await;
    fleet.env.sleep(Duration::from_secs(5)).await;
    let own = fleet.store_keys("own").await;
    assert!(own.iter().all(|key| !key.contains("reply")), "{own:?}");
    assert_eq!(
        journal.call(word("two")).await.unwrap(),
        words(&["one", "two"]),
        "no late answer is in the way"
    );
}
