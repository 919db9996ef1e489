//! Bytes are bytes, in keys, lists and values. Obligation 11.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;

use crate::{
    Check, Commit, Key, Range, Store, StoreExt as _, Write,
    testkit::{Handles, tools::*},
};

/// Names that mean something to somebody: to SQL, to shells, to formats, to collations, to people.
const HOSTILE: &[&[u8]] = &[
    b"'",
    b"''",
    b"\"",
    b"`",
    b"'; DROP TABLE kv; --",
    b"' OR '1'='1",
    b"$1",
    b"?1",
    b":key",
    b"@p1",
    b"%",
    b"%%",
    b"_",
    b"a_",
    b"a%",
    b"ab",
    b"\\",
    b"\\\\",
    b"\\x00",
    b"\\0",
    b"\0",
    b"\0\0",
    b"a\0b",
    b"a\0",
    b"\xFF",
    b"\xFE\xFF",
    b"\xFF\xFE",
    b"\xC3\x28",
    b"\xED\xA0\x80",
    b"\xF8\x88\x80\x80\x80",
    b"a",
    b"A",
    b" ",
    b"a ",
    b"a  ",
    b" a",
    b"a\t",
    b"a\n",
    b"a\r\n",
    b"\r",
    b"1",
    b"01",
    b"1.0",
    b"1e0",
    b"-1",
    b"NULL",
    b"null",
    b"/",
    b"//",
    b"../",
    b"*",
    b"{}",
    b"{0}",
    b"%s",
    b"%n",
    b"\x1B[31m",
    "e\u{301}".as_bytes(),
    "é".as_bytes(),
    "É".as_bytes(),
    "e".as_bytes(),
    "ß".as_bytes(),
    "ss".as_bytes(),
    "ﬁ".as_bytes(),
    "fi".as_bytes(),
    "а".as_bytes(),
    "ａ".as_bytes(),
    "İ".as_bytes(),
    "i".as_bytes(),
    "ı".as_bytes(),
    "\u{200B}a".as_bytes(),
    "\u{FEFF}a".as_bytes(),
    "K".as_bytes(),
    "k".as_bytes(),
    "🦀".as_bytes(),
];

fn hostile() -> Vec<Key> {
    let names: BTreeSet<Key> = HOSTILE.iter().map(|bytes| Key::new(*bytes)).collect();
    names.into_iter().collect()
}

async fn set(store: &Arc<dyn Store>, names: &[Key]) {
    fill(store, names.iter().map(|name| Write::Set(name.clone(), name.to_bytes()))).await;
}

/// Hostile keys are all different keys, and come back as they are.
pub(in crate::testkit) async fn hostile_keys_are_just_keys(handles: Handles) {
    let store = handles.one();
    let names = hostile();
    set(store, &names).await;
    assert_eq!(keys(handles.nth(1), &Range::all()).await, names);
    for name in &names {
        assert_eq!(value(store, name).await, Some(name.to_bytes()), "{name}");
        assert_eq!(keys(store, &Range::Key(name.clone())).await, std::slice::from_ref(name));
        let starting = names.iter().filter(|other| other.strip_prefix(name).is_some()).cloned();
        assert_eq!(keys(store, &Range::Prefix(name.clone())).await, starting.collect::<Vec<_>>(), "{name}");
    }
}

/// Deleting a hostile key deletes that key alone.
pub(in crate::testkit) async fn deleting_a_hostile_key_deletes_it_alone(handles: Handles) {
    let store = handles.one();
    let mut names = hostile();
    set(store, &names).await;
    while let Some(name) = names.pop() {
        commit(store, Commit::new().check(Check::Present(name.clone())).delete(name.clone())).await;
        commit(store, Commit::new().check(Check::Absent(name))).await;
        assert_eq!(keys(store, &Range::all()).await, names);
    }
}

/// Hostile names of lists are all different lists.
pub(in crate::testkit) async fn hostile_lists_are_just_lists(handles: Handles) {
    let store = handles.one();
    let names = hostile();
    fill(store, names.iter().map(|name| Write::Append(name.clone(), name.to_bytes()))).await;
    for name in &names {
        assert_eq!(list(handles.nth(1), name).await, [name.to_bytes()], "{name}");
    }
    for name in &names {
        let id = ids(store, name).await.remove(0);
        commit(store, Commit::new().remove(name.clone(), id)).await;
        commit(store, Commit::new().check(Check::Empty(name.clone()))).await;
    }
}

