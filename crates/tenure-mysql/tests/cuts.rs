//! Nothing acknowledged is lost and nothing is done twice, while connections are cut in the middle of commits.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{sync::Arc, time::Duration};

use tenure_mysql::MysqlStore;
use tenure_store::{
    Env, Store,
    testkit::{Progress, endure},
};
use tenure_testbed::{MariaDb, Proxy, ProxyFaults};

const WRITERS: u64 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_leave_no_doubt() {
    let server = MariaDb::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let url = format!("mysql://root@127.0.0.1:{}/test?connections=4&request_timeout=10s", proxy.port());
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(MysqlStore::open(&url).await.unwrap()));
    }
    proxy.set_faults(ProxyFaults { request: 0.005, answer: 0.01 });
    let env = Env::system();
    let disturb = async |progress: Progress| {
        for _ in 0..10 {
            progress.more(20).await;
            env.sleep(Duration::from_millis(300)).await;
            proxy.cut();
        }
        proxy.set_faults(ProxyFaults::default());
    };
    let endured = endure(&stores, WRITERS, disturb).await;
    assert!(endured.increments > 200, "{endured:?}");
    assert!(endured.unknown > 0 && proxy.cuts() > 10, "{endured:?}, {} cuts", proxy.cuts());
}
