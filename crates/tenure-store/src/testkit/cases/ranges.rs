//! Ranges: what is in them, in which order, and how they are deleted.

use std::sync::Arc;

use crate::{
    Commit, Key, Range, Store, StoreExt as _, Version, Write,
    testkit::{Handles, tools::*},
};

/// Keys around everything that goes wrong with orders and prefixes, in byte order.
const EDGES: &[&[u8]] = &[
    b"\0",
    b"\0\0",
    b"\0\xFF",
    b" ",
    b"A",
    b"B",
    b"a",
    b"a\0",
    b"a\0\0",
    b"a ",
    b"aA",
    b"aa",
    b"ab",
    b"a\x7F",
    b"a\x80",
    b"a\xFF",
    b"a\xFF\0",
    b"a\xFF\xFF",
    b"b",
    b"\x7F",
    b"\x80",
    b"\xC3\xA9",
    b"\xFE",
    b"\xFE\xFF",
    b"\xFF",
    b"\xFF\0",
    b"\xFF\xFE",
    b"\xFF\xFF",
    b"\xFF\xFF\0",
    b"\xFF\xFF\xFF",
];

fn edges() -> Vec<Key> {
    EDGES.iter().map(|bytes| Key::new(*bytes)).collect()
}

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<Key> {
    numbers.into_iter().map(|number| key(&format!("k{number:04}"))).collect()
}

async fn set(store: &Arc<dyn Store>, keys: &[Key]) {
    fill(store, keys.iter().map(|key| Write::Set(key.clone(), key.to_bytes()))).await;
}

/// Ranges of every kind over the edges.
fn ranges() -> Vec<Range> {
    let prefixes: [&[u8]; 9] =
        [b"\0", b"\0\xFF", b"a", b"a\0", b"a\xFF", b"\xFE", b"\xFF", b"\xFF\xFF", b"x"];
    let bounds: [(&[u8], &[u8]); 8] = [
        (b"a", b"b"),
        (b"a\0", b"a\xFF"),
        (b"a\0", b"a\0\0"),
        (b"A", b"a"),
        (b"", b"a"),
        (b"\xFF", b"\xFF\xFF\xFF"),
        (b"\xFE\xFF\0", b"\xFF"),
        (b"c", b"d"),
    ];
    let prefixes = prefixes.into_iter().map(|prefix| Range::Prefix(Key::new(prefix)));
    let bounds = bounds.into_iter().map(|(start, end)| between(Key::new(start), Key::new(end)));
    let keys = edges().into_iter().step_by(4).map(Range::Key);
    prefixes.chain(bounds).chain(keys).chain([Range::all()]).collect()
}

/// Keys come in the order of their bytes, each with its value and version.
pub(in crate::testkit) async fn keys_come_in_byte_order(handles: Handles) {
    let store = handles.one();
    let mut backwards = edges();
    backwards.reverse();
    let version =
        commit(store, backwards.iter().fold(Commit::new(), |all, key| all.set(key.clone(), key.to_bytes())))
            .await
            .version;
    let found = items(handles.nth(1), &Range::all(), 100).await;
    assert_eq!(found.iter().map(|item| item.key.clone()).collect::<Vec<_>>(), edges());
    for item in found {
        assert_eq!((item.value, item.version), (item.key.to_bytes(), version), "{}", item.key);
    }
}

/// Every range holds just the keys that it says, whatever bytes are at its edges.
pub(in crate::testkit) async fn a_range_holds_what_it_says(handles: Handles) {
    let store = handles.one();
    set(store, &edges()).await;
    for range in ranges() {
        let expected: Vec<Key> = edges().into_iter().filter(|key| range.contains(key)).collect();
        assert_eq!(keys(store, &range).await, expected, "{range:?}");
    }
}

/// A range between two keys holds its start and not its end.
pub(in crate::testkit) async fn a_range_between_two_keys_holds_its_start_alone(handles: Handles) {
    let store = handles.one();
    set(store, &["a", "b", "b\0", "c", "c\0", "d"].map(key)).await;
    assert_eq!(keys(store, &between("b", "c")).await, ["b", "b\0"].map(key));
    assert_eq!(keys(store, &between("b\0", "c\0")).await, ["b\0", "c"].map(key));
    assert_eq!(keys(store, &between("b", "b\0")).await, ["b"].map(key));
    assert_eq!(keys(store, &between("", "a")).await, Vec::<Key>::new());
}

