//! `Present`: a guard that bears overwrites and ends with the deletion. Obligation 6.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::{
    Check, Commit, Key, Range, Store,
    testkit::{Handles, tools::*},
};

/// How often a worker works at most: so that a deletion that must wait for its turn gets it, on any store.
const STEPS_MAX: usize = 30;

/// A commit that is made only while `key` exists.
fn guarded(key: Key) -> Commit {
    Commit::new().check(Check::Present(key))
}

/// Overwrites `k` with what it read last, as one does who renews a lease. Never refused: nobody else writes `k`.
async fn renew(store: Arc<dyn Store>, times: u64) {
    let mut held = commit(&store, Commit::new().set(key("k"), number(0))).await.version;
    for count in 1..=times {
        let renewal = Commit::new().check(Check::Version(key("k"), held)).set(key("k"), number(count));
        held = commit(&store, renewal).await.version;
    }
}

/// `Present` holds where there is a key, and only there.
pub(in crate::testkit) async fn present_holds_only_with_the_key(handles: Handles) {
    let store = handles.one();
    assert_eq!(conflict(store, guarded(key("k"))).await, (0, key("k")));
    commit(store, Commit::new().append(key("k"), "a list is no key")).await;
    assert_eq!(conflict(store, guarded(key("k"))).await, (0, key("k")));
    commit(store, Commit::new().set(key("k"), "")).await;
    commit(store, guarded(key("k")).set(key("g"), "v")).await;
    assert_eq!(value(store, &key("g")).await.unwrap(), "v");
}

/// `Present` holds in whatever version the key is.
pub(in crate::testkit) async fn present_holds_in_any_version(handles: Handles) {
    for round in 0..8 {
        commit(handles.nth(round), Commit::new().set(key("k"), number(round as u64))).await;
        commit(handles.nth(round + 1), guarded(key("k")).append(key("l"), "e")).await;
    }
    assert_eq!(list(handles.one(), &key("l")).await.len(), 8);
}

/// A commit may overwrite or delete the very key that it wants present.
pub(in crate::testkit) async fn a_guarded_commit_may_write_its_guard(handles: Handles) {
    let store = handles.one();
    conflict(store, guarded(key("k")).set(key("k"), "v")).await;
    commit(store, Commit::new().set(key("k"), "v")).await;
    commit(store, guarded(key("k")).set(key("k"), "w")).await;
    assert_eq!(value(store, &key("k")).await.unwrap(), "w");
    commit(store, guarded(key("k")).delete(key("k"))).await;
    conflict(store, guarded(key("k")).delete(key("k"))).await;
}

/// Once the key was deleted, alone or in a range, guarded commits are refused on every handle.
pub(in crate::testkit) async fn present_fails_after_the_deletion(handles: Handles) {
    let unmakings = [Commit::new().delete(key("k")), Commit::new().delete_range(Range::Prefix(key("k")))];
    for unmake in unmakings {
        commit(handles.one(), Commit::new().set(key("k"), "v")).await;
        commit(handles.nth(1), guarded(key("k"))).await;
        commit(handles.nth(2), unmake).await;
        for index in 0..4 {
            let refused = conflict(handles.nth(index), guarded(key("k")).set(key("g"), "v")).await;
            assert_eq!(refused, (0, key("k")), "handle {index}");
        }
    }
    assert_eq!(value(handles.one(), &key("g")).await, None, "every guarded write was refused");
}

/// Once the key was made again, guarded commits are made again.
pub(in crate::testkit) async fn present_holds_after_a_new_start(handles: Handles) {
    for round in 0..8 {
        commit(handles.nth(round), Commit::new().set(key("k"), "v")).await;
        commit(handles.nth(round + 1), guarded(key("k")).set(key("g"), number(round as u64))).await;
        commit(handles.nth(round + 2), Commit::new().delete(key("k"))).await;
        conflict(handles.nth(round + 3), guarded(key("k")).set(key("g"), "late")).await;
    }
    assert_eq!(value(handles.one(), &key("g")).await.unwrap(), number(7));
}

/// Guarded commits never conflict with concurrent overwrites of the key, nor these with them.
pub(in crate::testkit) async fn present_bears_concurrent_overwrites(handles: Handles) {
    commit(handles.one(), Commit::new().set(key("k"), "v")).await;
    let renewing = tokio::spawn(renew(Arc::clone(handles.nth(3)), 60));
    let guards = (0..3).map(|guard| {
        let store = Arc::clone(handles.nth(guard));
        async move {
            for count in 0..34 {
                let mine = key(&format!("g{guard}"));
                commit(&store, guarded(key("k")).set(mine, number(count))).await;
            }
        }
    });
    all(guards).await;
    renewing.await.expect("a renewal is never refused");
    assert_eq!(value(handles.one(), &key("k")).await.unwrap(), number(60));
}

/// Many guarded commits at once are all made: one guard does not shut out another.
pub(in crate::testkit) async fn many_guards_hold_at_once(handles: Handles) {
    commit(handles.one(), Commit::new().set(key("k"), "v")).await;
    for round in 0..8 {
        let guards = (0..8).map(|guard| {
            let store = Arc::clone(handles.nth(guard));
            let mine = key(&format!("g{guard}"));
            async move { commit(&store, guarded(key("k")).set(mine, number(round))).await }
        });
        all(guards).await;
    }
}

/// Once a deletion was acknowledged no guarded commit happens any more, however many were on their way.
pub(in crate::testkit) async fn nothing_guarded_follows_the_deletion(handles: Handles) {
    for round in 0..8 {
        let (guard, work) = (key(&format!("k{round}")), key(&format!("w{round}")));
        commit(handles.one(), Commit::new().set(guard.clone(), "v")).await;
        let started = Arc::new(Notify::new());
        let workers = (1..4).map(|worker| {
            let (store, started) = (Arc::clone(handles.nth(worker)), Arc::clone(&started));
            let step = guarded(guard.clone()).append(work.clone(), number(worker as u64));
            async move {
                let mut made = 0;
                while made < STEPS_MAX && attempt(&store, step.clone()).await {
                    made += 1;
                    started.notify_one();
                    tokio::task::yield_now().await;
                }
                started.notify_one();
                made
            }
        });
        let working = tokio::spawn(all(workers.collect::<Vec<_>>()));
        started.notified().await;
        commit(handles.one(), Commit::new().delete(guard)).await;
        let at_deletion = list(handles.one(), &work).await.len();
        let made: usize = working.await.expect("workers end with the deletion").into_iter().sum();
        assert_eq!(made, at_deletion, "round {round}: guarded commits against what the deletion left");
        assert_eq!(list(handles.one(), &work).await.len(), at_deletion, "round {round}: one came late");
    }
}
