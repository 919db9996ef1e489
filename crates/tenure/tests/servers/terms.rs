//! What the words of the design mean: tenant, server, consumer, priority request, answers in chunks.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::{prelude::*, server::message_bytes_max};

use crate::{
    ledger::{Ask, World, line},
    stage::{Node, Stage, lines, patient, status},
};

pub(crate) async fn a_server_lives_longer_than_every_node(stage: Stage) {
    let first = stage.join("first").await;
    first.consume();
    first.main().call_with(line("one"), patient()).await.unwrap();
    first.cluster.leave().await;
    drop(first);
    let second = stage.join("second").await;
    assert_eq!(lines(&second.main()).await, ["one"], "without any consumer");
    second.consume();
    assert_eq!(second.main().call_with(line("two"), patient()).await.unwrap(), ["one", "two"]);
    let names = second.cluster.servers::<crate::ledger::Ledger>(None, 10).await.unwrap();
    assert_eq!(names.iter().map(Name::as_str).collect::<Vec<_>>(), ["main"]);
}

pub(crate) async fn zero_consumers_the_messages_wait(stage: Stage) {
    let caller = stage.join("caller").await;
    let ledger = caller.main();
    assert_eq!(ledger.status().await.unwrap(), None, "there is no such server yet");
    for number in 0..5 {
        ledger.cast(line(&number.to_string())).await.unwrap();
    }
    stage.env.sleep(Duration::from_millis(300)).await;
    let waits = status(&ledger).await;
    assert_eq!((waits.waiting, waits.applied), (5, 0));
    assert!(waits.oldest.unwrap() >= Duration::from_millis(200), "{waits:?}");
    assert!(ledger.delete().await.unwrap());
    assert_eq!(ledger.status().await.unwrap(), None);
}

pub(crate) async fn one_consumer_serves_itself_and_others(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let world = consumer.consume();
    let (far, near) = (caller.main(), consumer.main());
    for number in 0..10 {
        let ledger = if number % 2 == 0 { &far } else { &near };
        assert_eq!(ledger.call_with(line("x"), patient()).await.unwrap().len(), number + 1);
    }
    assert_eq!((world.ran.load(Ordering::SeqCst), status(&far).await.applied), (10, 10));
}

pub(crate) async fn many_consumers_apply_each_message_once(stage: Stage) {
    let caller = stage.join("caller").await;
    let mut consumers: Vec<(Node, Arc<World>)> = Vec::new();
    for number in 0..3 {
        let node = stage.join(&format!("consumer-{number}")).await;
        let world = node.consume();
        consumers.push((node, world));
    }
    let ids: Vec<String> = (0..12).map(|number| format!("{number}-ledger")).collect();
    for round in 0..5 {
        for (number, id) in ids.iter().enumerate() {
            let line = line(&round.to_string());
            // From nodes that consume, and one that does not.
            match consumers.get((number + round) % 4) {
                Some((node, _)) => drop(node.ledger(id).call_with(line, patient()).await.unwrap()),
                None => caller.ledger(id).cast(line).await.unwrap(),
            }
        }
    }
    for id in &ids {
        let ledger = caller.ledger(id);
        stage.until("all are applied", || async { lines(&ledger).await == ["0", "1", "2", "3", "4"] }).await;
        assert_eq!(status(&ledger).await.applied, 5);
    }
    // One goes: its part is taken by the others.
    let (gone, _) = consumers.remove(0);
    gone.cluster.leave().await;
    for id in &ids {
        assert_eq!(caller.ledger(id).call_with(line("last"), patient()).await.unwrap().len(), 6);
    }
}

