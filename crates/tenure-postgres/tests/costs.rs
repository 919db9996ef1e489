//! What a commit and a read cost, counted on the server and on the wire.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::time::Duration;

use tenure_postgres::PostgresStore;
use tenure_store::{Check, Commit, CommitError, Env, Key, Range, Read, Store, Version};
use tenure_testbed::{Options, Postgres, Proxy};
use tokio_postgres::Client;

mod schemas;

const COMMITS: u64 = 100;

/// A server that nobody else uses and that logs every statement, and what stands between it and the store.
struct Bench {
    server: Postgres,
    proxy: Proxy,
}

impl Bench {
    fn start() -> Self {
        // No flushes but those of commits, as far as that can be had.
        let options = Options::default()
            .setting("log_statement", "all")
            .setting("autovacuum", "off")
            .setting("checkpoint_timeout", "1h")
            .setting("wal_writer_delay", "10s")
            .setting("bgwriter_lru_maxpages", "0");
        let server = Postgres::start_with(&options).unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        Self { server, proxy }
    }

    /// A store with one connection for commits and one for reads, both warm.
    async fn open(&self) -> PostgresStore {
        let url = self.server.url();
        let url = url.replace(&format!(":{}/", self.server.port()), &format!(":{}/", self.proxy.port()));
        let url = format!("{url}?connections=1&readers=1&sslmode=disable");
        let store = PostgresStore::open(&url).await.unwrap();
        store.commit(everything(0)).await.unwrap();
        store.read(questions()).await.unwrap();
        store
    }

    /// How many statements with these words were executed.
    fn executed(&self, words: &str) -> usize {
        let log = self.server.log();
        log.lines().filter(|line| line.contains("execute <unnamed>") && line.contains(words)).count()
    }

    /// How often the log was flushed. Connections report theirs when they end, so the store must be gone.
    async fn flushes(&self, outside: &Client) -> i64 {
        let connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure'";
        while outside.query_one(connected, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            Env::system().sleep(Duration::from_millis(10)).await;
        }
        outside.query_one("SELECT wal_sync FROM pg_stat_wal", &[]).await.unwrap().get(0)
    }
}

/// A commit with everything that a commit can have.
fn everything(number: u64) -> Commit {
    let key = |name: &str| Key::from(format!("{name}/{number}").as_str());
    let mut commit = Commit::new()
        .check(Check::Absent(key("absent")))
        .check(Check::Empty(key("empty")))
        .delete(key("gone"))
        .delete_range(Range::Prefix(key("range")))
        .append(key("list"), "one")
        .append(key("list"), "two");
    for part in 0..20 {
        commit = commit.set(key(&format!("set{part}")), vec![7; 1000]);
    }
    commit
}

