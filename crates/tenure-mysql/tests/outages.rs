//! Nothing acknowledged is lost and nothing is done twice, while servers are killed.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{sync::Arc, time::Duration};

use tenure_mysql::MysqlStore;
use tenure_store::{
    Commit, Env, Key, Store,
    testkit::{Progress, endure},
};
use tenure_testbed::{Galera, MariaDb};

const WRITERS: u64 = 16;

/// How often the one server is killed.
const KILLS: u32 = 10;

/// Three stores, as if in three processes.
async fn open(urls: &[String]) -> Vec<Arc<dyn Store>> {
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for url in urls {
        stores.push(Arc::new(MysqlStore::open(url).await.unwrap()));
    }
    stores
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing() {
    let server = Arc::new(MariaDb::start().unwrap());
    let stores = open(&vec![format!("{}?connections=4&request_timeout=10s", server.url()); 3]).await;
    let env = Env::system();
    let disturb = async |progress: Progress| {
        for _ in 0..KILLS {
            progress.more(20).await;
            env.sleep(Duration::from_millis(env.random_in(0..500))).await;
            let server = Arc::clone(&server);
            let killing = tokio::task::spawn_blocking(move || {
                server.kill().unwrap();
                server.restart().unwrap();
            });
            killing.await.unwrap();
        }
    };
    let endured = endure(&stores, WRITERS, disturb).await;
    assert!(endured.increments > 200, "{endured:?}");
    assert!(endured.unknown > 0, "no kill came between a commit and its answer: {endured:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_on_without_any_one_of_its_nodes() {
    let cluster = Arc::new(Galera::start().unwrap());
    let ports = cluster.ports();
    // Each store prefers another node, and knows all of them.
    let urls: Vec<String> = (0..3)
        .map(|first| {
            let hosts: Vec<String> =
                (0..3).map(|step| format!("127.0.0.1:{}", ports[(first + step) % 3])).collect();
            format!("mysql://root@{}/test?connections=4&request_timeout=20s", hosts.join(","))
        })
        .collect();
    let stores = open(&urls).await;
    let env = Env::system();
    let disturb = async |progress: Progress| {
        for node in [1, 0] {
            progress.more(20).await;
            let killed = Arc::clone(&cluster);
            tokio::task::spawn_blocking(move || killed.kill(node).unwrap()).await.unwrap();
            for store in &stores {
                commits(store, &env).await;
            }
            let back = Arc::clone(&cluster);
            tokio::task::spawn_blocking(move || back.restart(node).unwrap()).await.unwrap();
        }
    };
    let endured = endure(&stores, WRITERS, disturb).await;
    assert!(endured.increments > 100, "{endured:?}");
}

/// Waits until a store commits again. The nodes that are left need some six seconds to give one up.
async fn commits(store: &Arc<dyn Store>, env: &Env) {
    let start = env.now();
    while let Err(error) = store.commit(Commit::new().set(Key::from("still there"), "v")).await {
        assert!(env.now() - start < Duration::from_secs(60), "{store} did not go on: {error}");
        env.sleep(Duration::from_millis(50)).await;
    }
}