/// A range of one key holds that key, and none that it begins.
pub(in crate::testkit) async fn a_range_of_one_key_holds_that_key_alone(handles: Handles) {
    let store = handles.one();
    set(store, &["k", "k\0", "k2", "kk"].map(key)).await;
    assert_eq!(keys(store, &Range::Key(key("k"))).await, [key("k")]);
    assert_eq!(keys(store, &Range::Key(key("k1"))).await, Vec::<Key>::new());
    let page = store.scan(&Range::Key(key("k")), 1).await.unwrap();
    assert!(!page.more, "there is nothing behind the only key of a range");
}

/// `more` is true just when there is more in the range behind the page.
pub(in crate::testkit) async fn a_page_of_a_range_says_whether_there_is_more(handles: Handles) {
    let store = handles.one();
    set(store, &["a", "p1", "p2", "p3", "p4", "z"].map(key)).await;
    for range in [Range::Prefix(key("p")), between("p", "q"), between("p1", "z")] {
        for (limit, count, more) in [(1, 1, true), (3, 3, true), (4, 4, false), (5, 4, false)] {
            let page = store.scan(&range, limit).await.unwrap();
            assert_eq!((page.items.len(), page.more), (count, more), "{limit} of {range:?}");
        }
    }
    let page = store.scan(&Range::Prefix(key("none")), 1).await.unwrap();
    assert_eq!((page.items.len(), page.more), (0, false));
}

/// Paging visits every key of a range once, in pages of any size.
pub(in crate::testkit) async fn pages_of_a_range_visit_every_key_once(handles: Handles) {
    let store = handles.one();
    set(store, &edges()).await;
    for range in ranges() {
        let expected: Vec<Key> = edges().into_iter().filter(|key| range.contains(key)).collect();
        for limit in [1, 3] {
            let visited = items(store, &range, limit).await.into_iter().map(|item| item.key);
            assert_eq!(visited.collect::<Vec<_>>(), expected, "{range:?} in pages of {limit}");
        }
    }
}

/// Paging visits what was there all the time once, though keys come and go behind and before it.
pub(in crate::testkit) async fn paging_goes_on_while_keys_come_and_go(handles: Handles) {
    let store = handles.one();
    let steady = numbered((0..60).step_by(2));
    set(store, &steady).await;
    let mut rest = Range::Prefix(key("k"));
    let mut visited: Vec<Key> = Vec::new();
    loop {
        let page = store.scan(&rest, 4).await.unwrap();
        let last = page.items.last().unwrap().key.clone();
        visited.extend(page.items.into_iter().map(|item| item.key));
        if !page.more {
            break;
        }
        let churn =
            Commit::new().set(last.join(b"behind"), "v").set(key("k").join(b"\0"), "v").delete(last.clone());
        commit(handles.nth(1), churn).await;
        commit(handles.nth(1), Commit::new().delete(last.join(b"behind"))).await;
        rest = rest.after(&last);
    }
    assert_eq!(visited, steady);
}

/// A range whose start is not below its end holds nothing, and deletes nothing.
pub(in crate::testkit) async fn an_empty_range_holds_nothing(handles: Handles) {
    let store = handles.one();
    let names = ["a", "b", "c"].map(key);
    set(store, &names).await;
    fill(store, names.iter().map(|list| Write::Append(list.clone(), number(1)))).await;
    for range in [between("b", "b"), between("c", "a"), between("b", ""), between("", "")] {
        let page = store.scan(&range, 10).await.unwrap();
        assert_eq!((page.items.len(), page.more), (0, false), "{range:?}");
        commit(store, Commit::new().delete_range(range.clone()).set(key("b"), "v")).await;
        assert_eq!(keys(store, &Range::all()).await, names, "{range:?} was deleted");
        assert_eq!(list(store, &key("b")).await.len(), 1, "{range:?} was deleted");
    }
}

