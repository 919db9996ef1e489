//! The cast request flow.

use std::sync::atomic::Ordering;

use crate::{
    ledger::{Ask, line},
    stage::{Seen, Stage, lines, status},
};

pub(crate) async fn step_1_a_cast_is_durable_in_the_queue(stage: Stage) {
    let caller = stage.join("caller").await;
    let ledger = caller.main();
    ledger.cast(line("one")).await.unwrap();
    let waits = Seen { head: false, state: 0, queued: 1, effects: 0, answers: 0 };
    assert_eq!(stage.look(&caller).await, waits, "as soon as it returns");
    caller.cluster.leave().await;
    assert_eq!(stage.look(&caller).await, waits, "and longer than its sender");
    let consumer = stage.join("consumer").await;
    consumer.consume();
    stage.until("it is applied", || async { lines(&consumer.main()).await == ["one"] }).await;
}

pub(crate) async fn steps_2_to_7_it_is_taken_and_applied_in_one_commit(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let ledger = caller.main();
    ledger.cast_all([line("one"), line("two"), line("three")]).await.unwrap();
    let world = consumer.consume();
    stage
        .until("it is applied", || async {
            let seen = stage.look(&caller).await;
            let before = seen.queued == 1 && seen.state == 0;
            let after = seen.queued == 0 && seen.head && seen.state > 0;
            assert!(before || after, "half of it is done: {seen:?}");
            after
        })
        .await;
    assert_eq!(lines(&ledger).await, ["one", "two", "three"]);
    assert_eq!((status(&ledger).await.applied, world.ran.load(Ordering::SeqCst)), (3, 3));
    assert_eq!(stage.look(&caller).await.answers, 0, "nobody waits for an answer");
}

pub(crate) async fn step_8_side_effects_run_after_the_commit(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let world = consumer.consume();
    world.witness.set(caller.main()).unwrap();
    caller.main().cast(Ask::Act("one".into())).await.unwrap();
    stage.until("the closure runs", || async { !world.seen.lock().unwrap().is_empty() }).await;
    assert_eq!(*world.seen.lock().unwrap(), [["one"]]);
    stage.until("the effect is done", || async { !world.done.lock().unwrap().is_empty() }).await;
    stage.until("it is no longer recorded", || async { stage.look(&caller).await.effects == 0 }).await;
}

pub(crate) async fn many_casts_keep_their_order(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let ledger = caller.main();
    let expected: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    for number in &expected[..100] {
        ledger.cast_nowait(line(number)).unwrap();
    }
    consumer.consume();
    for number in &expected[100..] {
        ledger.cast_nowait(line(number)).unwrap();
    }
    stage.until("all are applied", || async { lines(&ledger).await.len() == 200 }).await;
    assert_eq!(lines(&ledger).await, expected);
    assert_eq!(lines(&consumer.main()).await, expected, "every node sees the same");
}
