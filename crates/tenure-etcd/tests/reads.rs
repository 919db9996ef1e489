//! Reads that take several requests are one instant all the same.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure_etcd::EtcdStore;
use tenure_store::{Commit, Env, Key, Range, Read, Store};
use tenure_testbed::{Etcd, Options};

/// As many as one page has: three requests.
const KEYS: usize = 1000;

fn key(at: usize) -> Key {
    Key::from(format!("k{at:04}").as_str())
}

/// Gives keys of each part of the page the same value, in one commit.
fn stamp(value: &str) -> Commit {
    [0, 100, 200, 500, 700, 900, KEYS - 1]
        .iter()
        .fold(Commit::new(), |all, at| all.set(key(*at), value.to_owned()))
}

async fn start() -> (Etcd, Arc<EtcdStore>) {
    let etcd = Etcd::start(1, &Options::default()).unwrap();
    let store = Arc::new(EtcdStore::open(&etcd.url()).await.unwrap());
    for chunk in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        let fill = chunk.iter().fold(Commit::new(), |all, at| all.set(key(*at), "filler"));
        store.commit(fill).await.unwrap();
    }
    store.commit(stamp("0")).await.unwrap();
    (etcd, store)
}

/// Reads the page so many times while it is stamped again and again.
async fn read_while_stamped(store: &Arc<EtcdStore>, times: usize) {
    let done = Arc::new(AtomicBool::new(false));
    let stamping = tokio::spawn({
        let (store, done) = (Arc::clone(store), Arc::clone(&done));
        async move {
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                store.commit(stamp(&number.to_string())).await.unwrap();
            }
            number
        }
    });
    for _ in 0..times {
        let page = vec![Read::Range { range: Range::all(), limit: KEYS }];
        let found = store.read(page).await.unwrap();
        let items = &found.range(0).items;
        assert_eq!((items.len(), found.range(0).more), (KEYS, false));
        let stamps: Vec<_> = items.iter().filter(|item| item.value != "filler").collect();
        assert_eq!(stamps.len(), 7);
        assert!(stamps.iter().all(|item| item.value == stamps[0].value), "{stamps:?}");
    }
    done.store(true, Ordering::Relaxed);
    assert!(stamping.await.unwrap() > times, "there was something to get wrong");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_several_requests_is_one_instant() {
    let (_etcd, store) = start().await;
    read_while_stamped(&store, 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_in_the_middle_of_a_read_is_no_matter() {
    let (etcd, store) = start().await;
    let done = Arc::new(AtomicBool::new(false));
    let compacting = {
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let last = store.commit(Commit::new().set(Key::from("other"), "v")).await.unwrap().version;
                place::control(&etcd, None, &["compact", &last.0.to_string()]);
                Env::system().sleep(Duration::from_millis(5)).await;
            }
            drop(etcd);
        })
    };
    for _ in 0..100 {
        let page = vec![Read::Range { range: Range::Prefix(Key::from("k")), limit: KEYS }];
        assert_eq!(store.read(page).await.unwrap().range(0).items.len(), KEYS);
    }
    done.store(true, Ordering::Relaxed);
    compacting.await.unwrap();
}
