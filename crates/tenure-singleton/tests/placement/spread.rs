//! Where singletons come to run, and what that costs.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use tenure_singleton::Singletons as _;

use crate::fleet::{Fleet, is_even, moved};

#[tokio::test(start_paused = true)]
async fn a_thousand_on_five_nodes_and_only_those_of_a_dead_node_move() {
    let fleet = Fleet::new();
    let mut nodes = fleet.start(5, 0).await;
    let (bare_commits, bare_reads) = at_rest(&fleet).await;
    fleet.store.take();
    nodes.iter_mut().for_each(|node| node.spread(1000));
    let took = fleet.all_run(1000, 60).await;
    fleet.sleep(1).await;
    let (commits, reads) = fleet.store.take();
    eprintln!("start of 1000 on 5 nodes: {commits} commits, {reads} reads, {took:?}");
    let counts = fleet.stage.counts();
    eprintln!("spread: {counts:?}");
    assert!(is_even(&counts, 5), "{counts:?}");
    assert_eq!(fleet.stage.take_starts().len(), 1000, "each was started once");

    let (commits, reads) = at_rest(&fleet).await;
    eprintln!(
        "at rest, a renewal interval: {commits:.2} commits and {reads:.2} reads; without singletons {bare_commits:.2} \
         and {bare_reads:.2}"
    );
    // A beacon each half ttl; a look at it by each node, and a slow look of each that stands as the placer.
    assert!(commits - bare_commits < 1.0 && reads - bare_reads < 5.0 * 3.0);
    assert!(fleet.stage.take_starts().is_empty(), "nothing moves at rest");

    let before = fleet.stage.running();
    nodes[3].kill();
    fleet.sleep(1).await;
    fleet.store.take();
    let took = fleet.all_run(1000, 60).await;
    let (commits, reads) = fleet.store.take();
    eprintln!("200 of a dead node run again: {commits} commits, {reads} reads, {took:?} after its death");
    fleet.sleep(60).await;
    let after = fleet.stage.running();
    let dead: Vec<&String> = before.iter().filter(|(_, node)| *node == "n3").map(|(name, _)| name).collect();
    assert_eq!(moved(&before, &after).iter().collect::<Vec<_>>(), dead);
    let counts = fleet.stage.counts();
    assert!(is_even(&counts, 4) && counts.len() == 4, "{counts:?}");
    assert_eq!(fleet.stage.take_starts().len(), dead.len());
}

/// Commits and reads in a renewal interval, when nothing happens.
async fn at_rest(fleet: &Fleet) -> (f64, f64) {
    let intervals = 60;
    fleet.sleep(10).await;
    fleet.store.take();
    fleet.env.sleep(Duration::from_secs(5) * intervals).await;
    let (commits, reads) = fleet.store.take();
    (commits as f64 / f64::from(intervals), reads as f64 / f64::from(intervals))
}

