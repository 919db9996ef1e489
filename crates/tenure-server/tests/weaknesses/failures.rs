//! 7, 8, 9: failures.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tenure_server::{CallOptions, ServerError};
use tenure_store::Faults;

use crate::fleet::{Fleet, Say, World, said, status, until, word, words};

#[tokio::test(start_paused = true)]
async fn w07_effects_around_a_failing_message_are_not_dropped() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    let batch = [
        Say::Effect("before".into()),
        Say::After,
        Say::Panic("bad".into()),
        Say::Effect("behind".into()),
        Say::After,
    ];
    journal.cast_all(batch).await.unwrap();
    let world = a.serve(World::default());
    until(&fleet.env, || async { journal.dead_letters(None, 10).await.unwrap().len() == 1 }).await;
    until(&fleet.env, || async { world.effects().len() == 2 && world.after() == 2 }).await;
    fleet.env.sleep(Duration::from_secs(60)).await;
    let mut done: Vec<String> = world.effects().into_iter().map(|(effect, _)| effect).collect();
    done.sort();
    assert_eq!(
        (done, world.after()),
        (words(&["before", "behind"]), 2),
        "each once, though callbacks ran again"
    );
    assert_eq!(fleet.entries("effect", "j").await, 0);
}

#[tokio::test(start_paused = true)]
async fn w07_effects_are_tried_until_they_succeed_under_one_id() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let world = a.serve(World { effects_failing: AtomicU64::new(4), ..World::default() });
    a.journal("j").call(Say::Effect("mail".into())).await.unwrap();
    until(&fleet.env, || async { world.effects().len() == 5 }).await;
    fleet.env.sleep(Duration::from_secs(60)).await;
    let tried = world.effects();
    assert!(tried.iter().all(|one| *one == tried[0]), "{tried:?}");
    assert_eq!((tried.len(), fleet.entries("effect", "j").await), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn w07_effects_of_a_killed_process_are_done_by_another_under_the_same_id() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let first = a.serve(World { effects_failing: AtomicU64::new(u64::MAX), ..World::default() });
    a.journal("j").call(Say::Effect("mail".into())).await.unwrap();
    until(&fleet.env, || async { !first.effects().is_empty() }).await;
    a.kill();
    let second = b.serve(World::default());
    until(&fleet.env, || async { !second.effects().is_empty() }).await;
    assert_eq!(second.effects()[0], first.effects()[0]);
    until(&fleet.env, || async { fleet.entries("effect", "j").await == 0 }).await;
    assert_eq!(second.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn w07_an_effect_is_in_the_commit_of_its_message_though_answers_get_lost() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let (world, journal) = (a.serve(World::default()), client.journal("j"));
    a.link.set_faults(Faults { unknown_landed: 0.3, unknown_lost: 0.3, unknown_late: 0.3, ..Faults::NONE });
    for number in 0..10 {
        journal.cast(Say::Effect(number.to_string())).await.unwrap();
    }
    fleet.env.sleep(Duration::from_secs(5)).await;
    a.link.set_faults(Faults::NONE);
    until(&fleet.env, || async {
        fleet.entries("effect", "j").await == 0 && status(&journal).await.applied == 10
    })
    .await;
    let mut ids: Vec<_> = world.effects().into_iter().collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 10, "each under one id: {ids:?}");
}