/// A range shows keys, and no lists.
pub(in crate::testkit) async fn a_range_shows_no_lists(handles: Handles) {
    let store = handles.one();
    fill(store, ["a", "b", "c"].map(|list| Write::Append(key(list), number(1)))).await;
    for range in [Range::all(), Range::Prefix(key("b")), Range::Key(key("b")), between("a", "z")] {
        assert_eq!(keys(store, &range).await, Vec::<Key>::new(), "{range:?}");
    }
    set(store, &[key("b")]).await;
    assert_eq!(keys(store, &Range::all()).await, [key("b")]);
}

/// Deleting a range deletes the keys and the lists in it, and nothing outside of it.
pub(in crate::testkit) async fn deleting_a_range_deletes_what_is_in_it_alone(handles: Handles) {
    let store = handles.one();
    for range in ranges() {
        set(store, &edges()).await;
        commit(store, edges().into_iter().fold(Commit::new(), |all, list| all.append(list, number(1)))).await;
        commit(handles.nth(1), Commit::new().delete_range(range.clone())).await;
        let left: Vec<Key> = edges().into_iter().filter(|key| !range.contains(key)).collect();
        assert_eq!(keys(store, &Range::all()).await, left, "keys after deleting {range:?}");
        assert_eq!(lists(store).await, left, "lists after deleting {range:?}");
        commit(store, Commit::new().delete_range(Range::all())).await;
        assert_eq!(lists(store).await, Vec::<Key>::new());
    }
}

/// Those of the edges that are lists with just one entry.
async fn lists(store: &Arc<dyn Store>) -> Vec<Key> {
    let mut found = Vec::new();
    for name in edges() {
        match list(store, &name).await.len() {
            0 => {}
            1 => found.push(name),
            count => panic!("{count} entries in {name}"),
        }
    }
    found
}

/// Everything, keys and lists, is gone after deleting the range of everything, however much it was.
pub(in crate::testkit) async fn deleting_everything_leaves_nothing(handles: Handles) {
    let store = handles.one();
    let many = numbered(0..500);
    set(store, &many).await;
    fill(store, many.iter().map(|list| Write::Append(list.clone(), number(1)))).await;
    set(store, &[Key::new(vec![0]), Key::new(vec![0xFF; store.limits().key_bytes])]).await;
    commit(handles.nth(1), Commit::new().delete_range(Range::all())).await;
    assert_eq!(keys(store, &Range::all()).await, Vec::<Key>::new());
    for name in many.iter().step_by(50) {
        assert_eq!(list(store, name).await.len(), 0, "{name}");
    }
}

/// One commit deletes ranges that touch each other, and writes beside them.
pub(in crate::testkit) async fn ranges_beside_each_other_go_in_one_commit(handles: Handles) {
    let store = handles.one();
    set(store, &["a", "b", "c", "d", "e"].map(key)).await;
    let change = Commit::new()
        .delete_range(between("b", "c"))
        .delete_range(between("c", "d"))
        .set(key("d"), "new")
        .delete(key("a"));
    commit(store, change).await;
    assert_eq!(keys(store, &Range::all()).await, ["d", "e"].map(key));
    assert_eq!(value(store, &key("d")).await.unwrap(), "new");
}

/// A deleted range can be filled again, with greater versions and fresh lists.
pub(in crate::testkit) async fn a_deleted_range_can_be_filled_again(handles: Handles) {
    let (range, names) = (Range::Prefix(key("k")), numbered(0..5));
    let mut last = Version(0);
    for round in 0..5 {
        let store = handles.nth(round);
        let change = names.iter().fold(Commit::new(), |all, name| {
            all.set(name.clone(), number(round as u64)).append(name.clone(), number(round as u64))
        });
        let version = commit(store, change).await.version;
        assert!(version > last, "round {round}: {version:?} after {last:?}");
        last = version;
        for item in items(handles.nth(round + 1), &range, 10).await {
            assert_eq!((to_number(&item.value), item.version), (round as u64, version), "{}", item.key);
            assert_eq!(list(store, &item.key).await, [number(round as u64)]);
        }
        commit(store, Commit::new().delete_range(range.clone())).await;
        assert_eq!(keys(handles.nth(round + 1), &range).await, Vec::<Key>::new());
    }
}