#[tokio::test(start_paused = true)]
async fn capacity_and_load_decide_the_shares() {
    let fleet = Fleet::new();
    let mut nodes = Vec::new();
    for (name, capacity) in [("a", "1"), ("b", "2"), ("c", "1")] {
        let mut node = fleet.join_with(name, &[("capacity", capacity)]).await;
        node.spread(200);
        let heavy = node.singleton("heavy").load(40.0).start().unwrap();
        node.singletons.push(heavy);
        nodes.push(node);
    }
    fleet.all_run(201, 30).await;
    fleet.calm(20, 300).await;
    let running = fleet.stage.running();
    let heavy = running["heavy"].clone();
    let mut counts = fleet.stage.counts();
    *counts.get_mut(&heavy).unwrap() += 39;
    // 240 units of load by 4 of capacity.
    for (node, even) in [("a", 60.0), ("b", 120.0), ("c", 60.0)] {
        let share = counts[node] as f64;
        assert!((share - even).abs() <= even * 0.1, "{counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn labels_are_respected_and_what_nobody_may_run_is_told() {
    let fleet = Fleet::new();
    let mut nodes = Vec::new();
    for (name, zone) in [("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b")] {
        let mut node = fleet.join_with(name, &[("zone", zone)]).await;
        for number in 0..40 {
            let of = if number % 4 == 0 { "b" } else { "a" };
            let singleton = node.singleton(&format!("{of}{number}"));
            node.singletons.push(singleton.spread().only_on("zone", of).start().unwrap());
        }
        let nowhere = node.singleton("nowhere").spread().only_on("zone", "c").start().unwrap();
        node.singletons.push(nowhere);
        nodes.push(node);
    }
    fleet.all_run(40, 30).await;
    fleet.sleep(60).await;
    for (name, node) in fleet.stage.running() {
        assert_eq!(name.as_bytes()[0], node.as_bytes()[0], "{name} runs on {node}");
    }
    let expected: BTreeMap<String, usize> =
        [("a1", 15), ("a2", 15), ("b1", 5), ("b2", 5)].map(|(node, count)| (node.to_owned(), count)).into();
    assert_eq!(fleet.stage.counts(), expected);
    let placed = nodes[0].cluster.placement().list().await.unwrap();
    assert_eq!(placed.len(), 41);
    for placed in &placed {
        let nowhere = placed.name.as_str() == "nowhere";
        assert_eq!(placed.runs_on.is_none(), nowhere, "{placed:?}");
        assert_eq!(placed.eligible.len(), if nowhere { 0 } else { 2 }, "{placed:?}");
        assert_eq!(placed.meant_for, None);
    }
    // Somebody comes who may.
    let node = fleet.join_with("c1", &[("zone", "c")]).await;
    let _nowhere = node.singleton("nowhere").spread().only_on("zone", "c").start().unwrap();
    fleet.all_run(41, 5).await;
    assert_eq!(fleet.stage.running()["nowhere"], "c1");
}

#[tokio::test(start_paused = true)]
async fn what_breaks_a_rule_is_refused() {
    let fleet = Fleet::new();
    let node = fleet.join_with("a", &[("capacity", "none")]).await;
    let refused = node.singleton("s").spread().start().unwrap_err().to_string();
    assert!(refused.contains("capacity") && refused.contains("above zero"), "{refused}");
    let node = fleet.join("b").await;
    let refused = node.singleton("s").load(0.0).start().unwrap_err().to_string();
    assert!(refused.contains("load 0"), "{refused}");
    let first = node.singleton("s").spread().start().unwrap();
    assert!(node.singleton("s").spread().start().unwrap_err().to_string().contains("already"));
    first.leads().await;
    first.shutdown().await;
    let again = node.singleton("s").spread().start().unwrap();
    again.leads().await;
    assert!(node.cluster.election("tenure/placer").unwrap_err().to_string().contains("choose another"));
    assert_eq!(node.placer().await.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn without_a_placer_all_run_all_the_same() {
    let fleet = Fleet::new();
    fleet.store.refuses_posts.store(true, Ordering::SeqCst);
    let nodes = fleet.start(4, 100).await;
    fleet.sleep(30).await;
    assert!(fleet.stage.running().is_empty(), "nobody helps itself before it is sure");
    let took = fleet.all_run(100, 60).await;
    eprintln!("without a placer: {:?}, {:?} more", fleet.stage.counts(), took);
    assert_eq!(fleet.stage.counts().len(), 4, "each has some");
    // And one that dies is followed.
    nodes[1].kill();
    fleet.until("it is dead", 5, || fleet.stage.running().len() < 100).await;
    fleet.all_run(100, 90).await;
    fleet.stage.take_starts();
    // A placer that may write again evens out, and moves nothing else.
    fleet.store.refuses_posts.store(false, Ordering::SeqCst);
    fleet.sleep(10).await;
    fleet.calm(20, 300).await;
    let counts = fleet.stage.counts();
    assert!(is_even(&counts, 3), "{counts:?}");
    let mut starts: Vec<String> = fleet.stage.take_starts().into_iter().map(|(name, ..)| name).collect();
    let all = starts.len();
    starts.sort();
    starts.dedup();
    assert_eq!(starts.len(), all, "each was moved at most once");
}
