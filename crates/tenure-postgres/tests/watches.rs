//! How watches hear of what other processes do, and what happens when they don't.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::time::Duration;

use tenure_postgres::PostgresStore;
use tenure_store::{Commit, Env, Key, Range, Store, StoreExt as _, Watch};
use tokio_postgres::Client;

mod schemas;

use schemas::Schema;

/// Far longer than any waking takes that does not come by a slow look.
const LONG: Duration = Duration::from_secs(30);

async fn open(schema: &Schema, options: &str) -> PostgresStore {
    PostgresStore::open(&schema.url(options)).await.unwrap()
}

async fn woken(watch: &mut Watch) {
    Env::system().timeout(LONG, watch.changed()).await.expect("the watch wakes");
}

/// Waits until the watch is set up and has been woken for that as often as it is going to be.
async fn quiet(watch: &mut Watch) {
    woken(watch).await;
    while Env::system().timeout(Duration::from_millis(1500), watch.changed()).await.is_ok() {}
}

fn schema(name: &str) -> Schema {
    Schema::new(&tenure_testbed::postgres(), &format!("watches_{}_{name}", std::process::id()))
}

async fn outside() -> Client {
    schemas::connect(&tenure_testbed::postgres()).await
}

/// How many rows there are in `listeners`.
async fn listeners(schema: &Schema) -> i64 {
    let query = format!("SELECT count(*) FROM {}.listeners", schema.name());
    outside().await.query_one(&query, &[]).await.unwrap().get(0)
}

async fn eventually(schema: &Schema, count: i64) {
    let waiting = async {
        while listeners(schema).await != count {
            Env::system().sleep(Duration::from_millis(20)).await;
        }
    };
    Env::system()
        .timeout(LONG, waiting)
        .await
        .unwrap_or_else(|_| panic!("there should be {count} listeners"));
}

#[tokio::test]
async fn a_message_wakes_other_processes() {
    let schema = schema("message");
    // No slow look within the test.
    let watching = open(&schema, "&reread=1h").await;
    let writing = open(&schema, "").await;
    let mut watch = watching.watch(Range::Prefix(Key::from("a/")));
    quiet(&mut watch).await;
    for round in 0..10_u8 {
        let key = Key::from(format!("a/{round}").as_str());
        writing.commit(Commit::new().set(key.clone(), "v").append(key.clone(), "e")).await.unwrap();
        woken(&mut watch).await;
        assert!(watching.get(&key).await.unwrap().is_some(), "woken when it can be read");
    }
    // A list alone, and nothing that nobody watches.
    while Env::system().timeout(Duration::from_millis(500), watch.changed()).await.is_ok() {}
    writing.commit(Commit::new().set(Key::from("b"), "v")).await.unwrap();
    let waking = Env::system().timeout(Duration::from_millis(500), watch.changed()).await;
    assert!(waking.is_err(), "nobody watches that key");
    writing.commit(Commit::new().append(Key::from("a/list"), "e")).await.unwrap();
    woken(&mut watch).await;
}

#[tokio::test]
async fn a_lost_message_is_made_up_for() {
    let schema = schema("lost");
    let watching = open(&schema, "&reread=100ms").await;
    let mut watch = watching.watch(Range::Key(Key::from("k")));
    quiet(&mut watch).await;
    // A commit of a process that dies before it tells of it.
    let statement = format!("INSERT INTO {0}.kv VALUES ('k', '', nextval('{0}.versions'))", schema.name());
    outside().await.batch_execute(&statement).await.unwrap();
    woken(&mut watch).await;
}

/// The number of a commit can be seen before the commit itself can.
async fn a_slow_commit_wakes(name: &str, options: &str) {
    let schema = schema(name);
    let watching = open(&schema, options).await;
    let mut watch = watching.watch(Range::Key(Key::from("k")));
    quiet(&mut watch).await;
    let slow = outside().await;
    let insert =
        format!("BEGIN; INSERT INTO {0}.kv VALUES ('k', '', nextval('{0}.versions'))", schema.name());
    slow.batch_execute(&insert).await.unwrap();
    woken(&mut watch).await;
    assert_eq!(watching.get(&Key::from("k")).await.unwrap(), None);
    // Several looks see no more movement.
    let env = Env::system();
    env.sleep(Duration::from_millis(700)).await;
    while env.timeout(Duration::ZERO, watch.changed()).await.is_ok() {}
    slow.batch_execute("COMMIT").await.unwrap();
    woken(&mut watch).await;
    assert!(watching.get(&Key::from("k")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_slow_commit_wakes_a_listener() {
    a_slow_commit_wakes("slow_heard", "&reread=100ms").await;
}

#[tokio::test]
async fn a_slow_commit_wakes_a_poller() {
    a_slow_commit_wakes("slow_polled", "&listen=false&poll=20ms&reread=200ms").await;
}

#[tokio::test]
async fn a_lost_connection_is_made_up_for() {
    let schema = schema("cut");
    let watching = open(&schema, "&reread=1h").await;
    let writing = open(&schema, "").await;
    let mut watch = watching.watch(Range::Key(Key::from("k")));
    quiet(&mut watch).await;
    let terminate = format!("SELECT pg_terminate_backend(pid) FROM {}.listeners", schema.name());
    outside().await.batch_execute(&terminate).await.unwrap();
    writing.commit(Commit::new().set(Key::from("k"), "v")).await.unwrap();
    quiet(&mut watch).await;
    // And from then on again by messages.
    writing.commit(Commit::new().set(Key::from("k"), "w")).await.unwrap();
    woken(&mut watch).await;
}

#[tokio::test]
async fn listeners_come_and_go() {
    let schema = schema("listeners");
    let store = open(&schema, "&reread=50ms").await;
    assert_eq!(listeners(&schema).await, 0, "nobody watches, so nobody listens");
    let watch = store.watch(Range::all());
    eventually(&schema, 1).await;
    drop(watch);
    eventually(&schema, 0).await;
    let _watch = store.watch(Range::all());
    eventually(&schema, 1).await;
    drop(store);
    eventually(&schema, 0).await;
    // One that was killed is forgotten by the next.
    let insert = format!("INSERT INTO {}.listeners VALUES (1, 0)", schema.name());
    outside().await.batch_execute(&insert).await.unwrap();
    let store = open(&schema, "").await;
    let _watch = store.watch(Range::all());
    let id = format!("SELECT count(*) FROM {}.listeners WHERE id = 1", schema.name());
    let outside = outside().await;
    while outside.query_one(&id, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        Env::system().sleep(Duration::from_millis(20)).await;
    }
}
