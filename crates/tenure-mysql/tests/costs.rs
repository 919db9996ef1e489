//! What requests cost, counted by the server: round trips and flushes.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod databases;

use std::{collections::HashMap, time::Duration};

use mysql_async::{Conn, prelude::Queryable as _};
use tenure_mysql::MysqlStore;
use tenure_store::{Check, Commit, Key, Range, Read, Store};
use tenure_testbed::MariaDb;

/// A server of its own, so that nobody else is counted.
struct Meter {
    _server: MariaDb,
    store: MysqlStore,
    conn: Conn,
}

/// What the server has counted so far.
#[derive(Debug)]
struct Count {
    /// Commands that came over the network.
    commands: u64,
    /// Flushes of the log.
    flushes: u64,
    commits: u64,
}

impl Meter {
    async fn start() -> Self {
        let server = MariaDb::start().unwrap();
        // One connection of each kind, so that the first request opens all that the later ones use.
        let store = MysqlStore::open(&format!("{}?connections=1&readers=1", server.url())).await.unwrap();
        let conn = databases::connect(&server.url()).await;
        Self { _server: server, store, conn }
    }

    async fn count(&mut self) -> Count {
        let query = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Com_stmt_prepare', 'Innodb_data_fsyncs', 'Com_commit')";
        let found: Vec<(String, u64)> = self.conn.query(query).await.unwrap();
        let found: HashMap<String, u64> = found.into_iter().collect();
        Count {
            commands: found["Questions"] + found["Com_stmt_prepare"],
            flushes: found["Innodb_data_fsyncs"],
            commits: found["Com_commit"],
        }
    }

    /// What `requests` cost, without this meter's own questions.
    async fn cost(&mut self, requests: impl AsyncFn(&MysqlStore)) -> Count {
        requests(&self.store).await;
        let before = self.count().await;
        requests(&self.store).await;
        let after = self.count().await;
        Count {
            commands: after.commands - before.commands - 1,
            flushes: after.flushes - before.flushes,
            commits: after.commits - before.commits,
        }
    }
}

const REQUESTS: u64 = 100;

/// What the server flushes for itself meanwhile is less than this.
const OWN_FLUSHES: u64 = REQUESTS / 2;

fn key(text: &str) -> Key {
    Key::from(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_one_round_trip_and_one_flush() {
    let mut meter = Meter::start().await;
    let large = || {
        let writes = (0..20).fold(Commit::new(), |all, at| {
            let key = Key::from(format!("k{at}").as_str());
            all.set(key.clone(), "v").append(key, "e")
        });
        writes.check(Check::Absent(key("none"))).check(Check::Empty(key("none"))).delete(key("gone"))
    };
    for commit in [Commit::new().set(key("k"), "v"), large()] {
        let cost = meter
            .cost(async |store| {
                for _ in 0..REQUESTS {
                    store.commit(commit.clone()).await.unwrap();
                }
            })
            .await;
        assert_eq!(cost.commands, REQUESTS, "{cost:?}");
        assert_eq!(cost.commits, REQUESTS, "{cost:?}");
        assert!((REQUESTS..REQUESTS + OWN_FLUSHES).contains(&cost.flushes), "{cost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_commit_and_one_that_only_checks_flush_nothing() {
    let mut meter = Meter::start().await;
    meter.store.commit(Commit::new().set(key("k"), "v")).await.unwrap();
    let cost = meter
        .cost(async |store| {
            for _ in 0..REQUESTS {
                store
                    .commit(Commit::new().check(Check::Absent(key("k"))).set(key("k"), "w"))
                    .await
                    .unwrap_err();
                store.commit(Commit::new().check(Check::Present(key("k")))).await.unwrap();
            }
        })
        .await;
    assert_eq!(cost.commands, 2 * REQUESTS, "{cost:?}");
    assert!(cost.flushes < OWN_FLUSHES, "{cost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_one_round_trip_whatever_it_asks() {
    let mut meter = Meter::start().await;
    meter.store.commit(Commit::new().set(key("k"), "v").append(key("k"), "e")).await.unwrap();
    let range = || Read::Range { range: Range::all(), limit: 10 };
    let list = || Read::List { list: key("k"), after: None, limit: 10 };
    let many: Vec<Read> = (0..200).map(|at| Read::Key(Key::from(format!("k{at}").as_str()))).collect();
    let reads = [vec![Read::Key(key("k"))], vec![range(), list(), Read::Key(key("k"))], many, vec![range()]];
    for questions in reads {
        let cost = meter
            .cost(async |store| {
                for _ in 0..REQUESTS {
                    store.read(questions.clone()).await.unwrap();
                }
            })
            .await;
        assert_eq!(cost.commands, REQUESTS, "{questions:?}: {cost:?}");
        assert!(cost.flushes < OWN_FLUSHES, "{cost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_watches_nothing_looks_for_changes() {
    let mut meter = Meter::start().await;
    let watch = meter.store.watch(Range::all());
    let env = tenure_store::Env::system();
    env.sleep(Duration::from_millis(300)).await;
    let before = meter.count().await;
    env.sleep(Duration::from_millis(300)).await;
    assert!(meter.count().await.commands > before.commands + 3, "a watch looks for changes");
    drop(watch);
    env.sleep(Duration::from_millis(100)).await;
    let before = meter.count().await;
    env.sleep(Duration::from_millis(300)).await;
    assert_eq!(meter.count().await.commands, before.commands + 1, "nobody looks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_not_woken_by_what_does_not_concern_it() {
    /// Longer than the pause between two looks, also on a machine that is busy.
    const QUIET: Duration = Duration::from_millis(300);
    let server = MariaDb::start().unwrap();
    let open = || async { MysqlStore::open(&format!("{}?connections=1", server.url())).await.unwrap() };
    let (here, there) = (open().await, open().await);
    let env = tenure_store::Env::system();
    // More names than a note can tell in full.
    let busy = |place: &str| {
        let name = |area: u32| key(&format!("cluster/{area}/{place}/{}", "x".repeat(80)));
        (0..6).fold(Commit::new(), |commit, area| commit.set(name(area), "v"))
    };
    let mut quiet = here.watch(Range::Key(key("cluster/quiet")));
    let mut told = here.watch(Range::Prefix(key("cluster/5/there/")));
    for store in [&here, &there] {
        store.commit(busy("there")).await.unwrap();
    }
    // The first looks wake everybody.
    while env.timeout(QUIET, quiet.changed()).await.is_ok() {}
    while env.timeout(QUIET, told.changed()).await.is_ok() {}
    for _ in 0..5 {
        there.commit(busy("there")).await.unwrap();
        told.changed().await;
        // Many more than the notes that a desk keeps.
        for _ in 0..50 {
            here.commit(busy("here")).await.unwrap();
        }
    }
    assert!(env.timeout(QUIET, quiet.changed()).await.is_err(), "woken by other names");
    there.commit(Commit::new().set(key("cluster/quiet"), "v")).await.unwrap();
    quiet.changed().await;
}
