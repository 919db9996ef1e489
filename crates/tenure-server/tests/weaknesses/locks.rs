//! 1, 2, 3, 6: locked work.

use std::time::Duration;

use tenure_server::{CallOptions, ServerError, ServerRef};
use tenure_store::Faults;
use tokio::task::JoinHandle;

use crate::fleet::{Fleet, Journal, Say, World, is_locked, said, status, until, word, words};

type Locking = JoinHandle<Result<Vec<String>, ServerError>>;

/// Calls for locked work, and waits for as long as it takes.
fn lock(journal: &ServerRef<Journal>) -> Locking {
    let journal = journal.clone();
    let patient = CallOptions::default().timeout(Duration::from_secs(7200));
    tokio::spawn(async move { journal.call_with(Say::Lock("x".into()), patient).await })
}

#[tokio::test(start_paused = true)]
async fn w01_work_of_a_killed_process_is_done_again_and_nobody_needs_to_unlock() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let (first, journal) = (a.serve(World::waiting()), client.journal("j"));
    let locking = lock(&journal);
    until(&fleet.env, || async { first.works() == 1 }).await;
    journal.cast(word("behind")).await.unwrap();
    let second = b.serve(World::default());
    let killed = fleet.env.now();
    a.kill();
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "done x"]));
    assert!(fleet.env.now() - killed < Duration::from_secs(20), "a ttl and a little is enough");
    until(&fleet.env, || async { said(&journal).await == words(&["lock x", "done x", "behind"]) }).await;
    assert_eq!((first.works(), second.works(), status(&journal).await.is_locked), (1, 1, false));
}

#[tokio::test(start_paused = true)]
async fn w01_a_cast_that_locked_is_not_lost_with_its_process() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let (first, journal) = (a.serve(World::waiting()), client.journal("j"));
    journal.cast(Say::Lock("x".into())).await.unwrap();
    until(&fleet.env, || async { first.works() == 1 }).await;
    a.kill();
    b.serve(World::default());
    until(&fleet.env, || async { said(&journal).await == words(&["lock x", "done x"]) }).await;
}

#[tokio::test(start_paused = true)]
async fn w02_a_lock_lasts_as_long_as_its_worker_whatever_clocks_show() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join_at_speed("a", 95).await, fleet.join_at_speed("b", 105).await);
    let (first, journal) = (a.serve(World::waiting()), b.journal("j"));
    let locking = lock(&journal);
    until(&fleet.env, || async { first.works() == 1 }).await;
    let second = b.serve(World::default());
    fleet.env.sleep(Duration::from_secs(1800)).await;
    // So that the other node looks at it.
    b.journal("j").cast(word("behind")).await.unwrap();
    fleet.env.sleep(Duration::from_secs(1800)).await;
    assert_eq!((first.works(), second.works(), is_locked(&journal).await), (1, 0, true));
    first.permit();
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "done x"]));
    assert_eq!((first.works(), second.works()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn w03_an_unknown_outcome_of_locking_loses_nothing() {
    let kinds = [
        Faults { unknown_landed: 1.0, ..Faults::NONE },
        Faults { unknown_lost: 1.0, ..Faults::NONE },
        Faults { unknown_late: 1.0, ..Faults::NONE },
        Faults { unknown_landed: 0.4, unknown_lost: 0.3, unknown_late: 0.3, ..Faults::NONE },
    ];
    for faults in kinds {
        let fleet = Fleet::new();
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        let (world, journal) = (a.serve(World::default()), client.journal("j"));
        journal.call(word("first")).await.unwrap();
        a.link.set_faults(faults);
        let locking = lock(&journal);
        fleet.env.sleep(Duration::from_secs(2)).await;
        a.link.set_faults(Faults::NONE);
        assert_eq!(locking.await.unwrap().unwrap(), words(&["first", "lock x", "done x"]), "{faults:?}");
        assert_eq!(journal.call(word("last")).await.unwrap().len(), 4, "{faults:?}");
        assert!(a.link.tally() != tenure_store::Tally::default(), "there were faults");
        if faults.unknown_landed == 1.0 {
            assert_eq!(world.works(), 1, "the worker knows its own claim");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn w06_what_priority_messages_write_during_a_lock_survives_the_fold() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let (world, journal) = (a.serve(World::waiting()), client.journal("j"));
    let locking = lock(&journal);
    until(&fleet.env, || async { world.works() == 1 }).await;
    let now = CallOptions::default();
    journal.priority_call(Say::Note("from afar".into(), 1), now.clone()).await.unwrap();
    a.journal("j").priority_call(Say::Note("from here".into(), 2), now).await.unwrap();
    journal.priority_cast(word("urgent")).await.unwrap();
    until(&fleet.env, || async { said(&journal).await.len() == 2 }).await;
    assert!(is_locked(&journal).await);
    world.permit();
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "urgent", "done x"]));
    let notes =
        journal.read(|pages| (pages.notes.get("from afar").copied(), pages.notes.get("from here").copied()));
    assert_eq!(notes.await.unwrap(), (Some(1), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn w01_an_operator_can_take_the_claim_and_the_late_result_is_refused() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let (world, journal) = (a.serve(World::waiting()), client.journal("j"));
    assert!(!journal.unlock().await.unwrap(), "there is nothing to unlock");
    let locking = lock(&journal);
    until(&fleet.env, || async { world.works() == 1 }).await;
    assert!(journal.unlock().await.unwrap());
    until(&fleet.env, || async { world.works() == 2 }).await;
    // The first of them has gone: one permit is enough for the second.
    world.permit();
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "done x"]));
    assert_eq!((world.works(), is_locked(&journal).await), (2, false));
}

