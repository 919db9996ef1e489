//! Watches: no change is missed. Obligation 8.
//!
//! No case asks that a watch stays asleep: a waking is a hint, and may be for nothing.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
};

use crate::{
    Commit, Range, Read, Snapshot, Store, StoreExt as _, Watch,
    testkit::{HANDLES, Handles, tools::*},
};

/// The name of what changes in most cases.
const NAME: &str = "k/b";

/// Ranges of every kind around [`NAME`].
fn ranges() -> [Range; 6] {
    [
        Range::Key(key(NAME)),
        Range::Prefix(key("k/")),
        Range::Prefix(key(NAME)),
        between("k/a", "k/c"),
        between(NAME, "k/b\0"),
        Range::all(),
    ]
}

async fn look(store: &Arc<dyn Store>) -> Snapshot {
    let list = Read::List { list: key(NAME), after: None, limit: 10 };
    store.read(vec![Read::Key(key(NAME)), list]).await.unwrap()
}

/// Waits until what is at [`NAME`] is no more what it was. Woken for nothing, it goes on waiting.
async fn follow(store: Arc<dyn Store>, mut watch: Watch, before: Snapshot) {
    loop {
        woken(&mut watch).await;
        if look(&store).await != before {
            return;
        }
    }
}

/// Makes a change through one handle while all others watch and wait, for every kind of range.
async fn all_see(handles: &Handles, before: Commit, change: Commit) {
    for range in ranges() {
        commit(handles.one(), before.clone()).await;
        let mut followers = Vec::new();
        for at in 0..HANDLES {
            let store = Arc::clone(handles.nth(at));
            let watch = store.watch(range.clone());
            let before = look(&store).await;
            followers.push(follow(store, watch, before));
        }
        let followers = tokio::spawn(all(followers));
        commit(handles.one(), change.clone()).await;
        followers.await.unwrap();
        commit(handles.one(), Commit::new().delete_range(Range::all())).await;
    }
}

/// Setting a key wakes, in every kind of range and through every handle.
pub(in crate::testkit) async fn a_set_wakes(handles: Handles) {
    all_see(&handles, Commit::new(), Commit::new().set(key(NAME), "v")).await;
    all_see(&handles, Commit::new().set(key(NAME), "v"), Commit::new().set(key(NAME), "v")).await;
}

/// Deleting a key wakes.
pub(in crate::testkit) async fn a_deletion_wakes(handles: Handles) {
    all_see(&handles, Commit::new().set(key(NAME), "v"), Commit::new().delete(key(NAME))).await;
}

/// Deleting a range wakes for the keys in it.
pub(in crate::testkit) async fn the_deletion_of_a_range_wakes_for_its_keys(handles: Handles) {
    for range in [Range::Key(key(NAME)), Range::Prefix(key("k/b")), between("k/", "k/bb"), Range::all()] {
        all_see(&handles, Commit::new().set(key(NAME), "v"), Commit::new().delete_range(range)).await;
    }
}

/// Deleting a range wakes for the lists in it.
pub(in crate::testkit) async fn the_deletion_of_a_range_wakes_for_its_lists(handles: Handles) {
    let append = Commit::new().append(key(NAME), "v");
    all_see(&handles, append.clone(), Commit::new().delete_range(Range::Prefix(key("k")))).await;
    all_see(&handles, append, Commit::new().delete_range(between("k", "l"))).await;
}

/// Appending to a list wakes.
pub(in crate::testkit) async fn an_append_wakes(handles: Handles) {
    all_see(&handles, Commit::new(), Commit::new().append(key(NAME), "v")).await;
}

/// Taking an entry out of a list wakes.
pub(in crate::testkit) async fn a_removal_wakes(handles: Handles) {
    for range in ranges() {
        commit(handles.one(), Commit::new().append(key(NAME), "v")).await;
        let id = ids(handles.one(), &key(NAME)).await.remove(0);
        let store = Arc::clone(handles.nth(1));
        let watch = store.watch(range);
        let before = look(&store).await;
        let follower = tokio::spawn(follow(store, watch, before));
        commit(handles.one(), Commit::new().remove(key(NAME), id)).await;
        follower.await.unwrap();
    }
}

/// One write among many of a commit wakes whom it concerns.
pub(in crate::testkit) async fn one_write_among_many_wakes(handles: Handles) {
    let change = (0..50).fold(Commit::new(), |all, at| all.set(key(&format!("other{at}")), "v"));
    let change = change.append(key(NAME), "v").delete(key("none")).set(key("last"), "v");
    all_see(&handles, Commit::new(), change).await;
}

/// A change wakes a watch that nobody waited on at the time.
pub(in crate::testkit) async fn a_change_before_the_wait_wakes(handles: Handles) {
    for at in 0..HANDLES {
        let mut watch = handles.nth(at).watch(Range::Key(key(NAME)));
        commit(handles.one(), Commit::new().set(key(NAME), "v")).await;
        woken(&mut watch).await;
    }
}

