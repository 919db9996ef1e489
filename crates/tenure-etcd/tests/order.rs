//! Entries keep the order of time, whatever a process knew last.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::sync::Arc;

use tenure_etcd::EtcdStore;
use tenure_store::{Commit, EntryId, Key, Store, StoreExt};

fn key(text: &str) -> Key {
    Key::from(text)
}

async fn append(store: &EtcdStore, value: &str) -> EntryId {
    store.commit(Commit::new().append(key("l"), value.to_owned())).await.unwrap();
    let entries = store.entries(&key("l"), 1000).await.unwrap().items;
    entries.into_iter().find(|entry| entry.value == value).unwrap().id
}

#[tokio::test]
async fn a_process_that_was_idle_appends_behind_what_others_did() {
    let place = place::Place::shared();
    let (idle, busy) = (place.open_at(0).await, place.open_at(1).await);
    append(&idle, "first").await;
    let mut last = append(&busy, "second").await;
    for round in 0..20 {
        let id = append(&busy, &format!("busy {round}")).await;
        assert!(id > last);
        last = id;
    }
    assert!(append(&idle, "last").await > last);
}

/// Who remembers the id of an entry that was taken out finds behind it what was appended later.
#[tokio::test]
async fn an_entry_sorts_behind_those_that_are_gone() {
    let place = place::Place::shared();
    let (idle, busy) = (place.open_at(0).await, place.open_at(1).await);
    append(&idle, "first").await;
    for round in 0..10 {
        append(&busy, &format!("busy {round}")).await;
    }
    let gone = append(&busy, "gone").await;
    busy.commit(Commit::new().remove(key("l"), gone.clone())).await.unwrap();
    assert!(append(&idle, "last").await > gone);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_one_process_sort_as_they_were_submitted() {
    let place = place::Place::shared();
    let store = Arc::new(place.open().await);
    let mut commits = Vec::new();
    for number in 0..200 {
        let mut commit = Box::pin({
            let store = Arc::clone(&store);
            async move {
                store.commit(Commit::new().append(key("l"), format!("{number:03}"))).await.unwrap();
            }
        });
        // Submitted here, though it goes on in a task of its own.
        assert!(futures_now(&mut commit).await.is_none());
        commits.push(tokio::spawn(commit));
    }
    for commit in commits {
        commit.await.unwrap();
    }
    let values: Vec<_> = store.entries(&key("l"), 1000).await.unwrap().items;
    let values: Vec<_> = values.into_iter().map(|entry| entry.value).collect();
    assert_eq!(values.len(), 200);
    assert!(values.is_sorted(), "{values:?}");
}

/// What a future gives at its first poll.
async fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
