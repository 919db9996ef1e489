//! Versions: they grow, and none is ever used twice for a key. Obligation 5.

use std::sync::Arc;

use crate::{
    Check, Commit, Key, Range, Read, Store, StoreExt as _, Version,
    testkit::{Handles, tools::*},
};

/// The version of a key that exists.
async fn version(store: &Arc<dyn Store>, key: &Key) -> Version {
    store.get(key).await.unwrap().unwrap_or_else(|| panic!("{key} is missing")).version
}

/// Makes the key and has `unmake` delete it, many times over all handles; each time the version must have grown.
async fn make_and_unmake(handles: &Handles, unmake: Commit) {
    let mut last = None;
    for round in 0..24 {
        let made = commit(handles.nth(round), Commit::new().set(key("k/1"), "v")).await.version;
        assert!(Some(made) > last, "round {round}: {made:?} after {last:?}");
        assert_eq!(version(handles.nth(round + 1), &key("k/1")).await, made, "round {round}");
        last = Some(made);
        commit(handles.nth(round + 2), unmake.clone()).await;
        assert_eq!(value(handles.one(), &key("k/1")).await, None, "round {round}");
    }
}

/// Each write of a key gives it a greater version, whichever handle makes it.
pub(in crate::testkit) async fn a_version_grows_with_each_write(handles: Handles) {
    let mut last = None;
    for round in 0..24 {
        let store = handles.nth(round);
        let written = commit(store, Commit::new().set(key("k"), number(round as u64))).await.version;
        assert!(Some(written) > last, "round {round}: {written:?} after {last:?}");
        assert_eq!(version(handles.nth(round + 1), &key("k")).await, written, "round {round}");
        last = Some(written);
    }
}

/// To write the same value again is a write: the version grows.
pub(in crate::testkit) async fn a_version_grows_though_the_value_stays(handles: Handles) {
    let store = handles.one();
    let first = commit(store, Commit::new().set(key("k"), "v")).await.version;
    let second = commit(store, Commit::new().set(key("k"), "v")).await.version;
    assert!(second > first, "{second:?} after {first:?}");
    assert_eq!(version(store, &key("k")).await, second);
    conflict(store, Commit::new().check(Check::Version(key("k"), first))).await;
}

/// All keys that a commit writes get the version in its receipt, new ones and old ones, however they are read.
pub(in crate::testkit) async fn a_receipt_tells_the_version_of_every_key(handles: Handles) {
    let store = handles.one();
    for round in 0..5 {
        commit(store, Commit::new().set(key("old/b"), number(round))).await;
    }
    commit(store, Commit::new().set(key("old/a"), "v").append(key("l"), "e")).await;
    let keys = [key("new/a"), key("new/b"), key("old/a"), key("old/b")];
    let work = keys.iter().fold(Commit::new(), |all, key| all.append(key.clone(), "e").set(key.clone(), "w"));
    let receipt = commit(store, work.append(key("l"), "e")).await;
    for key in &keys {
        assert_eq!(version(store, key).await, receipt.version, "{key}");
    }
    for item in store.scan(&Range::all(), 10).await.unwrap().items {
        assert_eq!(item.version, receipt.version, "{} in a range", item.key);
    }
    let checked =
        keys.iter().fold(Commit::new(), |all, key| all.check(Check::Version(key.clone(), receipt.version)));
    commit(store, checked).await;
}

/// A key that was deleted and made again has a version that it never had.
pub(in crate::testkit) async fn no_version_is_reused_after_a_delete(handles: Handles) {
    make_and_unmake(&handles, Commit::new().delete(key("k/1"))).await;
}

/// The same when the key was deleted as one of a range.
pub(in crate::testkit) async fn no_version_is_reused_after_a_deleted_range(handles: Handles) {
    make_and_unmake(&handles, Commit::new().delete_range(Range::Prefix(key("k/")))).await;
}

/// The same when nothing at all was left in the store.
pub(in crate::testkit) async fn no_version_is_reused_after_everything_was_deleted(handles: Handles) {
    make_and_unmake(&handles, Commit::new().delete_range(Range::all())).await;
}

