//! Guards that are deleted with the range they are in, on one server and on a cluster. Keys in a range have no lock of their own that its
//! deletion would take; the gate alone keeps guarded commits and the deletion apart.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod databases;

use std::sync::Arc;

use databases::Database;
use tenure_mysql::MysqlStore;
use tenure_store::{Check, Commit, CommitError, Conflict, Key, Range, Store, StoreExt as _};
use tokio::sync::Notify;

const ROUNDS: usize = 8;
const WORKERS: usize = 3;

/// Writes that make a guarded commit long: a deletion then has the time to come between its check and its end, if anything lets it.
const FILLERS: usize = 200;

/// Makes a commit, again and again while the store only gives way; returns whether its checks held.
async fn made(store: &MysqlStore, commit: &Commit) -> bool {
    loop {
        match store.commit(commit.clone()).await {
            Ok(_) => return true,
            Err(CommitError::Conflict(Conflict::Check { .. })) => return false,
            Err(CommitError::Conflict(Conflict::Contention)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn nothing_guarded_follows(urls: &[String]) {
    let database = Database::create(urls).await;
    let mut stores = Vec::new();
    for index in 0..=WORKERS {
        stores.push(Arc::new(MysqlStore::open(&database.url(index)).await.unwrap()));
    }
    for round in 0..ROUNDS {
        let guard = Key::from(format!("guards/{round}/k").as_str());
        let work = Key::from(format!("work/{round}").as_str());
        assert!(made(&stores[0], &Commit::new().set(guard.clone(), "v")).await);
        let started = Arc::new(Notify::new());
        let workers: Vec<_> = (1..=WORKERS)
            .map(|worker| {
                let (store, started) = (Arc::clone(&stores[worker]), Arc::clone(&started));
                let step = (0..FILLERS)
                    .fold(Commit::new().check(Check::Present(guard.clone())), |all, at| {
                        all.set(Key::from(format!("filler/{worker}/{at}").as_str()), "v")
                    });
                let step = step.append(work.clone(), "e");
                tokio::spawn(async move {
                    let mut count = 0;
                    while made(&store, &step).await {
                        count += 1;
                        started.notify_one();
                    }
                    count
                })
            })
            .collect();
        started.notified().await;
        let range = Range::Prefix(Key::from(format!("guards/{round}/").as_str()));
        assert!(made(&stores[0], &Commit::new().delete_range(range)).await);
        let at_deletion = stores[0].entries(&work, 1000).await.unwrap().items.len();
        let mut count = 0;
        for worker in workers {
            count += worker.await.unwrap();
        }
        assert_eq!(count, at_deletion, "round {round}: guarded commits against what the deletion left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_guarded_follows_the_deletion_of_its_range() {
    nothing_guarded_follows(&[tenure_testbed::mariadb()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_guarded_follows_the_deletion_of_its_range_in_a_cluster() {
    nothing_guarded_follows(&tenure_testbed::galera()).await;
}
