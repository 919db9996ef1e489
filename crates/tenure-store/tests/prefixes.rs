//! Clusters in one store see nothing of each other, whatever their names.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
};

use tenure_store::{
    Check, Commit, CommitError, Conflict, Key, Limited, Limits, MemoryStore, Name, Prefixed, Range, Store,
    StoreError, StoreExt as _, Tuple, Watch,
};

type Cluster = Prefixed<Arc<MemoryStore>>;

/// Names that begin one another, or look as if.
const NAMES: [&str; 8] = ["a", "ab", "a ", "A", "a%", "é", "e\u{301}", "\u{10FFFF}"];

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn key(text: &str) -> Key {
    Key::from(text)
}

fn clusters() -> Vec<Cluster> {
    let memory = Arc::new(MemoryStore::new());
    NAMES.iter().map(|text| Prefixed::new(Arc::clone(&memory), &name(text))).collect()
}

/// A name so long that its prefix leaves the least room.
fn longest_name() -> Name {
    name(&"n".repeat(Name::BYTES_MAX))
}

async fn keys(store: &impl Store, range: &Range) -> Vec<Key> {
    let page = store.scan(range, 100).await.unwrap();
    assert!(!page.more, "{store} counts what is not its own");
    page.items.into_iter().map(|item| item.key).collect()
}

async fn write_own(cluster: &Cluster, own: &str) {
    let data = Commit::new().set(key("shared"), own.to_owned()).set(key(own), "v");
    cluster.commit(data.append(key("shared"), own.to_owned()).append(key(own), "v")).await.unwrap();
}

async fn assert_own(cluster: &Cluster, own: &str) {
    let mut expected = vec![key("shared"), key(own)];
    expected.sort();
    assert_eq!(keys(cluster, &Range::all()).await, expected);
    assert_eq!(cluster.get(&key("shared")).await.unwrap().unwrap().value, own);
    let entries = cluster.entries(&key("shared"), 10).await.unwrap();
    assert_eq!((entries.items.len(), entries.more), (1, false));
    assert_eq!(entries.items[0].value, own);
    assert_eq!(cluster.entries(&key(own), 10).await.unwrap().items.len(), 1);
}