#[tokio::test(start_paused = true)]
async fn w08_a_message_that_kills_its_process_is_a_dead_letter_in_the_end() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    let journal = client.journal("j");
    journal.cast_all([word("one"), Say::Kill, word("two"), word("three")]).await.unwrap();
    let mut killed = 0;
    loop {
        let seat = fleet.join(&format!("worker-{killed}")).await;
        seat.serve(World::default());
        until(&fleet.env, || async {
            seat.gate.is_dead() || !journal.dead_letters(None, 10).await.unwrap().is_empty()
        })
        .await;
        if !seat.gate.is_dead() {
            until(&fleet.env, || async { said(&journal).await == words(&["one", "two", "three"]) }).await;
            break;
        }
        killed += 1;
        assert!(killed < 10, "it kills for ever");
        fleet.env.sleep(Duration::from_secs(30)).await;
    }
    let dead = journal.dead_letters(None, 10).await.unwrap();
    assert_eq!((dead.len(), dead[0].attempts.len()), (1, 5));
    for attempt in &dead[0].attempts {
        assert!(attempt.error.contains("went away"), "{attempt:?}");
        assert!(attempt.node.starts_with("worker-"), "{attempt:?}");
    }
    // The first of them had all messages in hand, so that none could be blamed.
    assert!(killed <= 6, "{killed}");
    assert_eq!(status(&journal).await.waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn w08_messages_that_only_stood_beside_a_killer_are_not_blamed() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    let journal = client.journal("j");
    journal.cast_all([Say::Attempt, Say::Kill, Say::Attempt]).await.unwrap();
    for number in 0..7 {
        let seat = fleet.join(&format!("worker-{number}")).await;
        seat.serve(World::default());
        until(&fleet.env, || async { seat.gate.is_dead() || said(&journal).await.len() == 2 }).await;
        fleet.env.sleep(Duration::from_secs(30)).await;
    }
    assert_eq!(said(&journal).await, words(&["attempt 0", "attempt 0"]));
}

#[tokio::test(start_paused = true)]
async fn w08_attempts_are_ever_further_apart_and_others_do_not_wait() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    let failing = {
        let journal = journal.clone();
        let patient = CallOptions::default().timeout(Duration::from_secs(60));
        tokio::spawn(async move { journal.call_with(Say::Panic("bad".into()), patient).await })
    };
    fleet.env.sleep(Duration::from_millis(50)).await;
    let asked = fleet.env.now();
    assert_eq!(journal.call(word("meanwhile")).await.unwrap(), words(&["meanwhile"]));
    assert!(fleet.env.now() - asked < Duration::from_millis(50), "it does not wait for the other's attempts");
    let failed = failing.await.unwrap();
    assert!(
        matches!(&failed, Err(ServerError::Failed { attempts: 5, error, .. }) if error.contains("bad")),
        "{failed:?}"
    );
    let attempts = &journal.dead_letters(None, 1).await.unwrap()[0].attempts;
    for (number, pair) in attempts.windows(2).enumerate() {
        let (pause, least) = (pair[1].at.saturating_sub(pair[0].at), Duration::from_millis(100 << number));
        assert!(pause >= least && pause < least + Duration::from_millis(200), "{pause:?} is not {least:?}");
    }
    assert_eq!(said(&journal).await, words(&["meanwhile"]), "what a failed message did is undone");
}

#[tokio::test(start_paused = true)]
async fn w09_faults_of_the_store_are_no_failures_of_messages() {
    let troubles = [
        Faults { unavailable: 1.0, ..Faults::NONE },
        Faults { conflict: 1.0, ..Faults::NONE },
        Faults { unavailable: 0.4, conflict: 0.3, ..Faults::NONE },
        Faults { unknown_lost: 1.0, ..Faults::NONE },
        Faults::STORM,
    ];
    for faults in troubles {
        let fleet = Fleet::new();
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        a.serve(World::default());
        let journal = client.journal("j");
        journal.call(word("first")).await.unwrap();
        a.link.set_faults(faults);
        for _ in 0..5 {
            journal.cast(Say::Attempt).await.unwrap();
        }
        // Longer than a session lives.
        fleet.env.sleep(Duration::from_secs(40)).await;
        a.link.set_faults(Faults::NONE);
        until(&fleet.env, || async { said(&journal).await.len() == 6 }).await;
        let expected = [&["first"][..], &["attempt 0"; 5]].concat();
        assert_eq!(said(&journal).await, words(&expected), "{faults:?}");
        assert_eq!(status(&journal).await.died, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn w09_a_panic_of_a_locked_work_is_a_failure_and_nothing_worse() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    // Locked work of this message finds nothing to do, and fails.
    let world = a.serve(World { permits: Some(tokio::sync::Semaphore::const_new(0)), ..World::default() });
    world.permits.as_ref().unwrap().close();
    let patient = CallOptions::default().timeout(Duration::from_secs(60));
    let failed = a.journal("j").call_with(Say::Lock("x".into()), patient).await;
    assert!(matches!(failed, Err(ServerError::Failed { attempts: 5, .. })), "{failed:?}");
    assert_eq!(world.works.load(Ordering::SeqCst), 5);
    assert_eq!(a.journal("j").call(word("next")).await.unwrap(), words(&["lock x", "next"]));
}
