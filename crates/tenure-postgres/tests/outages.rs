//! Nothing acknowledged is lost and nothing is done twice, while the server is killed or connections are cut.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{sync::Arc, time::Duration};

use tenure_postgres::PostgresStore;
use tenure_store::{
    Env, Store,
    testkit::{Endured, Progress, endure},
};
use tenure_testbed::{PgBouncer, Postgres, Proxy, ProxyFaults};

const WRITERS: u64 = 16;
const KILLS: u32 = 10;

/// Three stores, as if in three processes. Short times, so that a lost server is noticed soon.
async fn open(url: &str) -> Vec<Arc<dyn Store>> {
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..3 {
        let url = format!("{url}?connections=4&request_timeout=10s");
        stores.push(Arc::new(PostgresStore::open(&url).await.unwrap()));
    }
    stores
}

/// Kills the server again and again, each time after the writers have gone on for a while.
async fn kill_again_and_again(server: &Arc<Postgres>, progress: Progress) {
    let env = Env::system();
    for _ in 0..KILLS {
        progress.more(20).await;
        env.sleep(Duration::from_millis(env.random_in(0..500))).await;
        let server = Arc::clone(server);
        let killing = tokio::task::spawn_blocking(move || {
            server.kill().unwrap();
            server.restart().unwrap();
        });
        killing.await.unwrap();
    }
}

fn assert_worked(endured: Endured) {
    assert!(endured.increments > 200, "{endured:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing() {
    let server = Arc::new(Postgres::start().unwrap());
    let stores = open(&server.url()).await;
    assert_worked(endure(&stores, WRITERS, |progress| kill_again_and_again(&server, progress)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_behind_a_pooler_loses_nothing() {
    let server = Arc::new(Postgres::start().unwrap());
    let pooler = PgBouncer::start(&server.url()).unwrap();
    let stores = open(&pooler.url()).await;
    assert_worked(endure(&stores, WRITERS, |progress| kill_again_and_again(&server, progress)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_leave_no_doubt() {
    let server = Postgres::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let url = server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let stores = open(&url).await;
    proxy.set_faults(ProxyFaults { request: 0.005, answer: 0.01 });
    let disturb = async |progress: Progress| {
        let env = Env::system();
        for _ in 0..10 {
            progress.more(20).await;
            env.sleep(Duration::from_millis(300)).await;
            proxy.cut();
        }
        proxy.set_faults(ProxyFaults { request: 0.0, answer: 0.0 });
    };
    let endured = endure(&stores, WRITERS, disturb).await;
    assert_worked(endured);
    assert!(endured.unknown > 0 && proxy.cuts() > 10, "{endured:?}, {} cuts", proxy.cuts());
}
