//! What cases have in common: keys, retries, tasks.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    Commit, CommitError, Conflict, Entry, EntryId, Env, Item, Key, Page, Range, Read, Receipt, Store,
    StoreExt as _, Watch, Write,
};

/// How often a commit that met contention is made again before the case fails.
const TRIES_MAX: usize = 1000;

/// How long a waking may take, the slow re-read included.
const WAKING_TIME: Duration = Duration::from_secs(60);

pub(super) fn key(text: &str) -> Key {
    Key::from(text)
}

/// Makes a commit; again if the store only gave way to a concurrent one. Other refusals are returned.
pub(super) async fn try_commit(store: &Arc<dyn Store>, commit: Commit) -> Result<Receipt, CommitError> {
    for _ in 0..TRIES_MAX {
        match store.commit(commit.clone()).await {
            Err(CommitError::Conflict(Conflict::Contention)) => tokio::task::yield_now().await,
            other => return other,
        }
    }
    panic!("{store} gave way to concurrent commits {TRIES_MAX} times in a row");
}

/// Makes a commit that must succeed.
pub(super) async fn commit(store: &Arc<dyn Store>, commit: Commit) -> Receipt {
    match try_commit(store, commit.clone()).await {
        Ok(receipt) => receipt,
        Err(error) => panic!("{store} refused {commit:?}: {error}"),
    }
}

/// Makes a commit that must be refused because of a check; returns which.
pub(super) async fn conflict(store: &Arc<dyn Store>, commit: Commit) -> (usize, Key) {
    match try_commit(store, commit.clone()).await {
        Err(CommitError::Conflict(Conflict::Check { index, key })) => (index, key),
        other => panic!("{store} should have refused {commit:?} for a check, but: {other:?}"),
    }
}

/// Makes a commit that may be refused because of a check; returns whether it was made.
pub(super) async fn attempt(store: &Arc<dyn Store>, commit: Commit) -> bool {
    match try_commit(store, commit.clone()).await {
        Ok(_) => true,
        Err(CommitError::Conflict(_)) => false,
        Err(error) => panic!("{store} failed on {commit:?}: {error}"),
    }
}

/// The value of a key, if it exists.
pub(super) async fn value(store: &Arc<dyn Store>, key: &Key) -> Option<Bytes> {
    store.get(key).await.unwrap().map(|found| found.value)
}

/// The values of a list's first entries.
pub(super) async fn list(store: &Arc<dyn Store>, list: &Key) -> Vec<Bytes> {
    store
        .entries(list, store.limits().page_items)
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|entry| entry.value)
        .collect()
}

/// A number as a value, and back.
pub(super) fn number(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub(super) fn to_number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// Waits for a waking, which must come.
pub(super) async fn woken(watch: &mut Watch) {
    Env::system()
        .timeout(WAKING_TIME, watch.changed())
        .await
        .expect("a change after the watch was made wakes it");
}

/// Runs these to the end, all at once; a panic in one is a panic here.
pub(super) async fn all<T: Send + 'static>(
    tasks: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::new();
    for task in running {
        match task.await {
            Ok(value) => done.push(value),
            Err(failure) => std::panic::resume_unwind(failure.into_panic()),
        }
    }
    done
}

/// Every key from `start` up to, not including, `end`.
pub(super) fn between(start: impl Into<Key>, end: impl Into<Key>) -> Range {
    Range::Between { start: start.into(), end: end.into() }
}

/// Makes all these writes, in as many commits as the store needs for them.
pub(super) async fn fill(store: &Arc<dyn Store>, writes: impl IntoIterator<Item = Write>) {
    let writes: Vec<Write> = writes.into_iter().collect();
    for chunk in writes.chunks(store.limits().commit_operations) {
        commit(store, Commit { checks: Vec::new(), writes: chunk.to_vec() }).await;
    }
}

/// All items of a range, read in pages of `limit`.
pub(super) async fn items(store: &Arc<dyn Store>, range: &Range, limit: usize) -> Vec<Item> {
    let mut found: Vec<Item> = Vec::new();
    let mut rest = range.clone();
    loop {
        let page = store.scan(&rest, limit).await.unwrap();
        assert!(page.items.len() <= limit, "{} items in a page of {limit}", page.items.len());
        found.extend(page.items);
        assert!(
            found.is_sorted_by(|one, next| one.key < next.key),
            "{range:?} in pages of {limit}: {found:?}"
        );
        match found.last() {
            Some(last) if page.more => rest = rest.after(&last.key),
            _ => return found,
        }
    }
}

/// All keys of a range.
pub(super) async fn keys(store: &Arc<dyn Store>, range: &Range) -> Vec<Key> {
    let items = items(store, range, store.limits().page_items).await;
    items.into_iter().map(|item| item.key).collect()
}

/// The first entries of a list behind `after`.
pub(super) async fn page(
    store: &Arc<dyn Store>,
    list: &Key,
    after: Option<&EntryId>,
    limit: usize,
) -> Page<Entry> {
    let read = Read::List { list: list.clone(), after: after.cloned(), limit };
    store.read(vec![read]).await.unwrap().list(0).clone()
}

/// The ids of a list's first entries.
pub(super) async fn ids(store: &Arc<dyn Store>, list: &Key) -> Vec<EntryId> {
    let page = page(store, list, None, store.limits().page_items).await;
    page.items.into_iter().map(|entry| entry.id).collect()
}
