//! What can be seen: status of members, what is known about a name, what is counted.

use std::{collections::BTreeMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::sim::{Sim, TIME};

#[tokio::test(start_paused = true)]
async fn every_member_tells_how_it_is_and_who_does_not_is_among_them() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    let _held = [seats[1].register("a").await.unwrap(), seats[2].register("b").await.unwrap()];
    let position = seats[0].registry.status().applied;
    sim.until("all have it", || seats.iter().all(|seat| seat.registry.status().applied == position)).await;
    seats[2].gate.pause();
    let start = sim.env.now();
    let statuses = seats[1].registry.statuses(TIME).await.unwrap();
    assert!(sim.env.now() - start <= TIME + Duration::from_secs(1), "all are asked at once");
    seats[2].gate.resume();
    let nodes: Vec<&str> = statuses.iter().map(|status| status.member.node.as_str()).collect();
    assert_eq!(nodes, ["n0", "n1", "n2"]);
    assert_eq!(statuses.iter().map(|status| status.heard).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(statuses.iter().map(|status| status.leads()).collect::<Vec<_>>(), [true, false, false]);
    for status in &statuses[..2] {
        assert_eq!((status.epoch, status.applied, status.lag(), status.names), (1, position, 0, 2));
        assert_eq!(status.leader.as_ref().unwrap().node.as_str(), "n0");
    }
    assert_eq!((statuses[0].own, statuses[1].own), (0, 1));
    assert_eq!(statuses[1], seats[1].registry.status());
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_lacks_something_says_how_much() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    // It is told how far the log is, and can't read it.
    seats[1].link.cut();
    sim.net.cut("n0", "n1");
    let _held = [seats[0].register("a").await.unwrap(), seats[0].register("b").await.unwrap()];
    sim.net.heal();
    sim.until("told", || seats[1].registry.status().lag() >= 1).await;
    assert!(!seats[1].knows("a"));
    seats[1].link.heal();
    sim.until("read", || seats[1].registry.status().lag() == 0 && seats[1].knows("b")).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_known_about_a_name_is_told_in_words() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let _held = seats[1].register("x").await.unwrap();
    sim.env.sleep(Duration::from_millis(2500)).await;
    let entry = seats[0].registry.whereis("x").unwrap();
    let here = seats[1].registry.explain("x").unwrap();
    assert!(here.here && here.entry.as_ref() == Some(&entry) && here.age.unwrap().as_secs() == 2);
    let there = seats[0].registry.explain("x").unwrap();
    assert!(!there.here && there.epoch == 1 && there.applied >= entry.position());
    let words = here.to_string();
    for part in
        ["x is n1", "(this node)", "for 2.5 s", "batch 1 of epoch 1", &entry.owner().session.to_string()]
    {
        assert!(words.contains(part), "{part}: {words}");
    }
    let free = seats[0].registry.explain("nobody").unwrap();
    assert!(
        free.entry.is_none()
            && free.age.is_none()
            && free.to_string().contains("nobody is free, as of batch 1")
    );
}

/// All that was measured of the registry `names` since the last time, by name and outcome: counts and values, and how many there are in a histogram.
fn measured(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: BTreeMap<&str, &str> =
            key.key().labels().map(|label| (label.key(), label.value())).collect();
        let Some(name) = key.key().name().strip_prefix("tenure_registry_") else { continue };
        assert_eq!(labels.get("registry"), Some(&"names"), "{name}");
        #[allow(clippy::cast_precision_loss, reason = "a test counts to some hundreds")]
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        let outcome = labels.get("outcome").map(|outcome| format!(" {outcome}")).unwrap_or_default();
        found.insert(format!("{name}{outcome}"), value);
    }
    found
}

#[tokio::test(start_paused = true)]
async fn what_comes_of_requests_and_messages_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (registration, mut inbox) = seats[1].register("x").await.unwrap();
    sim.until("known", || seats[0].knows("x")).await;
    seats[0].register("x").await.unwrap_err();
    let registry = &seats[0].registry;
    registry.send("x", &1_u64).await.unwrap();
    registry.send("nobody", &1_u64).await.unwrap_err();
    registry.send("x", &"not a number".to_owned()).await.unwrap_err();
    registry.call::<_, u64>("x", &2_u64, Duration::from_millis(10)).await.unwrap_err();
    let answering = tokio::spawn(async move {
        while let Some(letter) = inbox.recv().await {
            if letter.message == 3 {
                letter.reply(&4).unwrap();
            }
        }
    });
    assert_eq!(registry.call::<_, u64>("x", &3_u64, TIME).await.unwrap(), 4);
    registry.call::<_, u64>("x", &5_u64, TIME).await.unwrap_err();
    registration.unregister(TIME).await.unwrap();
    sim.until("free", || !seats[0].knows("x")).await;
    let found = measured(&snapshotter);
    let of = |name: &str| found.get(name).copied().unwrap_or_default();
    assert_eq!((of("requests_total done"), of("requests_total taken")), (2.0, 1.0), "{found:?}");
    for (outcome, count) in
        [("delivered", 1.0), ("answered", 1.0), ("unanswered", 1.0), ("timed_out", 1.0), ("refused", 2.0)]
    {
        assert_eq!(of(&format!("messages_total {outcome}")), count, "{outcome} in {found:?}");
    }
    answering.abort();
}

#[tokio::test(start_paused = true)]
async fn how_many_names_are_known_and_batches_missing_is_measured() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (_a, _b) = (seats[0].register("a").await.unwrap(), seats[0].register("b").await.unwrap());
    sim.until("known", || seats[1].knows("b")).await;
    let found = measured(&snapshotter);
    assert_eq!((found["names"], found["lag_batches"]), (2.0, 0.0), "{found:?}");
    // It is told how far the log is, and can't read it.
    seats[1].link.cut();
    sim.net.cut("n0", "n1");
    let (_c, _d) = (seats[0].register("c").await.unwrap(), seats[0].register("d").await.unwrap());
    sim.net.heal();
    sim.until("told", || seats[1].registry.status().lag() >= 1).await;
    sim.env.sleep(Duration::from_millis(10)).await;
    assert!(measured(&snapshotter)["lag_batches"] >= 1.0);
    seats[1].link.heal();
    sim.until("read", || seats[1].knows("d")).await;
    let found = measured(&snapshotter);
    assert_eq!((found["names"], found["lag_batches"]), (4.0, 0.0), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn what_registries_do_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let mut held = Vec::new();
    for number in 0..10 {
        held.push(seats[0].register(&format!("x{number}")).await.unwrap());
    }
    // What is lost on the way is a gap.
    sim.net.cut("n0", "n1");
    held.push(seats[0].register("lost").await.unwrap());
    sim.env.sleep(Duration::from_millis(50)).await;
    sim.net.heal();
    sim.until("known", || seats[1].knows("lost")).await;
    let found = measured(&snapshotter);
    let of = |name: &str| found.get(name).copied().unwrap_or_default();
    assert_eq!(
        (of("reigns_total"), of("commit_seconds"), of("batch_changes")),
        (1.0, 11.0, 11.0),
        "{found:?}"
    );
    assert!(of("gaps_total") >= 1.0, "{found:?}");
}
