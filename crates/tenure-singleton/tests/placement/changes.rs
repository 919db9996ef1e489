//! What moves when nodes come and go, and what does not.

use std::{collections::BTreeSet, time::Duration};

use tenure_singleton::Singletons as _;

use crate::fleet::{Fleet, is_even, moved};

/// The shortest time: nothing that waits for a timer happens in it.
const INSTANT: Duration = Duration::from_millis(1);

/// As in the settings of the fleet.
const INTERVAL: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_new_node_gets_its_share_slowly_and_each_moves_at_most_once() {
    let fleet = Fleet::new();
    let nodes = fleet.start(3, 300).await;
    nodes.iter().for_each(|node| node.cluster.placement().set_moves(6));
    fleet.all_run(300, 30).await;
    fleet.sleep(20).await;
    let before = fleet.stage.running();
    fleet.stage.take_starts();
    let mut new = fleet.join("new").await;
    new.cluster.placement().set_moves(6);
    new.spread(300);
    fleet.sleep(1).await;
    fleet.calm(15, 200).await;
    let counts = fleet.stage.counts();
    eprintln!("after the new one: {counts:?}");
    assert!(is_even(&counts, 4), "{counts:?}");
    let starts = fleet.stage.take_starts();
    let names: BTreeSet<&String> = starts.iter().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), starts.len(), "each at most once");
    assert!(starts.iter().all(|(_, node, _)| node == "new"), "and to nobody but the new one");
    assert_eq!(moved(&before, &fleet.stage.running()).len(), starts.len());
    assert!(starts.len() <= 75);
    for pair in starts.windows(7) {
        let span = pair[6].2 - pair[0].2;
        assert!(span + Duration::from_millis(300) >= INTERVAL, "seven moves within {span:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_placer_goes_on_in_the_middle_of_a_rebalance() {
    let fleet = Fleet::new();
    let mut nodes = fleet.start(3, 120).await;
    fleet.all_run(120, 30).await;
    let mut new = fleet.join("new").await;
    new.spread(120);
    nodes.push(new);
    fleet.until("some have moved", 20, || fleet.stage.counts().contains_key("new")).await;
    let before = fleet.stage.running();
    fleet.stage.take_starts();
    let placer = nodes[0].placer().await.unwrap();
    let dead = nodes.iter().position(|node| node.name == placer).unwrap();
    nodes[dead].kill();
    fleet.until("it is dead", 5, || fleet.stage.running().len() < 120).await;
    fleet.all_run(120, 60).await;
    fleet.calm(20, 300).await;
    let counts = fleet.stage.counts();
    eprintln!("after the placer's death: {counts:?}");
    assert!(is_even(&counts, 3), "{counts:?}");
    // Those of the dead one, and at most what the rebalance still had to do.
    let moved = moved(&before, &fleet.stage.running());
    let lost = before.values().filter(|node| **node == placer).count();
    assert!(moved.len() <= lost + 40, "{} moved, {lost} were lost", moved.len());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_is_relieved_first() {
    let fleet = Fleet::new();
    let nodes = fleet.start(3, 60).await;
    fleet.all_run(60, 30).await;
    fleet.sleep(5).await;
    let placer = nodes[0].placer().await.unwrap();
    for leaves in [placer == nodes[0].name, placer != nodes[0].name] {
        // The placer itself, and then one of the others.
        let node = if leaves { &nodes[0] } else { &nodes[1] };
        if node.cluster.session().ended().is_some() {
            continue;
        }
        let before = fleet.stage.running();
        fleet.stage.take_starts();
        let (start, here) = (fleet.env.now(), before.values().filter(|on| **on == node.name).count());
        node.cluster.leave().await;
        let took = fleet.env.now() - start;
        assert!(took < Duration::from_secs(3), "leaving took {took:?}");
        // Heirs that were appointed at this very instant are woken after whoever waited for the commit, or before: nobody promises which. Time does not pass
        // before all who are awake have had their turn.
        fleet.env.sleep(INSTANT).await;
        assert_eq!(fleet.stage.running().len(), 60, "all run when it has left");
        assert_eq!(fleet.stage.take_starts().len(), here);
        assert_eq!(moved(&before, &fleet.stage.running()).len(), here);
        fleet.sleep(20).await;
    }
    // The last one has nobody to wait for.
    let last = nodes.iter().find(|node| node.cluster.session().ended().is_none()).unwrap();
    let start = fleet.env.now();
    last.cluster.leave().await;
    assert!(fleet.env.now() - start < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_singleton_that_is_shut_down_runs_elsewhere_at_once() {
    let fleet = Fleet::new();
    let mut nodes = fleet.start(2, 10).await;
    fleet.all_run(10, 30).await;
    let on = fleet.stage.running()["s0003"].clone();
    let node = nodes.iter_mut().find(|node| node.name == on).unwrap();
    let mine = node.singletons.remove(3);
    mine.shutdown().await;
    let took = fleet.all_run(10, 5).await;
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert_ne!(fleet.stage.running()["s0003"], on);
}
