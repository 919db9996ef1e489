//! One test for each promise.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tenure_server::state::{ItemId, List, Map, State, StateError, Stored, Whole};
use tenure_store::{Bytes, Key, Tuple, Write};

use crate::{CHUNK_BYTES, Shop, commit, field, key, nothing_stale, root, stored};

thread_local! {
    static ENCODED: Cell<usize> = const { Cell::new(0) };
}

/// A number that counts how often one was encoded.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted(u32);

impl Serialize for Counted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ENCODED.set(ENCODED.get() + 1);
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(Self)
    }
}

#[derive(Default, State)]
struct Large {
    #[state(parts)]
    map: Map<u32, Counted>,
    #[state(parts)]
    list: List<Counted>,
}

#[test]
fn one_change_among_100_000_is_one_small_write() {
    let all = 0..100_000;
    let state =
        Large { map: all.clone().map(|n| (n, Counted(n))).collect(), list: all.map(Counted).collect() };
    let (_, shelf) = stored(state);
    let mut large = shelf.load::<Large>().unwrap();
    type Change = fn(&mut Large);
    let changes: [(&str, Change); 7] = [
        ("an entry is changed", |large| large.map.get_mut(&77_777).unwrap().0 += 1),
        ("an entry comes", |large| assert_eq!(large.map.insert(500_000, Counted(1)), None)),
        ("an entry goes", |large| assert_eq!(large.map.remove(&5), Some(Counted(5)))),
        ("an item is changed", |large| large.list.get_mut(50_000).unwrap().0 += 1),
        ("an item comes", |large| assert_eq!(large.list.insert(50_000, Counted(7)).number(), 100_000)),
        ("an item goes", |large| assert!(large.list.remove(40_000).is_some())),
        ("an item moves", |large| assert!(large.list.move_to(ItemId::new(10), 90_000))),
    ];
    for (what, change) in changes {
        ENCODED.set(0);
        change(large.get_mut());
        assert_eq!(large.dirty(), 1, "{what}");
        let writes = large.changes().unwrap();
        assert!(ENCODED.get() <= 2, "{what}: {} values were encoded", ENCODED.get());
        let bytes = |write: &Write| {
            write.range().start().len() + if let Write::Set(_, value) = write { value.len() } else { 0 }
        };
        assert!(writes.len() == 1 && bytes(&writes[0]) < 100, "{what}: {writes:?}");
        large.keep();
    }
}

#[test]
fn what_is_the_same_again_is_not_written() {
    let (mut shop, _) =
        stored(Shop { stock: [("tea".into(), "2".into())].into_iter().collect(), ..Shop::default() });
    shop.get_mut().stock.insert("tea".into(), "3".into());
    shop.get_mut().stock.insert("tea".into(), "2".into());
    shop.get_mut().stock.insert("salt".into(), "1".into());
    shop.get_mut().stock.remove("salt");
    shop.get_mut().name.push('x');
    shop.get_mut().name.clear();
    let id = shop.get_mut().orders.push_back("gone again".into());
    shop.get_mut().orders.remove_id(id);
    let next = key(Tuple::new().text("orders").text("next"));
    assert!(matches!(&shop.changes().unwrap()[..], [Write::Set(key, _)] if *key == next));
}

#[test]
fn a_value_grows_into_chunks_and_shrinks_again() {
    let (mut shop, mut shelf) = stored(Shop::default());
    let (small, empty) = (shelf.0.len(), shop.weight());
    for length in [1000, 100, 300, 10, 63, 64, 0] {
        let text = "x".repeat(length);
        shop.get_mut().name.clone_from(&text);
        shop.get_mut().stock.insert("tea".into(), text.clone());
        let id = shop.get_mut().orders.push_back(text.clone());
        commit(&mut shop, &mut shelf);
        nothing_stale(&shop, &shelf);
        assert!(shelf.0.values().all(|value| value.len() <= CHUNK_BYTES));
        let mut again = shelf.load::<Shop>().unwrap();
        assert_eq!(again.get(), shop.get());
        // Whoever loads it with another size of chunks leaves nothing behind either.
        let mut other = Stored::<Shop>::load(root(), 200, shelf.items()).unwrap();
        other.get_mut().name.push('y');
        other.get_mut().stock.remove("tea");
        other.get_mut().orders.remove_id(id);
        let mut copy = shelf.clone();
        commit(&mut other, &mut copy);
        assert_eq!(copy.load::<Shop>().unwrap().get(), other.get());
        again.get_mut().orders.remove_id(id);
        commit(&mut again, &mut shelf);
        shop = again;
    }
    shop.get_mut().stock.clear();
    commit(&mut shop, &mut shelf);
    assert_eq!(shelf.0.len(), small + 1, "all that is left is which ids were given: {shelf:?}");
    assert!(shop.weight() - empty < 100);
}