/// A change that races with the making of a watch is seen by the read behind it, or wakes it.
pub(in crate::testkit) async fn a_change_while_a_watch_is_made_is_not_missed(handles: Handles) {
    for round in 0..100 {
        let name = key(&format!("k{round}"));
        let (writer, reader) = (Arc::clone(handles.nth(round)), handles.nth(round / 2));
        let change = Commit::new().set(name.clone(), "v");
        let writing = tokio::spawn(async move { commit(&writer, change).await });
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
        let mut watch = reader.watch(Range::Key(name.clone()));
        while value(reader, &name).await.is_none() {
            woken(&mut watch).await;
        }
        writing.await.unwrap();
    }
}

/// Dropping a wait loses no waking, whether it had come yet or not.
pub(in crate::testkit) async fn a_dropped_wait_loses_no_waking(handles: Handles) {
    for round in 0..20 {
        let mut watch = handles.nth(round).watch(Range::Key(key(NAME)));
        let change = Commit::new().set(key(NAME), number(round as u64));
        {
            let mut wait = pin!(watch.changed());
            let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            commit(handles.nth(round / 2), change.clone()).await;
        }
        for _ in 0..3 {
            let wait = pin!(watch.changed());
            if wait.poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                commit(handles.one(), change.clone()).await;
            }
        }
        woken(&mut watch).await;
    }
}

/// Many changes may be one waking, but whoever reads after each sees the last.
pub(in crate::testkit) async fn the_last_of_many_changes_is_seen(handles: Handles) {
    const CHANGES: u64 = 200;
    let followers = (0..HANDLES).map(|at| {
        let store = Arc::clone(handles.nth(at));
        async move {
            let mut watch = store.watch(Range::Prefix(key("k/")));
            let mut last = 0;
            while last < CHANGES {
                let seen = value(&store, &key(NAME)).await.map_or(0, |value| to_number(&value));
                assert!(seen >= last, "handle {at} saw {seen} after {last}");
                last = seen;
                if last < CHANGES {
                    woken(&mut watch).await;
                }
            }
        }
    });
    let followers = tokio::spawn(all(followers.collect::<Vec<_>>()));
    for change in 1..=CHANGES {
        commit(handles.one(), Commit::new().set(key(NAME), number(change))).await;
        tokio::task::yield_now().await;
    }
    followers.await.unwrap();
}

/// Among thousands of watches, those that a change concerns wake.
pub(in crate::testkit) async fn the_right_ones_of_many_watches_wake(handles: Handles) {
    let store = handles.one();
    let name = |at: usize| key(&format!("k{at:04}"));
    let mut watches: Vec<Watch> = (0..2000).map(|at| store.watch(Range::Key(name(at)))).collect();
    for at in (0..2000).step_by(97) {
        let before = store.get(&name(at)).await.unwrap();
        commit(handles.nth(at), Commit::new().set(name(at), "v")).await;
        assert_ne!(store.get(&name(at)).await.unwrap(), before);
        woken(&mut watches[at]).await;
    }
}

/// Every one of several watches over the same thing wakes.
pub(in crate::testkit) async fn every_watch_of_one_key_wakes(handles: Handles) {
    let mut watches: Vec<Watch> = (0..40).map(|at| handles.nth(at).watch(ranges()[at % 6].clone())).collect();
    commit(handles.one(), Commit::new().set(key(NAME), "v")).await;
    for watch in &mut watches {
        woken(watch).await;
    }
}

/// A watch that was dropped, waited on or not, harms no other.
pub(in crate::testkit) async fn a_dropped_watch_harms_nobody(handles: Handles) {
    for range in ranges() {
        let mut kept = handles.nth(1).watch(range.clone());
        let mut waited = handles.nth(1).watch(range.clone());
        {
            let wait = pin!(waited.changed());
            let _ = wait.poll(&mut Context::from_waker(Waker::noop()));
        }
        drop([handles.nth(1).watch(range.clone()), handles.nth(1).watch(Range::all()), waited]);
        let before = value(handles.nth(1), &key(NAME)).await.map_or(0, |value| to_number(&value));
        commit(handles.one(), Commit::new().set(key(NAME), number(before + 1))).await;
        woken(&mut kept).await;
        let mut late = handles.nth(1).watch(range);
        commit(handles.one(), Commit::new().set(key(NAME), number(before + 2))).await;
        woken(&mut late).await;
    }
}

/// A watch goes on waking, change after change.
pub(in crate::testkit) async fn a_watch_wakes_again_and_again(handles: Handles) {
    for range in ranges() {
        let mut watch = handles.nth(1).watch(range);
        for change in 1..=10 {
            commit(handles.one(), Commit::new().set(key(NAME), number(change))).await;
            woken(&mut watch).await;
        }
    }
}