pub(crate) async fn a_priority_request_passes_the_queue(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    consumer.consume();
    let ledger = caller.main();
    ledger.call_with(line("one"), patient()).await.unwrap();
    assert!(ledger.stop("for a while").await.unwrap());
    ledger.cast(line("waits")).await.unwrap();
    assert_eq!(ledger.priority_call(line("urgent"), patient()).await.unwrap(), ["one", "urgent"]);
    ledger.priority_cast(line("urgent too")).await.unwrap();
    stage.until("it is applied", || async { lines(&ledger).await.len() == 3 }).await;
    let now = status(&ledger).await;
    assert_eq!((now.waiting, now.stopped.as_deref()), (1, Some("for a while")));
    assert!(ledger.start().await.unwrap());
    stage.until("the rest is applied", || async { lines(&ledger).await.last().unwrap() == "waits" }).await;
}

pub(crate) async fn answers_and_messages_above_the_limit_of_a_value(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let limits = stage.store.limits();
    let large = limits.value_bytes / 2 * 3;
    assert!(large < message_bytes_max(&limits));
    let ledger = caller.main();
    ledger.cast(line(&"y".repeat(large))).await.unwrap();
    assert!(stage.count("piece").await >= 2, "it does not fit one value");
    consumer.consume();
    let answer = ledger.call_with(Ask::Long(large), patient()).await.unwrap();
    assert_eq!(answer, ["x".repeat(large)]);
    assert_eq!(lines(&ledger).await, ["y".repeat(large)], "the state is in chunks as well");
    assert_eq!(stage.count("piece").await, 0);
    stage.until_cleared(&caller).await;
    let refused = ledger.cast(line(&"y".repeat(message_bytes_max(&limits)))).await;
    assert!(matches!(refused, Err(ServerError::TooLarge(_))), "{refused:?}");
}

pub(crate) async fn tenants_do_not_see_each_other(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let other = format!("other-{:016x}", stage.env.random_u64());
    let stranger = stage.join_other(&other, "caller").await;
    consumer.consume();
    caller.main().call_with(line("one"), patient()).await.unwrap();
    assert_eq!(stranger.main().status().await.unwrap(), None);
    stranger.main().cast(line("waits")).await.unwrap();
    stage.env.sleep(Duration::from_millis(200)).await;
    assert_eq!(status(&stranger.main()).await.waiting, 1, "nobody consumes there");
    assert!(stranger.main().delete().await.unwrap());
    assert_eq!(lines(&caller.main()).await, ["one"]);
}

pub(crate) async fn locked_work_keeps_others_waiting(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    let world = consumer.consume();
    world.waits.store(true, Ordering::SeqCst);
    let ledger = caller.main();
    let working = {
        let ledger = ledger.clone();
        tokio::spawn(async move { ledger.call_with(Ask::Work("work".into()), patient()).await })
    };
    stage
        .until("it is locked", || async {
            ledger.status().await.unwrap().is_some_and(|status| status.is_locked)
        })
        .await;
    ledger.cast(line("behind")).await.unwrap();
    assert_eq!(ledger.priority_call(line("urgent"), patient()).await.unwrap(), ["urgent"]);
    assert_eq!(status(&ledger).await.waiting, 2, "the message that locked is still there");
    world.permits.add_permits(1);
    assert_eq!(working.await.unwrap().unwrap(), ["urgent", "work"]);
    stage
        .until("the rest is applied", || async { lines(&ledger).await == ["urgent", "work", "behind"] })
        .await;
}

pub(crate) async fn a_delayed_message_comes_later(stage: Stage) {
    let (caller, consumer) = stage.pair().await;
    consumer.consume();
    let ledger = caller.main();
    let start = stage.env.now();
    let never = ledger.cast_after(Duration::from_secs(1), line("never")).await.unwrap();
    ledger.cast_after(Duration::from_secs(1), line("later")).await.unwrap();
    assert!(caller.cluster.cancel(&never).await.unwrap());
    stage.until("it comes", || async { lines(&ledger).await == ["later"] }).await;
    assert!(stage.env.now() - start >= Duration::from_secs(1));
    assert_eq!(stage.count("timer").await, 0);
}
