//! Commits: all or nothing, and what each check means. Obligations 1 and 2.

use std::sync::Arc;

use crate::{
    Check, Commit, Key, Range, Read, Store, StoreExt as _, Version,
    testkit::{Handles, tools::*},
};

/// A version that no store reaches in a case.
const NEVER: Version = Version(u64::MAX >> 2);

/// A commit of one check, which writes nothing.
fn only(check: Check) -> Commit {
    Commit::new().check(check)
}

/// A key `there` and a list `full`, for the checks to meet; nothing else. Returns the key's version.
async fn furnish(store: &Arc<dyn Store>) -> Version {
    commit(store, Commit::new().set(key("there"), "v").append(key("full"), "e")).await.version
}

/// A value is read as it was written.
pub(in crate::testkit) async fn a_value_is_read_as_it_was_written(handles: Handles) {
    let store = handles.one();
    commit(store, Commit::new().set(key("k"), "v")).await;
    assert_eq!(value(store, &key("k")).await.unwrap(), "v");
}

/// A later value replaces an earlier one.
pub(in crate::testkit) async fn a_later_value_replaces_an_earlier_one(handles: Handles) {
    let store = handles.one();
    for text in ["a long first value", "short", "", "again"] {
        commit(store, Commit::new().set(key("k"), text)).await;
        assert_eq!(value(store, &key("k")).await.unwrap(), text);
    }
}

/// A deleted key is gone, for reads of the key and of its range.
pub(in crate::testkit) async fn a_deleted_key_is_gone(handles: Handles) {
    let store = handles.one();
    commit(store, Commit::new().set(key("k1"), "v").set(key("k2"), "v")).await;
    commit(store, Commit::new().delete(key("k1"))).await;
    assert_eq!(value(store, &key("k1")).await, None);
    let left = store.scan(&Range::Prefix(key("k")), 10).await.unwrap().items;
    assert_eq!(left.len(), 1, "only k2 is left, but: {left:?}");
    assert_eq!(left[0].key, key("k2"));
}

/// To delete a key, an entry or a range that is not there is fine, and the rest of the commit is made.
pub(in crate::testkit) async fn deleting_what_is_missing_is_fine(handles: Handles) {
    let store = handles.one();
    commit(store, Commit::new().append(key("l"), "e")).await;
    let entry = store.entries(&key("l"), 1).await.unwrap().items.remove(0).id;
    commit(store, Commit::new().remove(key("l"), entry.clone())).await;
    let nothing = Commit::new()
        .delete(key("missing"))
        .remove(key("l"), entry)
        .delete_range(Range::Prefix(key("none/")))
        .set(key("k"), "v");
    commit(store, nothing).await;
    assert_eq!(value(store, &key("k")).await.unwrap(), "v");
}

/// A commit that checks nothing and writes nothing is acknowledged.
pub(in crate::testkit) async fn an_empty_commit_is_acknowledged(handles: Handles) {
    let store = handles.one();
    furnish(store).await;
    commit(store, Commit::new()).await;
    assert_eq!(value(store, &key("there")).await.unwrap(), "v");
}

/// `Version` holds for the version that was written last.
pub(in crate::testkit) async fn version_holds_for_the_last_write(handles: Handles) {
    let store = handles.one();
    let mut version = furnish(store).await;
    for round in 0..5 {
        let next =
            Commit::new().check(Check::Version(key("there"), version)).set(key("there"), number(round));
        version = commit(store, next).await.version;
    }
    assert_eq!(value(store, &key("there")).await.unwrap(), number(4));
}

/// `Version` fails for an earlier version, for one never given, and for a key that is not there.
pub(in crate::testkit) async fn version_fails_for_any_other_version(handles: Handles) {
    let store = handles.one();
    let first = furnish(store).await;
    let second = commit(store, Commit::new().set(key("there"), "w")).await.version;
    let refused = [
        Check::Version(key("there"), first),
        Check::Version(key("there"), NEVER),
        Check::Version(key("there"), Version(0)),
        Check::Version(key("missing"), second),
        Check::Version(key("missing"), Version(0)),
        Check::Version(key("full"), first),
    ];
    for check in refused {
        assert_eq!(conflict(store, only(check.clone())).await, (0, check.key().clone()), "{check:?}");
    }
}

/// `Version` fails for a key that was deleted since.
pub(in crate::testkit) async fn version_fails_after_the_deletion(handles: Handles) {
    let store = handles.one();
    let version = furnish(store).await;
    commit(store, Commit::new().delete(key("there"))).await;
    conflict(store, only(Check::Version(key("there"), version))).await;
}

/// `Absent` holds where there is no key, and only there.
pub(in crate::testkit) async fn absent_holds_only_without_the_key(handles: Handles) {
    let store = handles.one();
    commit(store, only(Check::Absent(key("there")))).await;
    furnish(store).await;
    assert_eq!(conflict(store, only(Check::Absent(key("there")))).await, (0, key("there")));
    commit(store, Commit::new().delete(key("there"))).await;
    commit(store, only(Check::Absent(key("there")))).await;
}

