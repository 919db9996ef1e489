//! Nodes of ours and a node that says exactly what SOFA's registry says, in one election.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::arena::{
    Room,
    mariadb::{Database, Meta},
    stayer, until, wanderer,
};
use mysql_async::prelude::Queryable as _;
use tenure_oracles::{DistributeLock, SofaSettings};
use tenure_singleton::{Answer, Oracle as _};
use tenure_store::Env;

const CHANGES: usize = 200;
const LEASE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
const LOCK: &str = "NIGHTLY";

/// How long somebody stays, at most.
const STAY: Duration = Duration::from_millis(40);

fn lock(database: &Database, node: &str, duration: Duration) -> DistributeLock {
    let url = format!("sofa+{}?data_center=dc", database.url());
    let mut settings = SofaSettings::from_url(&url, LOCK, node).unwrap();
    (settings.duration, settings.poll) = (duration, POLL);
    DistributeLock::new(settings).unwrap()
}

/// A Java node. It has no way to give up: each of its terms ends by its time. So it does not stand often.
async fn java(mut node: Meta, room: Room, stop: Arc<AtomicBool>) {
    let env = Env::system();
    while !stop.load(Ordering::SeqCst) {
        let asked = env.now();
        let Some(mut row) = node.elect().await else {
            env.sleep(POLL).await;
            continue;
        };
        // Half of the lease is what it believes in, by its own clock.
        if env.now() - asked < LEASE / 4 {
            let inside = room.enter(&node.owner, Some(row.term));
            env.sleep(STAY).await;
            node.heartbeat(&row).await;
            row = node.query().await.unwrap();
            drop(inside);
        }
        assert!(row.owner != node.owner || row.term_duration <= 1);
        env.sleep(LEASE * 3 + env.random_time(LEASE * 3)).await;
    }
}

/// A candidate of ours that goes down while it leads.
async fn mortal(database: &Database, room: &Room, stop: &AtomicBool) {
    let env = Env::system();
    while !stop.load(Ordering::SeqCst) {
        env.sleep(LEASE * 4 + env.random_time(LEASE * 4)).await;
        let mut oracle = lock(database, "mortal", LEASE);
        let end = env.now().after(LEASE / 2);
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
    let nodes: Vec<_> = (0..3)
        .map(|index| {
            let node = format!("ours{index}");
            wanderer(&room, &node, lock(&database, &node, LEASE), STAY, LEASE * 3 / 2)
        })
        .collect();
    until("one of ours comes first", LEASE * 10, || room.count("ours") >= 1).await;
    let meta = Meta::start(&database, LOCK, "10.0.0.1", 1000).await;
    let java = tokio::spawn(java(meta, room.clone(), Arc::clone(&stop)));
    let dying = {
        let (database, room, stop) = (Arc::clone(&database), room.clone(), Arc::clone(&stop));
        tokio::spawn(async move { mortal(&database, &room, &stop).await })
    };
    let enough = || room.changes() >= CHANGES && room.count("10.") >= 3 && room.count("ours mortal") >= 1;
    until("enough changes", Duration::from_secs(90), enough).await;
    stop.store(true, Ordering::SeqCst);
    java.await.unwrap();
    dying.await.unwrap();
    for node in nodes {
        node.shutdown().await;
    }
    room.judge();
    for who in ["ours0", "ours1", "ours2"] {
        assert!(room.count(who) >= 10, "{who} came only {} times", room.count(who));
    }
}

/// Somebody locks the row for longer than a lease; a Java node waits for its turn meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_locked_costs_leadership_in_time() {
    const LONG: Duration = Duration::from_secs(2);
    let database = Database::create().await;
    let room = Room::new();
    let ours = stayer(&room, "ours", lock(&database, "ours", LONG));
    until("it leads", LONG * 5, || room.inside().is_some()).await;
    let mut java = Meta::start(&database, LOCK, "10.0.0.1", 2000).await;
    let mut blocker = database.connect().await;
    blocker.query_drop("BEGIN").await.unwrap();
    let age = "SELECT TIMESTAMPDIFF(MICROSECOND, gmt_modified, NOW(6)) FROM distribute_lock FOR UPDATE";
    let age: u64 = blocker.query_first(age).await.unwrap().unwrap();
    let env = Env::system();
    let end = env.now().after(LONG - Duration::from_micros(age));
    until("the child stops", LONG * 2, || room.inside().is_none()).await;
    assert!(env.now() < end, "the child ended {:?} after the lease", env.now() - end);
    env.sleep(LONG * 2).await;
    blocker.query_drop("COMMIT").await.unwrap();
    let until = env.now().after(LONG * 3);
    while env.now() < until {
        if java.elect().await.is_some() {
            let inside = room.enter("java", None);
            env.sleep(LONG / 10).await;
            drop(inside);
        }
        env.sleep(LONG / 20).await;
    }
    ours.shutdown().await;
    room.judge();
}
