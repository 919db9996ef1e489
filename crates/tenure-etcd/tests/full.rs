//! A cluster without room: what was refused is not there, what was acknowledged is, and all goes on when there is room again.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::{sync::Arc, time::Duration};

use tenure_etcd::EtcdStore;
use tenure_store::{Commit, CommitError, Env, Key, Range, Store, StoreError, StoreExt};
use tenure_testbed::{Etcd, Options};

const QUOTA: &str = "8000000";

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Made,
    Unknown,
    Full,
}

/// Sets keys of its own until it is told that there is no room; tells what became of each.
async fn fill(store: Arc<EtcdStore>, writer: usize) -> Vec<(Key, Outcome)> {
    let mut outcomes = Vec::new();
    loop {
        let key = Key::from(format!("{writer} {}", outcomes.len()).as_str());
        let outcome = match store.commit(Commit::new().set(key.clone(), vec![7; 20_000])).await {
            Ok(_) => Outcome::Made,
            Err(CommitError::OutcomeUnknown(_)) => Outcome::Unknown,
            Err(CommitError::Failed(StoreError::Full(_))) => Outcome::Full,
            Err(error) => panic!("{error}"),
        };
        let over = outcome == Outcome::Full;
        outcomes.push((key, outcome));
        if over {
            return outcomes;
        }
        assert!(outcomes.len() < 1000, "more than the quota allows");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_cluster_refuses_and_loses_nothing() {
    let options = Options::default().setting("quota-backend-bytes", QUOTA);
    let etcd = Etcd::start(1, &options).unwrap();
    let store = Arc::new(EtcdStore::open(&etcd.url()).await.unwrap());
    let writers: Vec<_> = (0..16).map(|writer| tokio::spawn(fill(Arc::clone(&store), writer))).collect();
    let mut unknown = 0;
    for writer in writers {
        for (key, outcome) in writer.await.unwrap() {
            let there = store.get(&key).await.unwrap().is_some();
            match outcome {
                Outcome::Made => assert!(there, "{key} was acknowledged"),
                Outcome::Full => assert!(!there, "{key} was refused"),
                Outcome::Unknown => unknown += 1,
            }
        }
    }
    // Whoever finds out that there is no room can't be told what became of the commit; as a rule it was made.
    assert!((1..=32).contains(&unknown), "{unknown}");

    let error = store.commit(Commit::new().append(Key::from("l"), "v")).await.unwrap_err();
    assert!(matches!(&error, CommitError::Failed(StoreError::Full(_))), "{error}");
    assert!(error.to_string().contains("disarm"), "{error}");
    // A store that is opened now can look and delete.
    let other = EtcdStore::open(&etcd.url()).await.unwrap();
    assert!(!other.scan(&Range::all(), 10).await.unwrap().items.is_empty());
    let version = other.commit(Commit::new().delete_range(Range::all())).await.unwrap().version;

    place::control(&etcd, None, &["compact", &version.0.to_string()]);
    Env::system().sleep(Duration::from_millis(500)).await;
    place::control(&etcd, None, &["defrag"]);
    place::control(&etcd, None, &["alarm", "disarm"]);
    store.commit(Commit::new().set(Key::from("again"), vec![7; 20_000])).await.unwrap();
}
