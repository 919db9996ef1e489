//! Nodes of ours and nodes that say exactly what Crown says, in one election.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::arena::{
    HAND_OVERS, LONG_VISITS, MANY_CHANGES, Room,
    postgres::{Crown, Database},
    until, wanderer,
};
use tenure_oracles::{CrownLease, CrownSettings};
use tenure_singleton::{Answer, Oracle as _};
use tenure_store::Env;

const CHANGES: usize = 200;
const LEASE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
const LOCK: &str = "Elixir.MyApp.Worker";

/// How long somebody stays, at most.
const STAY: Duration = Duration::from_millis(40);

fn lease(database: &Database, node: &str) -> CrownLease {
    let mut settings = CrownSettings::from_url(&format!("crown+{}", database.url()), LOCK, node).unwrap();
    (settings.duration, settings.poll) = (LEASE, POLL);
    CrownLease::new(settings).unwrap()
}

/// A node of Crown's, which gives up after each visit, or goes down and comes back under another name: then its lease
/// has to expire.
async fn elixir(crown: Crown, room: Room, stop: Arc<AtomicBool>) {
    let (env, name) = (Env::system(), crown.holder.clone());
    let mut crown = crown;
    for round in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        env.sleep(env.random_time(POLL * 2)).await;
        let asked = env.now();
        if !crown.claim().await {
            continue;
        }
        // A test must not blame us for what Crown does: it counts from the answer. Here, it is left in time.
        if env.now() - asked > LEASE / 2 {
            continue;
        }
        let inside = room.enter(&name, None);
        env.sleep(env.random_time(STAY)).await;
        let kept = crown.claim().await;
        if env.chance(LONG_VISITS) {
            // Nearly to the end of its lease: whoever takes over early meets it.
            env.sleep(LEASE * 4 / 5).await;
        }
        env.sleep(env.random_time(STAY)).await;
        drop(inside);
        if kept && env.chance(0.9) {
            crown.abdicate().await;
        } else {
            crown.holder = format!("{name}-{round}");
        }
    }
}

/// A candidate of ours that goes down while it leads, again and again.
async fn mortal(database: &Database, room: &Room, stop: &AtomicBool) {
    let env = Env::system();
    while !stop.load(Ordering::SeqCst) {
        env.sleep(env.random_time(LEASE * 2)).await;
        let mut oracle = lease(database, "mortal");
        let asked = env.now();
        let end = asked.after(LEASE / 2);
        while env.now() < end {
            let asked = env.now();
            if let Answer::Granted(grant) = oracle.claim().await
                && env.now() - asked < LEASE / 2
            {
                let inside = room.enter("ours mortal", grant.term);
                env.sleep(env.random_time(STAY)).await;
                drop(inside);
                break;
            }
            env.sleep(POLL).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_two_at_a_time_through_many_changes() {
    let database = Arc::new(Database::create().await);
    let room = Room::new();
    let stop = Arc::new(AtomicBool::new(false));
    let mut crowns = Vec::new();
    for index in 0..2 {
        let crown = Crown::start(&database, LOCK, &format!("crown{index}@host"), LEASE).await;
        crown.init().await;
        crowns.push(tokio::spawn(elixir(crown, room.clone(), Arc::clone(&stop))));
    }
    let nodes: Vec<_> = (0..2)
        .map(|index| {
            let node = format!("ours{index}");
            wanderer(&room, &node, lease(&database, &node), STAY, LEASE * 3 / 2)
        })
        .collect();
    let dying = {
        let (database, room, stop) = (Arc::clone(&database), room.clone(), Arc::clone(&stop));
        tokio::spawn(async move { mortal(&database, &room, &stop).await })
    };
    let enough = || {
        let both = [("ours", "crown"), ("crown", "ours")].map(|(from, to)| room.hand_overs(from, to));
        room.changes() >= CHANGES && both.into_iter().all(|count| count >= HAND_OVERS)
    };
    until("enough changes", MANY_CHANGES, enough).await;
    stop.store(true, Ordering::SeqCst);
    for crown in crowns {
        crown.await.unwrap();
    }
    dying.await.unwrap();
    for node in nodes {
        node.shutdown().await;
    }
    room.judge();
    for who in ["ours0", "ours1", "ours mortal", "crown0", "crown1"] {
        assert!(room.count(who) >= 3, "{who} came only {} times", room.count(who));
    }
}