#[tokio::test(start_paused = true)]
async fn w01_a_result_that_comes_after_the_claim_was_taken_is_refused() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let (world, journal) = (a.serve(World::waiting()), client.journal("j"));
    let locking = lock(&journal);
    until(&fleet.env, || async { world.works() == 1 }).await;
    // The worker does not hear of it before it is done.
    a.link.set_faults(Faults { watch_lost: 1.0, reread: Duration::from_secs(3600), ..Faults::NONE });
    journal.unlock().await.unwrap();
    world.permit();
    until(&fleet.env, || async { world.works() == 2 }).await;
    fleet.env.sleep(Duration::from_secs(1)).await;
    assert_eq!(said(&journal).await, words(&["lock x"]), "the first result is not taken");
    world.permit();
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "done x"]));
    assert_eq!(world.works(), 2);
}

#[tokio::test(start_paused = true)]
async fn w01_a_worker_that_was_cut_off_comes_too_late() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let (first, journal) = (a.serve(World::waiting()), client.journal("j"));
    let locking = lock(&journal);
    until(&fleet.env, || async { first.works() == 1 }).await;
    let second = b.serve(World::default());
    a.link.cut();
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "done x"]));
    first.permit();
    fleet.env.sleep(Duration::from_secs(1)).await;
    a.link.heal();
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!(said(&journal).await, words(&["lock x", "done x"]));
    assert_eq!((first.works(), second.works()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn w01_a_worker_that_was_paused_comes_too_late() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let (first, journal) = (a.serve(World::waiting()), client.journal("j"));
    let locking = lock(&journal);
    until(&fleet.env, || async { first.works() == 1 }).await;
    b.serve(World::default());
    a.gate.pause();
    // Its result is ready when it wakes, long after.
    first.permit();
    assert_eq!(locking.await.unwrap().unwrap(), words(&["lock x", "done x"]));
    a.gate.resume();
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert_eq!(said(&journal).await, words(&["lock x", "done x"]));
    assert_eq!(journal.call(word("after")).await.unwrap(), words(&["lock x", "done x", "after"]));
}

#[tokio::test(start_paused = true)]
async fn w01_work_that_kills_its_process_each_time_is_a_dead_letter_in_the_end() {
    let fleet = Fleet::new();
    let client = fleet.join("client").await;
    let journal = client.journal("j");
    journal.cast_all([Say::Lock("x".into()), word("behind")]).await.unwrap();
    let mut workers = 0;
    while journal.dead_letters(None, 10).await.unwrap().is_empty() {
        let seat = fleet.join(&format!("worker-{workers}")).await;
        let world = seat.serve(World::waiting());
        until(&fleet.env, || async {
            world.works() == 1 || !journal.dead_letters(None, 10).await.unwrap().is_empty()
        })
        .await;
        if world.works() == 0 {
            until(&fleet.env, || async { said(&journal).await == words(&["lock x", "behind"]) }).await;
            break;
        }
        seat.kill();
        workers += 1;
        assert!(workers < 10, "it goes on for ever");
    }
    let dead = journal.dead_letters(None, 10).await.unwrap();
    assert_eq!((dead.len(), dead[0].attempts.len(), workers), (1, 5, 5));
    assert!(dead[0].attempts[0].error.contains("went away"), "{dead:?}");
    assert!(!is_locked(&journal).await);
}