fn is_woken(watch: &mut Watch) -> bool {
    pin!(watch.changed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test]
async fn each_cluster_sees_its_own() {
    let clusters = clusters();
    for (cluster, own) in clusters.iter().zip(NAMES) {
        write_own(cluster, own).await;
    }
    for (cluster, own) in clusters.iter().zip(NAMES) {
        assert_own(cluster, own).await;
    }
}

#[tokio::test]
async fn checks_speak_of_the_own_keys() {
    let clusters = clusters();
    write_own(&clusters[0], NAMES[0]).await;
    for cluster in &clusters[1..] {
        let checks = Commit::new().check(Check::Absent(key("shared"))).check(Check::Empty(key("shared")));
        cluster.commit(checks).await.unwrap();
        cluster.commit(Commit::new().check(Check::Present(key("shared")))).await.unwrap_err();
    }
}

#[tokio::test]
async fn deleting_everything_deletes_the_own() {
    let ranges = [
        Range::all(),
        Range::Between { start: key(""), end: Key::new(vec![0xFF; Limits::KEY_BYTES_MAX + 1]) },
        Range::all().after(&Key::new(vec![0])),
    ];
    for range in ranges {
        let clusters = clusters();
        for (cluster, own) in clusters.iter().zip(NAMES) {
            write_own(cluster, own).await;
        }
        for (at, cluster) in clusters.iter().enumerate() {
            cluster.commit(Commit::new().delete_range(range.clone())).await.unwrap();
            assert_eq!(keys(cluster, &Range::all()).await, []);
            assert!(cluster.entries(&key("shared"), 1).await.unwrap().items.is_empty());
            for (other, own) in clusters.iter().zip(NAMES).skip(at + 1) {
                assert_own(other, own).await;
            }
        }
    }
}

#[tokio::test]
async fn an_entry_is_removed_from_the_own_list() {
    let clusters = clusters();
    for (cluster, own) in clusters.iter().zip(NAMES) {
        write_own(cluster, own).await;
    }
    let entry = clusters[0].entries(&key("shared"), 1).await.unwrap().items.remove(0);
    for other in &clusters[1..] {
        other.commit(Commit::new().remove(key("shared"), entry.id.clone())).await.unwrap();
    }
    assert_own(&clusters[0], NAMES[0]).await;
}

#[tokio::test]
async fn a_change_wakes_the_own_watches() {
    let ranges = || {
        let bounds = Range::Between { start: key(""), end: Key::new(vec![0xFF; 1025]) };
        [Range::all(), Range::Key(key("k")), Range::Prefix(key("k")), bounds]
    };
    let changes = [
        Commit::new().set(key("k"), "v"),
        Commit::new().append(key("k"), "v"),
        Commit::new().delete_range(Range::all()),
    ];
    let clusters = clusters();
    let mut watches: Vec<Vec<Watch>> =
        clusters.iter().map(|cluster| ranges().map(|range| cluster.watch(range)).into()).collect();
    for (at, cluster) in clusters.iter().enumerate() {
        for change in &changes {
            cluster.commit(change.clone()).await.unwrap();
            for (of, watches) in watches.iter_mut().enumerate() {
                for watch in watches {
                    assert_eq!(is_woken(watch), at == of, "{change:?} of {cluster}, watched by {of}");
                }
            }
        }
    }
}

#[tokio::test]
async fn conflicts_and_items_show_the_own_keys() {
    let cluster = clusters().remove(0);
    cluster.commit(Commit::new().set(key("k"), "v").append(key("q"), "v")).await.unwrap();
    for (check, own) in [(Check::Absent(key("k")), "k"), (Check::Empty(key("q")), "q")] {
        let commit = Commit::new().check(Check::Present(key("k"))).check(check);
        match cluster.commit(commit).await {
            Err(CommitError::Conflict(Conflict::Check { index: 1, key: named })) => {
                assert_eq!(named, key(own));
            }
            other => panic!("{other:?}"),
        }
    }
    let ranges =
        [Range::Key(key("k")), Range::Prefix(key("k")), Range::Between { start: key("k"), end: key("l") }];
    for range in ranges {
        assert_eq!(keys(&cluster, &range).await, [key("k")]);
    }
}

#[tokio::test]
async fn limits_shrink_by_the_prefix() {
    let inner = MemoryStore::new().limits();
    for name in [name("a"), name("é"), longest_name()] {
        let prefix = Tuple::new().name(&name).key().len();
        let cluster = Prefixed::new(MemoryStore::new(), &name);
        assert_eq!(cluster.limits().key_bytes, inner.key_bytes - prefix);
        let longest = Key::new(vec![0xFF; inner.key_bytes - prefix]);
        cluster.commit(Commit::new().set(longest.clone(), "v").append(longest.clone(), "v")).await.unwrap();
        let own = std::slice::from_ref(&longest);
        assert_eq!(keys(&cluster, &Range::all()).await, own);
        assert_eq!(keys(&cluster, &Range::all().after(&key("a"))).await, own);
        assert_eq!(keys(&cluster, &Range::all().after(&longest)).await, []);
        let error = cluster.get(&longest.join(b"x")).await.unwrap_err();
        assert!(matches!(error, StoreError::TooLarge(_)), "{error}");
    }
}

#[tokio::test]
async fn whatever_a_cluster_admits_its_store_admits() {
    let cluster = Prefixed::new(Limited::new(MemoryStore::new(), Limits::PORTABLE), &longest_name());
    let limits = cluster.limits();
    let fixed = |at: usize| key(&format!("k{at:03}"));
    let share = limits.commit_bytes / limits.commit_operations - 4;
    let rest = limits.commit_bytes % limits.commit_operations;
    let fullest = (0..limits.commit_operations)
        .fold(Commit::new(), |all, at| all.set(fixed(at), vec![7; share + if at == 0 { rest } else { 0 }]));
    limits.admit_commit(&fullest).unwrap();
    cluster.commit(fullest.clone()).await.unwrap();
    let deletions = (0..limits.commit_operations / 2).fold(Commit::new(), |all, at| {
        all.delete_range(Range::Between { start: fixed(at), end: fixed(at).join(&[0; 1000]) })
    });
    cluster.commit(deletions).await.unwrap();
    let error = cluster.commit(fullest.check(Check::Absent(key("k")))).await.unwrap_err();
    assert!(matches!(error, CommitError::Failed(StoreError::TooLarge(_))), "{error}");
}

#[tokio::test]
async fn bounds_longer_than_any_key_work() {
    let cluster = Prefixed::new(MemoryStore::new(), &longest_name());
    let stem = vec![b'k'; cluster.limits().key_bytes];
    let longest = Key::new(stem.clone());
    cluster
        .commit(Commit::new().set(longest.clone(), "v").set(key("k"), "v").set(key("l"), "v"))
        .await
        .unwrap();
    let bound = |last: u8| {
        let mut bytes = stem.clone();
        bytes.resize(Limits::KEY_BYTES_MAX + 1, last);
        Key::new(bytes)
    };
    let between = |start: Key, end: Key| Range::Between { start, end };
    assert_eq!(keys(&cluster, &between(key("k"), bound(0))).await, [key("k"), longest.clone()]);
    assert_eq!(keys(&cluster, &between(bound(0), key("z"))).await, [key("l")]);
    assert_eq!(keys(&cluster, &between(bound(0), bound(0xFF))).await, []);
    cluster.commit(Commit::new().delete_range(between(bound(0), bound(0xFF)))).await.unwrap();
    cluster.commit(Commit::new().delete_range(between(key("k\0"), bound(0)))).await.unwrap();
    assert_eq!(keys(&cluster, &Range::all()).await, [key("k"), key("l")]);
}

#[tokio::test]
async fn clusters_nest() {
    let memory = Arc::new(MemoryStore::new());
    let outer = Arc::new(Prefixed::new(Arc::clone(&memory), &name("outer")));
    let inner = Prefixed::new(Arc::clone(&outer), &name("inner"));
    inner.commit(Commit::new().set(key("k"), "v")).await.unwrap();
    assert_eq!(keys(&inner, &Range::all()).await, [key("k")]);
    assert_eq!(keys(&*outer, &Range::all()).await, [Tuple::new().text("inner").key().join(b"k")]);
    assert_eq!(inner.to_string(), "inner in outer in memory");
}
