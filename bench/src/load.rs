//! What stores are put under: commits and reads by one or by many at once.

use std::sync::Arc;

use tenure_store::{Check, Commit, Key, Store, StoreExt as _, Version};

/// How many keys are written and read.
const KEYS: u64 = 1000;

/// A value of the usual size.
#[must_use]
pub fn value(number: u64) -> Vec<u8> {
    let mut value = vec![0; 256];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}

/// The key of this number.
#[must_use]
pub fn key(number: u64) -> Key {
    Key::from(format!("bench/key/{number}").as_str())
}

/// Writes every key once, so that there is something to read and to overwrite.
pub async fn fill(store: &Arc<dyn Store>) {
    for start in (0..KEYS).step_by(100) {
        let commit = (start..start + 100).fold(Commit::new(), |commit, n| commit.set(key(n), value(n)));
        store.commit(commit).await.unwrap();
    }
}

/// `committers` at once, each making `each` commits, one after another: an overwrite of a key of its own that checks its version.
pub async fn commits(store: &Arc<dyn Store>, committers: u64, each: u64) {
    at_once(committers, |committer| {
        let store = Arc::clone(store);
        async move {
            let key = key(committer % KEYS);
            let mut version: Version = store.get(&key).await.unwrap().unwrap().version;
            for number in 0..each {
                let check = Check::Version(key.clone(), version);
                let commit = Commit::new().check(check).set(key.clone(), value(number));
                version = store.commit(commit).await.unwrap().version;
            }
        }
    })
    .await;
}

/// `readers` at once, each reading a key `each` times, one after another.
pub async fn reads(store: &Arc<dyn Store>, readers: u64, each: u64) {
    at_once(readers, |reader| {
        let store = Arc::clone(store);
        async move {
            for number in 0..each {
                store.get(&key((reader * 31 + number) % KEYS)).await.unwrap().unwrap();
            }
        }
    })
    .await;
}

/// Runs as many tasks at once, to the end of all.
pub async fn at_once<Working>(count: u64, work: impl Fn(u64) -> Working)
where
    Working: Future<Output = ()> + Send + 'static,
{
    let tasks: Vec<_> = (0..count).map(|number| tokio::spawn(work(number))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}