#[test]
fn an_id_is_never_given_again() {
    let (mut list, mut shelf) = stored(List::<u8>::new());
    let first = list.get_mut().push_back(1);
    commit(&mut list, &mut shelf);
    list.get_mut().remove_id(first);
    commit(&mut list, &mut shelf);
    let mut list = shelf.load::<List<u8>>().unwrap();
    assert_ne!(list.get_mut().push_back(2), first);
}

#[test]
fn many_changes_of_a_list_are_undone_and_stored() {
    let (mut list, mut shelf) = stored((0..100_u32).collect::<List<_>>());
    let before = list.get().clone();
    // So many at one spot that others get new labels.
    let shuffle = |list: &mut List<u32>| {
        for _ in 0..200 {
            list.insert(50, 1000);
        }
        (0..40).for_each(|number| assert!(list.move_to(ItemId::new(number), 7)));
        (60..90).for_each(|number| assert!(list.remove_id(ItemId::new(number)).is_some()));
    };
    shuffle(list.get_mut());
    assert!(list.dirty() > 270, "only {} items were touched", list.dirty());
    list.undo().unwrap();
    assert_eq!(list.get(), &before);
    assert_eq!(list.changes().unwrap(), []);
    shuffle(list.get_mut());
    commit(&mut list, &mut shelf);
    assert_eq!(shelf.load::<List<u32>>().unwrap().get(), list.get());
}

#[test]
fn collections_that_changed_places_are_written_anew() {
    let entries =
        |from: u8| (from..from + 3).map(|n| (n, "x".repeat(usize::from(n) * 30))).collect::<Map<_, _>>();
    #[derive(Debug, Default, PartialEq, State)]
    struct Two {
        #[state(parts)]
        left: Map<u8, String>,
        #[state(parts)]
        right: Map<u8, String>,
    }
    let (mut two, mut shelf) = stored(Two { left: entries(0), right: entries(2) });
    let both = two.get_mut();
    std::mem::swap(&mut both.left, &mut both.right);
    commit(&mut two, &mut shelf);
    assert_eq!(shelf.load::<Two>().unwrap().get(), &Two { left: entries(2), right: entries(0) });
    assert_eq!(shelf.load::<Two>().unwrap().weight(), two.weight());

    // A map that was changed and stored elsewhere comes back.
    let (mut other, mut elsewhere) = stored(Two::default());
    std::mem::swap(&mut two.get_mut().left, &mut other.get_mut().left);
    other.get_mut().left.insert(99, "changed elsewhere".into());
    commit(&mut other, &mut elsewhere);
    std::mem::swap(&mut two.get_mut().left, &mut other.get_mut().left);
    commit(&mut two, &mut shelf);
    assert_eq!(shelf.load::<Two>().unwrap().get(), two.get());

    two.get_mut().left = Map::new();
    let writes = two.changes().unwrap();
    assert!(matches!(&writes[..], [Write::DeleteRange(_)]), "{writes:?}");
}

#[test]
fn states_of_one_value_are_one_key() {
    fn check<T: State + PartialEq + fmt::Debug>(value: T) {
        let (stored, shelf) = stored(value);
        assert_eq!(shelf.0.keys().collect::<Vec<_>>(), [&field("")]);
        assert_eq!(shelf.load::<T>().unwrap().get(), stored.get());
    }
    check(7_u64);
    check(-7_i128);
    check(0.5_f32);
    check('ß');
    check(());
    check("text".to_owned());
    check(Some(vec![1_u8]));
    check(BTreeMap::from([(1_u8, 'a')]));
    check(BTreeSet::from(["a".to_owned()]));
    check((1_u8, "b".to_owned(), false));
    check(Whole(HashMap::from([(1_u8, 2_u8)])));
}