/// `Empty` holds where a list has no entry, and only there.
pub(in crate::testkit) async fn empty_holds_only_without_entries(handles: Handles) {
    let store = handles.one();
    commit(store, only(Check::Empty(key("full")))).await;
    furnish(store).await;
    assert_eq!(conflict(store, only(Check::Empty(key("full")))).await, (0, key("full")));
    let entry = store.entries(&key("full"), 1).await.unwrap().items.remove(0);
    commit(store, Commit::new().remove(key("full"), entry.id)).await;
    commit(store, only(Check::Empty(key("full")))).await;
    commit(store, Commit::new().append(key("full"), "e")).await;
    commit(store, Commit::new().delete_range(Range::Prefix(key("fu")))).await;
    commit(store, only(Check::Empty(key("full")))).await;
}

/// A key and a list of the same name are two things, for checks and for writes.
pub(in crate::testkit) async fn a_key_and_a_list_of_one_name_do_not_meet(handles: Handles) {
    let store = handles.one();
    furnish(store).await;
    commit(store, only(Check::Absent(key("full"))).check(Check::Empty(key("there")))).await;
    conflict(store, only(Check::Present(key("full")))).await;
    commit(store, Commit::new().set(key("full"), "v").append(key("there"), "e")).await;
    commit(store, Commit::new().delete(key("full")).delete(key("there"))).await;
    assert_eq!(list(store, &key("full")).await, ["e"], "deleting a key leaves the list of its name");
    assert_eq!(list(store, &key("there")).await, ["e"], "deleting a key leaves the list of its name");
}

/// The check that failed is named by its place and its key, whatever its kind, among others that hold.
pub(in crate::testkit) async fn the_failed_check_is_named(handles: Handles) {
    let store = handles.one();
    let version = furnish(store).await;
    let holding = [
        Check::Version(key("there"), version),
        Check::Absent(key("missing")),
        Check::Present(key("there")),
        Check::Empty(key("none")),
    ];
    let failing = [
        Check::Version(key("there"), NEVER),
        Check::Version(key("missing"), version),
        Check::Absent(key("there")),
        Check::Present(key("missing")),
        Check::Empty(key("full")),
    ];
    for bad in failing {
        for place in 0..=holding.len() {
            let mut checks = holding.to_vec();
            checks.insert(place, bad.clone());
            let refused = conflict(store, Commit { checks: checks.clone(), writes: vec![] }).await;
            assert_eq!(refused, (place, bad.key().clone()), "of {checks:?}");
        }
    }
}

/// Of several checks that fail, one that failed is named.
pub(in crate::testkit) async fn one_of_several_failed_checks_is_named(handles: Handles) {
    let store = handles.one();
    furnish(store).await;
    let checks = vec![
        Check::Present(key("there")),
        Check::Empty(key("full")),
        Check::Absent(key("missing")),
        Check::Present(key("missing")),
        Check::Version(key("there"), NEVER),
    ];
    let (index, named) = conflict(store, Commit { checks: checks.clone(), writes: vec![] }).await;
    assert!([1, 3, 4].contains(&index), "check {index} of {checks:?} holds");
    assert_eq!(&named, checks[index].key());
}

/// A refused commit writes nothing: no key, no entry, no deletion.
pub(in crate::testkit) async fn a_refused_commit_writes_nothing(handles: Handles) {
    let store = handles.one();
    let version = furnish(store).await;
    let entry = store.entries(&key("full"), 1).await.unwrap().items.remove(0).id;
    let all = vec![
        Read::Range { range: Range::all(), limit: 100 },
        Read::List { list: key("full"), after: None, limit: 100 },
        Read::List { list: key("new"), after: None, limit: 100 },
    ];
    let before = store.read(all.clone()).await.unwrap();
    let writes = Commit::new()
        .set(key("there"), "changed")
        .set(key("fresh"), "made")
        .append(key("full"), "more")
        .append(key("new"), "first");
    let deletes = Commit::new().delete(key("there")).remove(key("full"), entry);
    let ranges = Commit::new().delete_range(Range::all());
    let failing = [
        Check::Version(key("there"), NEVER),
        Check::Absent(key("there")),
        Check::Present(key("missing")),
        Check::Empty(key("full")),
    ];
    for check in failing {
        for work in [&writes, &deletes, &ranges] {
            let refused = work.clone().check(Check::Version(key("there"), version)).check(check.clone());
            assert_eq!(conflict(store, refused.clone()).await.0, 1);
            assert_eq!(store.read(all.clone()).await.unwrap(), before, "{refused:?} was refused");
        }
    }
}

/// A commit of checks alone tells whether they hold, and changes nothing.
pub(in crate::testkit) async fn a_commit_of_checks_alone_changes_nothing(handles: Handles) {
    let store = handles.one();
    let version = furnish(store).await;
    let holding = only(Check::Version(key("there"), version))
        .check(Check::Present(key("there")))
        .check(Check::Absent(key("missing")))
        .check(Check::Empty(key("none")));
    for _ in 0..3 {
        commit(store, holding.clone()).await;
        conflict(store, holding.clone().check(Check::Absent(key("there")))).await;
    }
    let keys = store.scan(&Range::all(), 10).await.unwrap().items;
    assert_eq!(keys.len(), 1, "only `there` exists, but: {keys:?}");
    assert_eq!(keys[0].version, version, "nobody wrote it since");
}

