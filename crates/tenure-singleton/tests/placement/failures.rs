//! Nodes that fail in other ways than by dying.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure_singleton::{Mandate, Singletons as _};
use tenure_store::Faults;

use crate::fleet::{Fleet, is_even};

#[tokio::test(start_paused = true)]
async fn a_leader_stays_when_its_heir_does_not_stand() {
    let fleet = Fleet::new();
    let nodes = fleet.start(2, 40).await;
    fleet.all_run(40, 30).await;
    fleet.stage.take_starts();
    let mut heir = fleet.join("heir").await;
    heir.spread(40);
    // It has offered everything, and stops before it hears what it is to run.
    fleet.env.sleep(Duration::from_millis(15)).await;
    let offered = || async { nodes[0].cluster.placement().list().await.unwrap()[0].eligible.len() == 3 };
    while !offered().await {
        fleet.env.sleep(Duration::from_millis(1)).await;
    }
    heir.gate.pause();
    let mut meant = 0;
    for _ in 0..60 {
        fleet.env.sleep(Duration::from_secs(1)).await;
        let placed = nodes[0].cluster.placement().list().await.unwrap();
        meant = meant.max(placed.iter().filter(|placed| placed.meant_for.is_some()).count());
        assert_eq!(fleet.stage.running().len(), 40, "all run on");
    }
    assert!(meant > 0, "nothing was to move");
    assert!(fleet.stage.take_starts().is_empty(), "nothing was stopped for an heir that does not stand");
    // It wakes up, and gets its share.
    heir.gate.resume();
    fleet.sleep(10).await;
    fleet.calm(20, 200).await;
    let counts = fleet.stage.counts();
    assert!(is_even(&counts, 3), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_cut_off_stops_before_others_start() {
    let fleet = Fleet::new();
    let nodes = fleet.start(3, 60).await;
    fleet.all_run(60, 30).await;
    nodes[2].link.cut();
    fleet.until("its children end", 30, || !fleet.stage.counts().contains_key("n2")).await;
    fleet.all_run(60, 30).await;
    assert_eq!(fleet.stage.counts().len(), 2);
    nodes[2].link.heal();
    fleet.sleep(10).await;
    fleet.calm(20, 200).await;
    let counts = fleet.stage.counts();
    assert!(is_even(&counts, 3), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_keeps_failing_gets_its_chance_elsewhere() {
    let fleet = Fleet::new();
    let broken = Arc::new(AtomicBool::new(true));
    let mut nodes = Vec::new();
    for name in ["bad", "good"] {
        let mut node = fleet.join(name).await;
        let (stage, env, broken) = (Arc::clone(&fleet.stage), fleet.env.clone(), Arc::clone(&broken));
        let child = move |mandate: Mandate| {
            let (stage, env, broken) = (Arc::clone(&stage), env.clone(), Arc::clone(&broken));
            async move {
                if name == "bad" && broken.load(Ordering::SeqCst) {
                    return Err("it can't work here".to_owned());
                }
                let _act = stage.enter("fragile", name, env.now());
                mandate.cancelled().await;
                Ok(())
            }
        };
        let fragile = node.cluster.singleton("fragile", child).spread();
        let start = fragile.policy(|policy| policy.failures_max = 2).start().unwrap();
        node.singletons.push(start);
        nodes.push(node);
    }
    // By name, the bad one comes first.
    let took = fleet.all_run(1, 10).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(fleet.stage.running()["fragile"], "good");
    fleet.sleep(120).await;
    assert_eq!(fleet.stage.take_starts().len(), 1, "and there it stays");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_in_every_way_only_takes_longer() {
    let fleet = Fleet::new();
    let mut nodes = fleet.start(3, 40).await;
    let storm = || Faults { delay: Duration::from_millis(2), ..Faults::STORM };
    nodes.iter().for_each(|node| node.link.set_faults(storm()));
    fleet.all_run(40, 120).await;
    let mut new = fleet.join("new").await;
    new.spread(40);
    new.link.set_faults(storm());
    nodes.push(new);
    for round in 0..6 {
        fleet.sleep(40).await;
        let node = &nodes[round % nodes.len()];
        node.link.cut();
        fleet.sleep(if round % 2 == 0 { 4 } else { 40 }).await;
        node.link.heal();
    }
    nodes.iter().for_each(|node| node.link.set_faults(Faults::NONE));
    fleet.all_run(40, 60).await;
    fleet.calm(40, 400).await;
    let counts = fleet.stage.counts();
    assert!(is_even(&counts, 4), "{counts:?}");
}