/// A version from before the deletion is refused, though the key has the same value again.
pub(in crate::testkit) async fn a_stale_version_is_refused_after_a_new_start(handles: Handles) {
    let make = Commit::new().set(key("k"), "v");
    let unmakings = [Commit::new().delete(key("k")), Commit::new().delete_range(Range::Key(key("k")))];
    for (round, unmake) in unmakings.into_iter().cycle().take(8).enumerate() {
        let stale = commit(handles.nth(round), make.clone()).await.version;
        commit(handles.nth(round + 1), unmake).await;
        commit(handles.nth(round + 2), make.clone()).await;
        let late = Commit::new().check(Check::Version(key("k"), stale)).set(key("k"), "late");
        assert_eq!(conflict(handles.nth(round), late).await, (0, key("k")), "round {round}");
        assert_eq!(value(handles.one(), &key("k")).await.unwrap(), "v");
    }
}

/// What others write, the list of the same name included, leaves a key's version as it is.
pub(in crate::testkit) async fn other_writes_leave_a_version_alone(handles: Handles) {
    let store = handles.one();
    let written = commit(store, Commit::new().set(key("k"), "v")).await.version;
    let entry = Commit::new().append(key("k"), "e");
    let others = [
        entry,
        Commit::new().set(key("k2"), "v"),
        Commit::new().set(key("j"), "v").delete(key("k2")),
        Commit::new().delete_range(Range::Prefix(key("k2"))),
        Commit::new().check(Check::Present(key("k"))).check(Check::Version(key("k"), written)),
        Commit::new(),
    ];
    for other in others {
        commit(handles.nth(1), other.clone()).await;
        assert_eq!(version(store, &key("k")).await, written, "after {other:?}");
    }
    commit(store, Commit::new().check(Check::Version(key("k"), written))).await;
}

/// A refused write leaves the key's version as it is.
pub(in crate::testkit) async fn a_refused_write_leaves_the_version_alone(handles: Handles) {
    let store = handles.one();
    let written = commit(store, Commit::new().set(key("k"), "v")).await.version;
    for _ in 0..5 {
        conflict(store, Commit::new().check(Check::Absent(key("k"))).set(key("k"), "w")).await;
        assert_eq!(version(store, &key("k")).await, written);
    }
    commit(store, Commit::new().check(Check::Version(key("k"), written)).set(key("k"), "w")).await;
}

/// A key shows the same version to a read of the key and of a range, on every handle.
pub(in crate::testkit) async fn every_read_shows_the_same_version(handles: Handles) {
    for round in 0..8 {
        let written = commit(handles.nth(round), Commit::new().set(key("k"), "v")).await.version;
        for index in 0..4 {
            let range = Read::Range { range: Range::all(), limit: 1 };
            let seen = handles.nth(index).read(vec![Read::Key(key("k")), range]).await.unwrap();
            assert_eq!(seen.key(0).unwrap().version, written, "handle {index}, round {round}");
            assert_eq!(seen.range(1).items[0].version, written, "handle {index}, round {round}");
        }
    }
}

/// Of many concurrent writers who all read the same version, one wins, and its value is the one that stays.
pub(in crate::testkit) async fn one_of_many_writers_of_a_version_wins(handles: Handles) {
    let mut read = commit(handles.one(), Commit::new().set(key("k"), "v")).await.version;
    for round in 0..16 {
        let writers = (0..8).map(|writer| {
            let store = Arc::clone(handles.nth(writer));
            let work =
                Commit::new().check(Check::Version(key("k"), read)).set(key("k"), number(writer as u64));
            async move { attempt(&store, work).await }
        });
        let won: Vec<usize> =
            all(writers).await.into_iter().enumerate().filter_map(|(at, won)| won.then_some(at)).collect();
        assert_eq!(won.len(), 1, "round {round}: these writers won: {won:?}");
        let stayed = handles.one().get(&key("k")).await.unwrap().unwrap();
        assert_eq!(to_number(&stayed.value), won[0] as u64, "round {round}: another value stayed");
        assert!(stayed.version > read, "round {round}: {:?} after {read:?}", stayed.version);
        read = stayed.version;
    }
}