/// A read with every kind of question.
fn questions() -> Vec<Read> {
    let mut reads: Vec<Read> =
        (0..20).map(|part| Read::Key(Key::from(format!("set{part}/0").as_str()))).collect();
    reads.push(Read::Range { range: Range::all(), limit: 100 });
    reads.push(Read::List { list: Key::from("list/0"), after: None, limit: 10 });
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_one_statement_one_round_trip_and_one_flush() {
    let bench = Bench::start();
    let outside = schemas::connect(&bench.server.url()).await;
    let store = bench.open().await;
    drop(store);
    let before = bench.flushes(&outside).await;
    let store = bench.open().await;
    let (turns, executed) = (bench.proxy.turns(), bench.executed("apply"));
    for number in 1..=COMMITS {
        store.commit(everything(number)).await.unwrap();
    }
    assert_eq!(bench.proxy.turns() - turns, COMMITS);
    assert_eq!((bench.executed("apply") - executed) as u64, COMMITS);
    drop(store);
    let flushes = (bench.flushes(&outside).await - before).cast_unsigned();
    // One more for the first commit of the second store; the server's own processes may add a few.
    assert!((COMMITS..=COMMITS + 10).contains(&flushes), "{flushes} flushes for {} commits", COMMITS + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_commit_flushes_nothing() {
    let bench = Bench::start();
    let outside = schemas::connect(&bench.server.url()).await;
    let store = bench.open().await;
    let stale = Commit::new().check(Check::Version(Key::from("set0/0"), Version(0))).set(Key::from("k"), "v");
    let turns = bench.proxy.turns();
    for _ in 0..COMMITS {
        assert!(matches!(store.commit(stale.clone()).await, Err(CommitError::Conflict(_))));
    }
    assert_eq!(bench.proxy.turns() - turns, COMMITS);
    drop(store);
    let flushes = bench.flushes(&outside).await;
    assert!(flushes < 20, "{flushes} flushes of making the schema and one commit, and none of refused ones");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_is_flushed_whatever_the_default() {
    let bench = Bench::start();
    let outside = schemas::connect(&bench.server.url()).await;
    outside.batch_execute("ALTER DATABASE postgres SET synchronous_commit = off").await.unwrap();
    let store = bench.open().await;
    for number in 1..=COMMITS {
        store.commit(everything(number)).await.unwrap();
    }
    drop(store);
    let flushes = bench.flushes(&outside).await.cast_unsigned();
    assert!(flushes >= COMMITS, "{flushes} flushes for {COMMITS} commits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_one_statement_and_one_round_trip() {
    let bench = Bench::start();
    let store = bench.open().await;
    let (turns, executed) = (bench.proxy.turns(), bench.executed(".kv"));
    for _ in 0..20 {
        store.read(questions()).await.unwrap();
    }
    assert_eq!(bench.proxy.turns() - turns, 20);
    assert_eq!(bench.executed(".kv") - executed, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_told_only_while_they_listen() {
    let bench = Bench::start();
    let store = bench.open().await;
    for number in 1..=20 {
        store.commit(everything(number)).await.unwrap();
    }
    assert_eq!(bench.executed("pg_notify"), 0);
    let other = bench.open().await;
    let mut watch = other.watch(Range::all());
    watch.changed().await;
    let probes = bench.executed("pg_notify");
    store.commit(everything(21)).await.unwrap();
    while bench.executed("pg_notify") == probes {
        watch.changed().await;
    }
    // A watch of its own needs no message.
    drop((watch, other));
    let outside = schemas::connect(&bench.server.url()).await;
    while outside.query_one("SELECT count(*) FROM tenure.listeners", &[]).await.unwrap().get::<_, i64>(0) > 0
    {
        Env::system().sleep(Duration::from_millis(10)).await;
    }
    let mut own = store.watch(Range::all());
    own.changed().await;
    let told = bench.executed("pg_notify");
    for number in 30..=50 {
        store.commit(everything(number)).await.unwrap();
    }
    assert_eq!(bench.executed("pg_notify"), told);
}

/// Who is stopped by a row that somebody else has locked stops nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_on_different_keys_do_not_wait_for_each_other() {
    let bench = Bench::start();
    let store = PostgresStore::open(&bench.server.url()).await.unwrap();
    let (a, b) = (Key::from("a"), Key::from("b"));
    store.commit(Commit::new().set(a.clone(), "1").set(b.clone(), "1")).await.unwrap();
    let outside = schemas::connect(&bench.server.url()).await;
    outside.batch_execute("BEGIN; UPDATE tenure.kv SET value = '2' WHERE key = 'a'").await.unwrap();
    let mut stopped = std::pin::pin!(store.commit(Commit::new().set(a.clone(), "3")));
    let env = Env::system();
    assert!(env.timeout(Duration::from_millis(300), &mut stopped).await.is_err(), "the row is locked");
    for number in 0..50_u8 {
        let commit = Commit::new()
            .check(Check::Present(a.clone()))
            .check(Check::Present(b.clone()))
            .set(b.clone(), vec![number])
            .append(Key::from("list"), "e");
        let made = env.timeout(Duration::from_secs(30), store.commit(commit)).await;
        made.expect("nobody waits for another key, nor a guard for an overwrite").unwrap();
    }
    outside.batch_execute("ROLLBACK").await.unwrap();
    stopped.await.unwrap();
}
