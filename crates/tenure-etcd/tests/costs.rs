//! What requests cost, counted on the server.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::sync::Arc;

use tenure_etcd::EtcdStore;
use tenure_store::{Check, Commit, CommitError, Conflict, Key, Range, Read, Store, Version};
use tenure_testbed::{Etcd, Options};

/// How many requests of each kind a server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    txn: u64,
    range: u64,
    proposals: u64,
}

fn count(etcd: &Etcd) -> Cost {
    let method = |name: &str| {
        place::metric(
            etcd,
            "grpc_server_handled_total",
            &[&format!("grpc_method=\"{name}\""), "etcdserverpb.KV"],
        )
    };
    Cost {
        txn: method("Txn"),
        range: method("Range"),
        proposals: place::metric(etcd, "etcd_server_proposals_committed_total", &[]),
    }
}

async fn cost(etcd: &Etcd, request: impl AsyncFnOnce()) -> Cost {
    let before = count(etcd);
    request().await;
    let after = count(etcd);
    Cost {
        txn: after.txn - before.txn,
        range: after.range - before.range,
        proposals: after.proposals - before.proposals,
    }
}

fn key(text: &str) -> Key {
    Key::from(text)
}

async fn start() -> (Etcd, Arc<EtcdStore>) {
    let etcd = Etcd::start(1, &Options::default()).unwrap();
    let store = EtcdStore::open(&etcd.url()).await.unwrap();
    (etcd, Arc::new(store))
}

#[tokio::test]
async fn a_commit_is_one_transaction_and_a_read_is_one() {
    let (etcd, store) = start().await;
    let one = Cost { txn: 1, range: 0, proposals: 1 };
    let full = (0..60).fold(Commit::new(), |all, at| all.check(Check::Absent(key(&format!("k{at}")))));
    let full = (0..60).fold(full, |all, at| all.set(key(&format!("k{at}")), "v"));
    let made = cost(&etcd, async || assert!(store.commit(full.clone()).await.is_ok())).await;
    assert_eq!(made, one, "a commit of 60 checks and 60 writes");

    let refused = cost(&etcd, async || {
        let error = store.commit(full).await.unwrap_err();
        assert!(matches!(error, CommitError::Conflict(Conflict::Check { index: 0, .. })), "{error}");
    })
    .await;
    assert_eq!(refused, one, "a refused commit tells why");

    let checks = Commit::new().check(Check::Present(key("k1")));
    let checked = cost(&etcd, async || assert!(store.commit(checks).await.is_ok())).await;
    assert_eq!(checked, one, "a commit that only checks is decided in the log");

    let questions = vec![
        Read::Key(key("k1")),
        Read::Range { range: Range::all(), limit: 30 },
        Read::List { list: key("l"), after: None, limit: 1000 },
    ];
    let read = cost(&etcd, async || assert!(store.read(questions).await.is_ok())).await;
    assert_eq!(read, Cost { txn: 1, range: 0, proposals: 0 }, "a read of three questions");

    let stale = Commit::new().check(Check::Version(key("k1"), Version(1))).append(key("l"), "v");
    let appended = cost(&etcd, async || assert!(store.commit(stale).await.is_err())).await;
    assert_eq!(appended, Cost { range: 1, ..one }, "an append asks for the revision before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_at_the_same_time_share_the_question_for_the_revision() {
    let (etcd, store) = start().await;
    let appended = cost(&etcd, async || {
        let appends: Vec<_> = (0..200)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.commit(Commit::new().append(key("l"), "v")).await.unwrap() })
            })
            .collect();
        for append in appends {
            append.await.unwrap();
        }
    })
    .await;
    assert_eq!(appended.txn, 200);
    assert!(appended.range < 100, "{appended:?}");
}

#[tokio::test]
async fn a_long_page_takes_few_requests_and_a_heavy_one_no_more_bytes_than_it_may() {
    let (etcd, store) = start().await;
    for chunk in 0..10 {
        let fill =
            (0..120).fold(Commit::new(), |all, at| all.set(key(&format!("light {chunk} {at:03}")), "v"));
        store.commit(fill).await.unwrap();
    }
    let page = |prefix: &str| vec![Read::Range { range: Range::Prefix(key(prefix)), limit: 1000 }];
    let light = cost(&etcd, async || {
        let found = store.read(page("light")).await.unwrap();
        assert_eq!((found.range(0).items.len(), found.range(0).more), (1000, true));
    })
    .await;
    assert!(light.txn <= 3, "{light:?}");

    for chunk in 0..25 {
        let fill = (0..16).fold(Commit::new(), |all, at| {
            all.set(key(&format!("heavy {chunk:02} {at:02}")), vec![7; 60 * 1024])
        });
        store.commit(fill).await.unwrap();
    }
    let sent = || place::metric(&etcd, "etcd_network_client_grpc_sent_bytes_total", &[]);
    let before = sent();
    let heavy = cost(&etcd, async || {
        let found = store.read(page("heavy")).await.unwrap();
        assert_eq!((found.range(0).items.len(), found.range(0).more), (17, true));
    })
    .await;
    assert_eq!(heavy.txn, 1);
    // Not all 400 of them, which are 24 MB.
    assert!(sent() - before < 9_000_000, "{}", sent() - before);
}

/// The largest commit, with names that grow most on their way to etcd: it is taken, and its refusal is explained by a second request.
#[tokio::test]
async fn the_largest_commit_is_taken() {
    let etcd = Etcd::start(1, &Options::default()).unwrap();
    let store = EtcdStore::open(&format!("{}/{}", etcd.url(), "p".repeat(128))).await.unwrap();
    let limits = store.limits();
    let list = |at: u8| {
        let mut name = vec![0; limits.key_bytes];
        name[0] = at + 1;
        Key::new(name)
    };
    let checks = (0..116).fold(Commit::new(), |all, at| all.check(Check::Empty(list(at))));
    let left = (limits.commit_bytes - 116 * limits.key_bytes) / 4 - 1;
    let largest = (0..4).fold(checks, |all, at| all.set(key(&at.to_string()), vec![7; left]));
    let made = cost(&etcd, async || assert!(store.commit(largest.clone()).await.is_ok())).await;
    assert_eq!(made, Cost { txn: 1, range: 0, proposals: 1 });

    store.commit(Commit::new().append(list(100), "v")).await.unwrap();
    let refused = cost(&etcd, async || match store.commit(largest).await {
        Err(CommitError::Conflict(Conflict::Check { index: 100, key })) => assert_eq!(key, list(100)),
        other => panic!("{other:?}"),
    })
    .await;
    assert_eq!(refused, Cost { txn: 2, range: 0, proposals: 1 });
}
