//! What large fleets cost, counted in requests to the store, on simulated time.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(clippy::print_stderr, reason = "the counts are what is asked for")]

mod fleet;

use std::time::Duration;

use fleet::{Counted, Fleet, Seat};
use tenure_cluster::{Leadership, Settings, Term};

fn settings(at: usize) -> Settings {
    Fleet::settings(&format!("n{at:04}"))
}

async fn join(fleet: &Fleet, count: usize) -> Vec<Seat> {
    let mut seats = Vec::new();
    for at in 0..count {
        seats.push(fleet.join_with(settings(at)).await.unwrap());
    }
    seats
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_offices_cost_few_commits_and_one_heartbeat() {
    let (fleet, counts) = Counted::fleet();
    let a = fleet.join("a").await;
    let before = counts.commits();
    let tasks: Vec<_> = (0..100_000)
        .map(|at| a.cluster.election(&format!("e{at}")).unwrap())
        .map(|office| tokio::spawn(async move { office.campaign().await.unwrap() }))
        .collect();
    let mut held = Vec::new();
    for task in tasks {
        held.push(task.await.unwrap());
    }
    let taking = counts.commits() - before;
    eprintln!("100,000 offices were taken by {taking} commits");
    assert!(taking <= 2000, "{taking}");
    let before = counts.commits();
    fleet.sleep(600).await;
    let keeping = counts.commits() - before;
    eprintln!("and kept for 10 minutes by {keeping} commits");
    assert!(keeping <= 600 / 5 * 5 / 4, "{keeping}");
    assert!(held.iter().all(|leadership| leadership.term() == Term(1) && !leadership.remaining().is_zero()));
}

#[tokio::test(start_paused = true)]
async fn a_resignation_wakes_one_of_a_thousand_candidates() {
    let (fleet, counts) = Counted::fleet();
    let seats = join(&fleet, 1000).await;
    let first = seats[0].cluster.election("e").unwrap().campaign().await.unwrap();
    let tasks: Vec<_> = seats[1..]
        .iter()
        .map(|seat| seat.cluster.election("e").unwrap())
        .map(|office| tokio::spawn(async move { office.campaign().await.unwrap() }))
        .collect();
    fleet.sleep(20).await;
    // What heartbeats and looks cost in a second, and then the same with a resignation in it.
    let quiet = counts.all();
    fleet.sleep(1).await;
    let quiet = counts.all() - quiet;
    let (requests, commits) = (counts.all(), counts.commits());
    first.resign().await.unwrap();
    let resigning = counts.commits() - commits;
    fleet.env.sleep(Duration::from_millis(1)).await;
    let woken = (counts.all() - requests).saturating_sub(quiet / 1000);
    eprintln!("a resignation among 1,000 candidates: {resigning} commits, {woken} requests in all");
    assert!(resigning <= 3 && woken < 40, "{resigning} commits, {woken} requests");
    let won = tasks.iter().filter(|task| task.is_finished()).count();
    assert_eq!(won, 1);
}

#[tokio::test(start_paused = true)]
async fn half_a_fleet_dies_and_every_office_is_filled_within_two_ttl() {
    const NODES: usize = 200;
    const ELECTIONS: usize = 2000;
    let (fleet, counts) = Counted::fleet();
    let seats = join(&fleet, NODES).await;
    let joined = counts.all();
    eprintln!("{NODES} nodes joined with {joined} requests, {} a node", joined / NODES as u64);
    // Ten offices a node, and another node waits for each.
    let campaign = |node: usize, election: usize| {
        let office = seats[node].cluster.election(&format!("e{election}")).unwrap();
        let gate = seats[node].gate.clone();
        async move {
            let leadership: Leadership = office.campaign().await.unwrap();
            (gate, leadership)
        }
    };
    let mut held = Vec::new();
    for election in 0..ELECTIONS {
        held.push(campaign(election % NODES, election).await);
    }
    // The second half will live: it waits for all offices of the first.
    let waiting: Vec<_> = (0..ELECTIONS)
        .filter(|election| election % NODES < NODES / 2)
        .map(|election| tokio::spawn(campaign(NODES / 2 + election % (NODES / 2), election)))
        .collect();
    fleet.sleep(30).await;
    let before = counts.all();
    fleet.sleep(30).await;
    let quiet = counts.all() - before;
    let before = counts.all();
    seats[..NODES / 2].iter().for_each(|seat| seat.gate.kill());
    let death = fleet.env.now();
    let mut won = Vec::new();
    for task in waiting {
        won.push(fleet.soon("a successor", 30, task).await.unwrap());
    }
    let gap = fleet.env.now() - death;
    fleet.env.sleep(Duration::from_secs(30).saturating_sub(gap)).await;
    let change = (counts.all() - before).saturating_sub(quiet / 2);
    let changes = (NODES / 2 + ELECTIONS / 2) as u64;
    eprintln!(
        "{} nodes died and {} offices passed on within {gap:?}: {change} requests, {:.1} for each of {changes} changes",
        NODES / 2,
        won.len(),
        change as f64 / changes as f64
    );
    assert!(change < 20 * changes, "{change}");
    assert!(won.iter().all(|(_, leadership)| leadership.term() == Term(2)));
    assert!(held.iter().filter(|(gate, _)| !gate.is_dead()).all(|(_, leader)| !leader.remaining().is_zero()));
}

#[tokio::test(start_paused = true)]
async fn watching_a_thousand_members_costs_reads_by_the_change_and_not_by_the_heartbeat() {
    const NODES: usize = 1000;
    let (fleet, counts) = Counted::fleet();
    let seats = join(&fleet, NODES).await;
    let mut watchers = Vec::new();
    for seat in &seats {
        watchers.push(seat.cluster.members().changes().await.unwrap());
    }
    let before = counts.all();
    fleet.sleep(300).await;
    let a_node_and_interval = (counts.all() - before) as f64 / NODES as f64 / 60.0;
    eprintln!(
        "{NODES} nodes that watch each other at rest: {a_node_and_interval:.2} requests a node and interval"
    );
    assert!(a_node_and_interval < 4.0, "{a_node_and_interval}");
    let before = counts.all();
    let newcomer = fleet.join("newcomer").await;
    for watcher in &mut watchers {
        let change = fleet.soon("the change", 10, watcher.next()).await.unwrap();
        assert_eq!(change.member.session, newcomer.cluster.session().id());
    }
    let a_change = (counts.all() - before) as f64 / NODES as f64;
    eprintln!("a newcomer: {a_change:.2} requests a watcher");
    assert!(a_change < 8.0, "{a_change}");
}