/// Checks see the state before the commit, not what its own writes make of it.
pub(in crate::testkit) async fn checks_see_the_state_before_the_commit(handles: Handles) {
    let store = handles.one();
    let make = Commit::new()
        .check(Check::Absent(key("k")))
        .check(Check::Empty(key("l")))
        .set(key("k"), "v")
        .append(key("l"), "e");
    let made = commit(store, make.clone()).await.version;
    conflict(store, make).await;
    let take = Commit::new()
        .check(Check::Present(key("k")))
        .check(Check::Version(key("k"), made))
        .delete(key("k"))
        .delete_range(Range::Key(key("l")));
    commit(store, take.clone()).await;
    conflict(store, take).await;
    let unmade = [Check::Present(key("k")), Check::Version(key("k"), made)];
    for check in unmade {
        assert_eq!(conflict(store, only(check).set(key("k"), "v")).await, (0, key("k")));
    }
}

/// The same check twice, and different checks of one key, are fine.
pub(in crate::testkit) async fn a_check_may_be_made_twice(handles: Handles) {
    let store = handles.one();
    let version = furnish(store).await;
    let mut twice = Commit::new().set(key("there"), "w");
    for _ in 0..2 {
        twice = twice
            .check(Check::Version(key("there"), version))
            .check(Check::Present(key("there")))
            .check(Check::Absent(key("missing")))
            .check(Check::Empty(key("none")));
    }
    commit(store, twice.clone()).await;
    let (index, named) = conflict(store, twice).await;
    assert!([0, 4].contains(&index), "check {index} holds");
    assert_eq!(named, key("there"));
}

/// Writes of every kind in one commit are all made.
pub(in crate::testkit) async fn writes_of_every_kind_are_made_together(handles: Handles) {
    let store = handles.one();
    let before = Commit::new()
        .set(key("old"), "v")
        .set(key("range/k"), "v")
        .append(key("range/l"), "e")
        .append(key("l"), "first")
        .append(key("l"), "second");
    commit(store, before).await;
    let entry = store.entries(&key("l"), 1).await.unwrap().items.remove(0).id;
    let work = Commit::new()
        .set(key("new"), "v")
        .append(key("l"), "third")
        .delete(key("old"))
        .delete_range(Range::Prefix(key("range/")))
        .remove(key("l"), entry);
    commit(store, work).await;
    let keys: Vec<Key> =
        store.scan(&Range::all(), 10).await.unwrap().items.into_iter().map(|i| i.key).collect();
    assert_eq!(keys, [key("new")]);
    assert_eq!(list(store, &key("l")).await, ["second", "third"]);
    assert!(list(store, &key("range/l")).await.is_empty(), "its range was deleted");
}

/// A thousand keys, or as many as the store takes, are written and deleted at once.
pub(in crate::testkit) async fn a_commit_may_have_a_thousand_keys(handles: Handles) {
    let store = handles.one();
    let count = store.limits().commit_operations.min(1000);
    let keys: Vec<Key> = (0..count).map(|index| key(&format!("k{index:04}"))).collect();
    let made = keys.iter().fold(Commit::new(), |all, key| all.set(key.clone(), key.to_bytes()));
    let version = commit(store, made).await.version;
    for chunk in keys.chunks(store.limits().read_questions) {
        let found = store.read(chunk.iter().cloned().map(Read::Key).collect()).await.unwrap();
        for (index, key) in chunk.iter().enumerate() {
            let found = found.key(index).unwrap_or_else(|| panic!("{key} is missing"));
            assert_eq!((found.value.clone(), found.version), (key.to_bytes(), version), "{key}");
        }
    }
    commit(store, keys.iter().fold(Commit::new(), |all, key| all.delete(key.clone()))).await;
    let left = store.scan(&Range::all(), 10).await.unwrap().items;
    assert!(left.is_empty(), "all were deleted, but: {left:?}");
}

/// The last of a thousand checks, or of as many as the store takes, counts like the first.
pub(in crate::testkit) async fn a_commit_may_have_a_thousand_checks(handles: Handles) {
    let store = handles.one();
    let count = store.limits().commit_operations.min(1000) - 1;
    let check = |index| match index % 2 {
        0 => Check::Absent(key(&format!("c{index:04}"))),
        _ => Check::Empty(key(&format!("c{index:04}"))),
    };
    let checks: Vec<Check> = (0..count).map(check).collect();
    let last = checks[count - 1].key().clone();
    let work = Commit { checks, writes: vec![] }.set(key("k"), "v");
    commit(store, work.clone()).await;
    commit(store, Commit::new().set(last.clone(), "v").append(last.clone(), "e")).await;
    assert_eq!(conflict(store, work).await, (count - 1, last));
}
