//! What can be seen: status of members, what is known about a name, what is counted.

use std::{collections::BTreeMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

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
    let found: BTreeMap<String, f64> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| key.key().labels().any(|label| label.value() == "names"))
        .map(|(key, _, _, value)| {
            #[allow(clippy::cast_precision_loss, reason = "a test counts to some hundreds")]
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            };
            (key.key().name().to_owned(), value)
        })
        .collect();
    let of = |name: &str| found.get(&format!("tenure_registry_{name}")).copied().unwrap_or_default();
    assert_eq!(
        (of("reigns_total"), of("commit_seconds"), of("batch_changes")),
        (1.0, 11.0, 11.0),
        "{found:?}"
    );
    assert!(of("gaps_total") >= 1.0, "{found:?}");
}
