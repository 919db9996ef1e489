//! The call request flow.

use std::{sync::atomic::Ordering, time::Duration};

use tenure::{prelude::*, store::Faults};
use tokio::task::JoinHandle;

use crate::{
    ledger::{Ask, Ledger, line},
    stage::{Seen, Stage, lines, patient, status},
};

type Calling = JoinHandle<Result<Vec<String>, ServerError>>;

/// Calls, and waits for as long as it takes.
fn begin(ledger: &ServerRef<Ledger>, ask: Ask) -> Calling {
    let ledger = ledger.clone();
    tokio::spawn(async move { ledger.call_with(ask, patient()).await })
}

pub(crate) async fn steps_1_to_3_a_call_is_in_the_queue_with_its_address(stage: Stage) {
    let caller = stage.join("caller").await;
    let ledger = caller.main();
    let calling = begin(&ledger, line("one"));
    stage.until("the call is in the queue", || async { stage.look(&caller).await.queued == 1 }).await;
    assert_eq!(status(&ledger).await.waiting, 1);
    let waits = Seen { head: false, state: 0, queued: 1, effects: 0, answers: 0 };
    assert_eq!(stage.look(&caller).await, waits, "there is no place for the answer before there is one");
    let own = stage.belongings(&caller).await;
    assert!(own.iter().all(|key| key.contains("send") || key.contains("lane")), "{own:?}");
    assert!(!calling.is_finished());
    // With its address: whoever consumes later can answer it.
    let consumer = stage.join("consumer").await;
    consumer.consume();
    assert_eq!(calling.await.unwrap().unwrap(), ["one"]);
}

pub(crate) async fn steps_4_to_8_a_consumer_takes_it_and_changes_the_state(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let world = consumer.consume();
    let ledger = caller.main();
    assert_eq!(ledger.call_with(line("one"), patient()).await.unwrap(), ["one"]);
    assert_eq!(
        ledger.call_with(line("two"), patient()).await.unwrap(),
        ["one", "two"],
        "it retrieves the state"
    );
    assert_eq!(world.ran.load(Ordering::SeqCst), 2);
    let seen = stage.look(&caller).await;
    assert!(seen.head && seen.state >= 1 && seen.queued == 0, "{seen:?}");
    assert_eq!((lines(&ledger).await.len(), status(&ledger).await.applied), (2, 2));
}

pub(crate) async fn steps_9_and_10_state_and_answer_are_one_commit(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let ledger = caller.main();
    let calling = begin(&ledger, line("one"));
    stage.until("the call is in the queue", || async { stage.look(&caller).await.queued == 1 }).await;
    // The caller does not hear of its answer for a while, so that it can be seen.
    caller.link.set_faults(Faults { watch_lost: 1.0, reread: Duration::from_secs(3), ..Faults::NONE });
    consumer.consume();
    stage
        .until("the call is handled", || async {
            let seen = stage.look(&caller).await;
            let before = seen.queued == 1 && seen.state == 0 && seen.answers == 0;
            let after = seen.queued == 0 && seen.head && seen.state > 0 && seen.answers > 0;
            assert!(before || after, "half of it is done: {seen:?}");
            after
        })
        .await;
    caller.link.set_faults(Faults::NONE);
    assert_eq!(calling.await.unwrap().unwrap(), ["one"]);
}

pub(crate) async fn step_11_side_effects_run_after_the_commit(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let world = consumer.consume();
    world.witness.set(caller.main()).unwrap();
    assert_eq!(caller.main().call_with(Ask::Act("one".into()), patient()).await.unwrap(), ["one"]);
    stage.until("the closure runs", || async { !world.seen.lock().unwrap().is_empty() }).await;
    assert_eq!(*world.seen.lock().unwrap(), [["one"]], "another node sees the state by then");
    stage.until("the effect is done", || async { !world.done.lock().unwrap().is_empty() }).await;
    stage.until("it is no longer recorded", || async { stage.look(&caller).await.effects == 0 }).await;
    assert_eq!(*world.done.lock().unwrap(), ["one"]);
}

pub(crate) async fn steps_11_and_12_side_effects_and_the_answer_do_not_wait_for_each_other(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let world = consumer.consume();
    world.waits.store(true, Ordering::SeqCst);
    let ledger = caller.main();
    assert_eq!(ledger.call_with(Ask::Act("one".into()), patient()).await.unwrap(), ["one"]);
    assert_eq!(ledger.call_with(line("two"), patient()).await.unwrap(), ["one", "two"]);
    assert_eq!((stage.look(&caller).await.effects, world.done.lock().unwrap().len()), (1, 0));
    world.permits.add_permits(1);
    stage.until("the effect is done", || async { stage.look(&caller).await.effects == 0 }).await;
}

pub(crate) async fn step_12_the_answer_is_read_and_cleared(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    consumer.consume();
    let ledger = caller.main();
    let calls: Vec<Calling> = (0..20).map(|number| begin(&ledger, line(&number.to_string()))).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    stage.until_cleared(&caller).await;
    let own = stage.belongings(&caller).await;
    assert!(
        own.iter().all(|key| key.contains("send") || key.contains("lane")),
        "only lanes are left: {own:?}"
    );
    stage
        .until("no mark of work is left", || async {
            stage.count("piece").await + stage.count("timer").await == 0
        })
        .await;
}

pub(crate) async fn a_call_that_timed_out_still_executes_and_leaves_nothing(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let ledger = caller.main();
    let short = CallOptions::default().timeout(Duration::from_millis(300));
    let late = ledger.call_with(line("late"), short).await;
    assert!(matches!(late, Err(ServerError::Timeout { .. })), "{late:?}");
    consumer.consume();
    stage.until("it is carried out", || async { lines(&ledger).await == ["late"] }).await;
    stage.until_cleared(&caller).await;
    assert_eq!(ledger.call_with(line("next"), patient()).await.unwrap(), ["late", "next"]);
    stage.until_cleared(&caller).await;
}

pub(crate) async fn a_failing_call_is_told_and_changes_nothing(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let world = consumer.consume();
    let ledger = caller.main();
    let failed = ledger.call_with(Ask::Fail("bad".into()), patient()).await;
    assert!(
        matches!(&failed, Err(ServerError::Failed { attempts: 5, error, .. }) if error == "bad is wrong"),
        "{failed:?}"
    );
    assert_eq!((lines(&ledger).await.len(), world.ran.load(Ordering::SeqCst)), (0, 5));
    let dead = ledger.dead_letters(None, 10).await.unwrap();
    assert_eq!((dead.len(), dead[0].is_call, dead[0].attempts.len()), (1, true, 5));
    assert!(ledger.drop_dead_letter(dead[0].number).await.unwrap());
    assert_eq!((stage.count("dead").await, stage.count("timer").await), (0, 0));
    stage.until_cleared(&caller).await;
}
