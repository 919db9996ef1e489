//! A database that hangs, a process that hangs, work that starts slowly: the work of one has ended before that of
//! another begins.

use std::time::Duration;

use crate::arena::{
    Room,
    postgres::{Crown, Database, connect},
    stayer, until,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tenure_oracles::{CrownLease, CrownSettings};
use tenure_singleton::{Answer, Mandate, Oracle as _, SingletonBuilder};
use tenure_store::Env;
use tenure_testbed::Postgres;

const LEASE: Duration = Duration::from_secs(2);

fn lease(url: &str, lock: &str, node: &str) -> CrownLease {
    let mut settings = CrownSettings::from_url(&format!("crown+{url}"), lock, node).unwrap();
    (settings.duration, settings.poll) = (LEASE, LEASE / 20);
    CrownLease::new(settings).unwrap()
}

/// How long ago this lease expired by the clock of the database, in seconds; negative while it has not.
async fn expired(client: &tokio_postgres::Client) -> f64 {
    let statement = "SELECT extract(epoch FROM clock_timestamp() - expires_at)::float8 FROM crown_lease_v1";
    client.query_one(statement, &[]).await.unwrap().get(0)
}

/// The server's processes all stop, as if the machine did; then they go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_hangs_costs_leadership_in_time() {
    let server = Postgres::start().unwrap();
    let room = Room::new();
    let node = stayer(&room, "ours", lease(&server.url(), "l", "ours"));
    until("it leads", LEASE * 5, || room.inside().is_some()).await;
    let client = connect(&server.url()).await;
    let env = Env::system();
    let left = -expired(&client).await;
    let end = env.now().after(Duration::from_secs_f64(left));
    let mut processes = backends(&client).await;
    processes.push(i32::try_from(server.process().unwrap()).unwrap());
    signal(&processes, Signal::SIGSTOP);
    until("the child stops", LEASE * 2, || room.inside().is_none()).await;
    let stopped = env.now();
    env.sleep(LEASE).await;
    signal(&processes, Signal::SIGCONT);
    assert!(stopped < end, "the child ended {:?} after the lease", stopped - end);
    until("it leads again", LEASE * 5, || room.inside().is_some()).await;
    node.shutdown().await;
    room.judge();
    let terms: Vec<_> = room.visits().iter().map(|visit| visit.term).collect();
    assert!(terms.is_sorted_by(|a, b| a < b), "what is led again is another term: {terms:?}");
}