/// Hostile values come back as they are, from keys and from lists.
pub(in crate::testkit) async fn hostile_values_are_just_values(handles: Handles) {
    let store = handles.one();
    let values: Vec<Bytes> = HOSTILE.iter().map(|bytes| Bytes::from_static(bytes)).collect();
    let name = |at: usize| key(&format!("k{at:03}"));
    fill(store, values.iter().enumerate().map(|(at, value)| Write::Set(name(at), value.clone()))).await;
    fill(store, values.iter().map(|value| Write::Append(key("list"), value.clone()))).await;
    let found = items(handles.nth(1), &Range::Prefix(key("k")), 100).await;
    assert_eq!(found.into_iter().map(|item| item.value).collect::<Vec<_>>(), values);
    assert_eq!(list(handles.nth(1), &key("list")).await, values);
}

/// A conflict names a hostile key as it is.
pub(in crate::testkit) async fn a_conflict_names_a_hostile_key(handles: Handles) {
    let store = handles.one();
    for name in hostile() {
        let refused = conflict(store, Commit::new().check(Check::Present(name.clone()))).await;
        assert_eq!(refused, (0, name));
    }
}

/// Every byte is a key, and their order is that of the numbers.
pub(in crate::testkit) async fn every_byte_is_a_key_in_order(handles: Handles) {
    let store = handles.one();
    let bytes: Vec<Key> = (0..=255_u8).map(|byte| Key::new(vec![byte])).collect();
    let pairs: Vec<Key> = (0..=255_u8).map(|byte| Key::new(vec![0x61, byte])).collect();
    set(store, &bytes).await;
    assert_eq!(keys(store, &Range::all()).await, bytes);
    set(store, &pairs).await;
    assert_eq!(keys(store, &between("a\0", "b")).await, pairs);
}

/// The longest keys are told apart by their last byte.
pub(in crate::testkit) async fn the_longest_keys_differ_in_their_last_byte(handles: Handles) {
    let store = handles.one();
    let stem = Key::new(vec![b'x'; store.limits().key_bytes - 1]);
    let mut names: Vec<Key> =
        [0, 1, 0x20, b'A', b'a', 0x7F, 0x80, 0xFF].map(|last| stem.join(&[last])).to_vec();
    names.insert(0, stem);
    set(store, &names).await;
    fill(store, names.iter().map(|name| Write::Append(name.clone(), name.to_bytes()))).await;
    for name in &names {
        assert_eq!(value(handles.nth(1), name).await, Some(name.to_bytes()));
        assert_eq!(list(handles.nth(1), name).await, [name.to_bytes()]);
    }
    assert_eq!(keys(store, &Range::all()).await, names);
    let paged = items(store, &Range::all(), 1).await.into_iter().map(|item| item.key);
    assert_eq!(paged.collect::<Vec<_>>(), names);
    commit(store, Commit::new().delete(names[3].clone())).await;
    names.remove(3);
    assert_eq!(keys(store, &Range::all()).await, names);
}

/// A value may be empty, and is then not absent.
pub(in crate::testkit) async fn an_empty_value_is_a_value(handles: Handles) {
    let store = handles.one();
    commit(store, Commit::new().set(key("k"), Bytes::new())).await;
    let found = store.get(&key("k")).await.unwrap().expect("it exists");
    assert_eq!(found.value, Bytes::new());
    commit(
        store,
        Commit::new().check(Check::Present(key("k"))).check(Check::Version(key("k"), found.version)),
    )
    .await;
    conflict(store, Commit::new().check(Check::Absent(key("k")))).await;
}

/// Values of all sizes, also the largest, come back byte for byte.
pub(in crate::testkit) async fn values_of_all_sizes_come_back(handles: Handles) {
    let store = handles.one();
    let largest = store.limits().value_bytes;
    let sizes = [1, 2, 127, 128, 255, 256, 4095, 4096, 65_535, 65_536, largest - 1, largest];
    for size in sizes.into_iter().filter(|size| *size <= largest) {
        let content: Vec<u8> = (0..size).map(|at| (at * 31 + at / 251 + size).to_le_bytes()[0]).collect();
        let content = Bytes::from(content);
        commit(store, Commit::new().set(key("k"), content.clone())).await;
        commit(store, Commit::new().append(key("l"), content.clone())).await;
        assert!(value(handles.nth(1), &key("k")).await.as_ref() == Some(&content), "a key of {size} bytes");
        assert!(list(handles.nth(1), &key("l")).await == [content], "an entry of {size} bytes");
        commit(store, Commit::new().delete_range(Range::Key(key("l")))).await;
    }
}