#[test]
fn a_field_that_is_not_known_is_left_alone() {
    let (_, mut shelf) = stored(Shop::default());
    let foreign = (field("from the future"), Bytes::from_static(b"\xFFanything"));
    shelf.0.insert(foreign.0.clone(), foreign.1.clone());
    shelf.0.remove(&field("count"));
    let mut shop = shelf.load::<Shop>().unwrap();
    shop.get_mut().name = "changed".into();
    commit(&mut shop, &mut shelf);
    assert_eq!(shelf.0.get(&foreign.0), Some(&foreign.1));
    assert!(shelf.0.contains_key(&field("count")), "a field that is new is written with the next change");
}

#[test]
fn a_key_that_no_store_takes_is_refused_and_undone() {
    let (mut shop, _) = stored(Shop::default());
    shop.get_mut().stock.insert("x".repeat(1000), String::new());
    let error = shop.changes().unwrap_err();
    assert!(matches!(error, StateError::TooLarge(_)) && error.to_string().contains("stock"), "{error}");
    shop.undo().unwrap();
    assert_eq!(shop.changes().unwrap(), []);
}

#[test]
#[should_panic(expected = "keep follows changes")]
fn changes_that_nobody_wrote_are_not_kept() {
    let (mut count, _) = stored(1_u64);
    count.changes().unwrap();
    *count.get_mut() = 2;
    count.keep();
}

#[test]
fn corrupt_bytes_are_named_by_their_key() {
    let label = 5_u128;
    let item = |label: u128| [&[1], &rmp_serde::to_vec(&(label, "x")).unwrap()[..]].concat();
    let orders = |id: i64| key(Tuple::new().text("orders").int(id));
    let stock = |name: &[u8]| key(Tuple::new().text("stock").bytes(name.to_vec()));
    let cases: Vec<(Key, Vec<u8>)> = vec![
        (field("count"), b"\x01\xA1x".to_vec()),
        (field("count"), b"\x01\x07\x07".to_vec()),
        (field("count"), vec![]),
        (field("count"), b"\x09\x07".to_vec()),
        (key(Tuple::new().text("count").int(0_u64)), b"\x03".to_vec()),
        (field("stock"), b"\x01\xA0".to_vec()),
        (stock(b"\xA1"), b"\x01\xA0".to_vec()),
        (stock(b"\xD9\x01a"), b"\x01\xA0".to_vec()),
        (stock(b"\xA1a"), b"\x01\x07".to_vec()),
        (key(Tuple::new().text("stock").text("a")), b"\x01\xA0".to_vec()),
        (key(Tuple::new().text("stock").bytes(b"\xA1a".to_vec()).int(0_u64)), b"\x01\xA0".to_vec()),
        (field("orders"), b"\x01\x01".to_vec()),
        (orders(-1), item(label)),
        (orders(i64::MAX), b"\x01".to_vec()),
        (key(Tuple::new().text("orders").int(u64::MAX)), item(label)),
        (orders(7), item(u128::from(1_u8) << 127)),
        (key(Tuple::new().text("orders").text("next")), b"\x01\xA0".to_vec()),
    ];
    let (_, shelf) = stored(Shop { orders: ["first".to_owned()].into_iter().collect(), ..Shop::default() });
    for (key, value) in cases {
        let mut shelf = shelf.clone();
        shelf.0.insert(key.clone(), value.into());
        let error = shelf.load::<Shop>().map(drop).unwrap_err();
        assert!(matches!(error, StateError::Corrupt(_)), "{key}: {error}");
        assert!(error.to_string().contains(&key.to_string()), "{key} is not named: {error}");
    }
    let next = key(Tuple::new().text("orders").text("next"));
    let mut shelf = shelf.clone();
    shelf.0.insert(next, b"\x01\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF".to_vec().into());
    assert!(matches!(shelf.load::<Shop>(), Err(StateError::Corrupt(_))));
}
