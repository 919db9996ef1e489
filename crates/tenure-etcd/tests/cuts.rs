//! Writers whose connections are cut in the middle of commits: outcomes become unknown, and each is settled rightly.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::{sync::Arc, time::Duration};

use tenure_etcd::EtcdStore;
use tenure_store::{Env, Host, Store, testkit::endure};
use tenure_testbed::{Etcd, Options, Proxy, ProxyFaults};

/// How long connections are cut.
const TIME: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_nothing_and_double_nothing() {
    let etcd = Etcd::start(3, &Options::default()).unwrap();
    let proxies: Vec<Proxy> = etcd.ports().iter().map(|port| Proxy::start(*port).unwrap()).collect();
    let place = place::Place::new(&etcd.url());
    let mut settings = place.settings();
    settings.hosts =
        proxies.iter().map(|proxy| Host { name: "127.0.0.1".into(), port: Some(proxy.port()) }).collect();
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(EtcdStore::open_with(settings.clone()).await.unwrap()));
    }
    let endured = endure(&stores, 16, async |progress| {
        for proxy in &proxies {
            proxy.set_faults(ProxyFaults { request: 0.01, answer: 0.01 });
        }
        Env::system().sleep(TIME).await;
        progress.more(200).await;
        for proxy in &proxies {
            proxy.set_faults(ProxyFaults::default());
        }
    })
    .await;
    let cuts: u64 = proxies.iter().map(Proxy::cuts).sum();
    assert!(cuts > 20, "{cuts}");
    assert!(endured.unknown > 0 && endured.increments > 200, "{endured:?}");
}
