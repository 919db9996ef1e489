//! Nodes of ours and nodes that say exactly what SOFA's registry says, in the same elections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::arena::{
    HAND_OVERS, MANY_CHANGES, Room,
    mariadb::{Database, Meta},
    stayer, until, wanderer,
};
use mysql_async::prelude::Queryable as _;
use tenure_oracles::{DistributeLock, SofaSettings};
use tenure_singleton::{Answer, Oracle as _, Singleton};
use tenure_store::Env;
use tokio::task::JoinHandle;

const CHANGES: usize = 200;
const LEASE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
const LOCK: &str = "NIGHTLY";

/// So many elections at a time: a Java node can't give up, so each of its terms takes two to three seconds.
const ELECTIONS: usize = 12;

/// How long somebody stays, at most.
const STAY: Duration = Duration::from_millis(40);

fn lock(database: &Database, name: &str, node: &str, duration: Duration) -> DistributeLock {
    let url = format!("sofa+{}?data_center=dc", database.url());
    let mut settings = SofaSettings::from_url(&url, name, node).unwrap();
    (settings.duration, settings.poll) = (duration, POLL);
    DistributeLock::new(settings).unwrap()
}

/// A Java node. It has no way to give up: each of its terms ends by its time, and it does not stand meanwhile.
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
        // Until somebody has come after it. Seconds are cut off on both sides, so that takes up to three.
        let end = env.now().after(LEASE * 5);
        while env.now() < end && node.query().await.is_some_and(|row| row.owner == node.owner) {
            env.sleep(LEASE / 20).await;
        }
    }
}

/// A candidate of ours that goes down while it leads.
async fn mortal(database: &Database, name: &str, room: &Room, stop: &AtomicBool) {
    let env = Env::system();
    while !stop.load(Ordering::SeqCst) {
        env.sleep(LEASE * 4 + env.random_time(LEASE * 4)).await;
        let mut oracle = lock(database, name, "mortal", LEASE);
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

/// One election: a node of ours or several, a Java node, and one of ours that goes down now and then.
struct Election {
    room: Room,
    nodes: Vec<Singleton>,
    others: Vec<JoinHandle<()>>,
}

impl Election {
    async fn start(database: &Arc<Database>, number: usize, stop: &Arc<AtomicBool>) -> Self {
        let (name, room) = (format!("{LOCK} {number}"), Room::new());
        // In one of them, ours compete with each other as well.
        let candidates = if number == 0 { 3 } else { 1 };
        let node = |index: usize| {
            let node = format!("ours{index}");
            wanderer(&room, &node, lock(database, &name, &node, LEASE), STAY, LEASE * 3 / 2)
        };
        let nodes = (0..candidates).map(node).collect();
        until("one of ours comes first", LEASE * 20, || room.count("ours") >= 1).await;
        let meta = Meta::start(database, &name, "10.0.0.1", 1000).await;
        let mut others = vec![tokio::spawn(java(meta, room.clone(), Arc::clone(stop)))];
        if number == 0 {
            let (database, room, stop) = (Arc::clone(database), room.clone(), Arc::clone(stop));
            others.push(tokio::spawn(async move { mortal(&database, &name, &room, &stop).await }));
        }
        Self { room, nodes, others }
    }

    async fn end(self) -> Room {
        for other in self.others {
            other.await.unwrap();
        }
        for node in self.nodes {
            node.shutdown().await;
        }
        self.room
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_two_at_a_time_through_many_changes() {
    let database = Arc::new(Database::create().await);
    let stop = Arc::new(AtomicBool::new(false));
    let mut elections = Vec::new();
    for number in 0..ELECTIONS {
        elections.push(Election::start(&database, number, &stop).await);
    }
    let sum = |count: &dyn Fn(&Room) -> usize| elections.iter().map(|one| count(&one.room)).sum::<usize>();
    let enough = || {
        sum(&Room::changes) >= CHANGES
            && sum(&|room| room.hand_overs("ours", "10.")) >= HAND_OVERS
            && sum(&|room| room.hand_overs("10.", "ours")) >= HAND_OVERS
            && sum(&|room| room.count("ours mortal")) >= 1
    };
    until("enough changes", MANY_CHANGES, enough).await;
    stop.store(true, Ordering::SeqCst);
    for (number, election) in elections.into_iter().enumerate() {
        let room = election.end().await;
        room.judge();
        assert!(room.hand_overs("ours", "10.") >= 1 && room.hand_overs("10.", "ours") >= 1, "{number}");
        for who in ["ours0", "ours1", "ours2"].iter().take(if number == 0 { 3 } else { 1 }) {
            assert!(room.count(who) >= 3, "{who} came only {} times", room.count(who));
        }
    }
}

/// Somebody locks the row for longer than a lease; a Java node waits for its turn meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_locked_costs_leadership_in_time() {
    const LONG: Duration = Duration::from_secs(2);
    let database = Database::create().await;
    let room = Room::new();
    let ours = stayer(&room, "ours", lock(&database, LOCK, "ours", LONG));
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