async fn backends(client: &tokio_postgres::Client) -> Vec<i32> {
    let rows = client.query("SELECT pid FROM pg_stat_activity", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn signal(processes: &[i32], signal: Signal) {
    for process in processes {
        kill(Pid::from_raw(*process), signal).unwrap();
    }
}

/// The server's process for our connection stops while it is idle: no answer ever comes from it. The refresh is made again, on another connection, and in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refresh_without_an_answer_is_made_again_in_time() {
    let server = Postgres::start().unwrap();
    let (room, long) = (Room::new(), LEASE * 3);
    let mut settings = CrownSettings::from_url(&format!("crown+{}", server.url()), "l", "ours").unwrap();
    settings.duration = long;
    let child = {
        let room = room.clone();
        move |mandate: Mandate| {
            let inside = room.enter("ours", mandate.term());
            async move {
                mandate.cancelled().await;
                drop(inside);
            }
        }
    };
    let oracle = CrownLease::new(settings).unwrap();
    let ours = SingletonBuilder::with_oracle("ours", oracle, child);
    // A second try must be made, and answered, while more than this is left.
    let ours = ours.policy(|policy| policy.grace = long / 7).start().unwrap();
    until("it leads", long * 5, || room.inside().is_some()).await;
    let client = connect(&server.url()).await;
    let statement = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tenure'";
    let silent: Vec<i32> = client.query(statement, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(silent.len(), 1, "one connection");
    signal(&silent, Signal::SIGSTOP);
    Env::system().sleep(long * 3 / 2).await;
    assert!(expired(&client).await < 0.0, "it was refreshed");
    signal(&silent, Signal::SIGCONT);
    Env::system().sleep(long / 4).await;
    assert_eq!(room.visits().len(), 1, "the child went on: {:?}", room.visits());
    assert!(room.inside().is_some());
    ours.shutdown().await;
}

/// Somebody locks the row for longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_locked_costs_leadership_in_time() {
    let database = Database::create().await;
    let room = Room::new();
    let ours = stayer(&room, "ours", lease(&database.url(), "l", "ours"));
    until("it leads", LEASE * 5, || room.inside().is_some()).await;
    let mut client = database.connect().await;
    let env = Env::system();
    let locked = client.transaction().await.unwrap();
    locked.execute("SELECT FROM crown_lease_v1 FOR UPDATE", &[]).await.unwrap();
    let statement = "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM crown_lease_v1";
    let left: f64 = locked.query_one(statement, &[]).await.unwrap().get(0);
    let end = env.now().after(Duration::from_secs_f64(left));
    until("the child stops", LEASE * 2, || room.inside().is_none()).await;
    assert!(env.now() < end, "the child ended {:?} after the lease", env.now() - end);
    env.sleep(LEASE).await;
    locked.rollback().await.unwrap();
    // Whoever of Crown's comes now may have it, unless a claim of ours was first.
    let crown = Crown::start(&database, "l", "crown@host", LEASE).await;
    for _ in 0..100 {
        if crown.claim().await {
            let inside = room.enter("crown", None);
            env.sleep(LEASE / 10).await;
            drop(inside);
            crown.abdicate().await;
        }
        env.sleep(LEASE / 100).await;
    }
    until("it leads again", LEASE * 5, || room.count("ours") >= 2).await;
    ours.shutdown().await;
    room.judge();
}

/// Work that takes longer to start than a lease lasts is kept by refreshes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn work_that_starts_slowly_keeps_its_lease() {
    let database = Database::create().await;
    let room = Room::new();
    let slow = {
        let room = room.clone();
        move |mandate: Mandate| {
            let room = room.clone();
            async move {
                let inside = room.enter("slow", mandate.term());
                Env::system().sleep(LEASE * 2).await;
                mandate.cancelled().await;
                drop(inside);
            }
        }
    };
    let ours = SingletonBuilder::with_oracle("slow", lease(&database.url(), "l", "a"), slow).start().unwrap();
    until("it starts", LEASE * 5, || room.inside().is_some()).await;
    let crown = Crown::start(&database, "l", "crown@host", LEASE).await;
    let env = Env::system();
    let end = env.now().after(LEASE * 2);
    while env.now() < end {
        assert!(!crown.claim().await, "a refresh did not come in time");
        env.sleep(LEASE / 20).await;
    }
    ours.shutdown().await;
    assert_eq!(room.visits().len(), 1);
    assert!(crown.claim().await, "it was given up");
}

/// The whole process stands still for longer than a lease, as under a debugger; another takes over. What is checked
/// is that the child ends before it does anything more.
#[tokio::test]
async fn a_process_that_stood_still_knows_that_its_time_is_over() {
    let database = Database::create().await;
    let (tell, told) = std::sync::mpsc::channel();
    let url = database.url();
    let oracle = lease(&url, "l", "frozen");
    // A runtime of its own, whose only thread is blocked: nothing runs there meanwhile, as in a process that is
    // stopped.
    let (block, blocked) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let child = move |mandate: Mandate| {
                let tell = tell.clone();
                async move {
                    tell.send(("started", mandate.remaining())).unwrap();
                    mandate.cancelled().await;
                    tell.send(("cancelled", mandate.remaining())).unwrap();
                }
            };
            let node = SingletonBuilder::with_oracle("frozen", oracle, child).start().unwrap();
            node.leads().await;
            Env::system().sleep(LEASE / 4).await;
            blocked.recv().unwrap();
            Env::system().sleep(LEASE / 4).await;
            node.shutdown().await;
        });
    });
    let patience = LEASE * 5;
    assert_eq!(told.recv_timeout(patience).unwrap().0, "started");
    let crown = Crown::start(&database, "l", "crown@host", LEASE * 10).await;
    let env = Env::system();
    let end = env.now().after(patience);
    while !crown.claim().await {
        assert!(env.now() < end, "nobody refreshes it, and it does not expire");
        env.sleep(LEASE / 20).await;
    }
    block.send(()).unwrap();
    thread.join().unwrap();
    // It may be aborted before it can say anything; but it never says that it has time left.
    let said: Vec<_> = told.iter().collect();
    assert!(said.iter().all(|(what, left)| *what == "cancelled" && left.is_zero()), "{said:?}");
    let mut rival = lease(&url, "l", "late");
    assert!(!matches!(rival.claim().await, Answer::Granted(_)), "Crown still has it");
}
