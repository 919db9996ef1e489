//! Any sequence of changes, compared with a model; and any damage to what is stored.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use tenure_server::state::{ItemId, StateError, Stored};
use tenure_store::Item;

use crate::{CHUNK_BYTES, Shelf, Shop, commit, fresh, nothing_stale, root, stored};

/// What a [`Shop`] should be, in types that everybody trusts.
#[derive(Clone, Debug, Default, PartialEq)]
struct Mirror {
    count: u64,
    name: String,
    stock: BTreeMap<String, String>,
    orders: Vec<(ItemId, String)>,
    flag: Option<bool>,
    numbers: BTreeMap<(u8, i8), Vec<u8>>,
    total: (u8, u8),
}

impl Mirror {
    fn of(shop: &Shop) -> Self {
        Self {
            count: shop.count,
            name: shop.name.clone(),
            stock: shop.stock.clone().into_iter().collect(),
            orders: shop.orders.iter().map(|(id, item)| (id, item.clone())).collect(),
            flag: shop.inner.flag,
            numbers: shop.inner.numbers.clone().into_iter().collect(),
            total: *shop.inner.total,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Count(u64),
    Name(String),
    Stock(u8, String),
    Edit(u8, String),
    Sold(u8),
    NoStock,
    OtherStock(Vec<u8>),
    Order(usize, String),
    Correct(usize, String),
    Move(usize, usize),
    Cancel(usize),
    OtherOrders,
    Flag(Option<bool>),
    Number(u8, i8, Vec<u8>),
    Total(u8),
    Look,
    Commit,
    Undo,
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let text = || prop_oneof![4 => "[a-c]{0,3}", 1 => "[a-z]{40,200}"];
    let place = || 0_usize..12;
    prop_oneof![
        1 => any::<u64>().prop_map(Step::Count),
        1 => text().prop_map(Step::Name),
        4 => (0_u8..6, text()).prop_map(|(key, value)| Step::Stock(key, value)),
        2 => (0_u8..6, text()).prop_map(|(key, value)| Step::Edit(key, value)),
        2 => (0_u8..6).prop_map(Step::Sold),
        1 => Just(Step::NoStock),
        1 => vec(0_u8..6, 0..4).prop_map(Step::OtherStock),
        6 => (place(), text()).prop_map(|(index, item)| Step::Order(index, item)),
        2 => (place(), text()).prop_map(|(index, item)| Step::Correct(index, item)),
        3 => (place(), place()).prop_map(|(from, to)| Step::Move(from, to)),
        3 => place().prop_map(Step::Cancel),
        1 => Just(Step::OtherOrders),
        1 => any::<Option<bool>>().prop_map(Step::Flag),
        1 => (any::<u8>(), any::<i8>(), vec(any::<u8>(), 0..100)).prop_map(|(a, b, value)| Step::Number(a, b, value)),
        1 => any::<u8>().prop_map(Step::Total),
        1 => Just(Step::Look),
        5 => Just(Step::Commit),
        3 => Just(Step::Undo),
        1 => Just(Step::Reload),
    ]
}

/// Takes the same step in the state and in the mirror. Returns whether a collection was replaced.
fn change(shop: &mut Shop, mirror: &mut Mirror, step: Step) -> bool {
    let goods = |key: u8| format!("goods {key}");
    match step {
        Step::Count(count) => (shop.count, mirror.count) = (count, count),
        Step::Name(name) => (shop.name, mirror.name) = (name.clone(), name),
        Step::Stock(key, value) => {
            assert_eq!(shop.stock.insert(goods(key), value.clone()), mirror.stock.insert(goods(key), value));
        }
        Step::Edit(key, value) => {
            if let Some(own) = shop.stock.get_mut(&goods(key)) {
                own.clone_from(&value);
                mirror.stock.insert(goods(key), value);
            }
        }
        Step::Sold(key) => assert_eq!(shop.stock.remove(&goods(key)), mirror.stock.remove(&goods(key))),
        Step::NoStock => {
            shop.stock.clear();
            mirror.stock.clear();
        }
        Step::OtherStock(keys) => {
            shop.stock = keys.iter().map(|key| (goods(*key), "new".to_owned())).collect();
            mirror.stock = shop.stock.clone().into_iter().collect();
            return true;
        }
        Step::Order(index, item) => {
            let id = shop.orders.insert(index, item.clone());
            assert!(mirror.orders.iter().all(|(other, _)| *other != id), "{id} was given twice");
            mirror.orders.insert(index.min(mirror.orders.len()), (id, item));
        }
        Step::Correct(index, item) => {
            if let Some(own) = shop.orders.get_mut(index) {
                own.clone_from(&item);
                mirror.orders[index].1 = item;
            }
        }
        Step::Move(from, to) => {
            if let Some(id) = shop.orders.id_at(from) {
                assert!(shop.orders.move_to(id, to));
                let item = mirror.orders.remove(from);
                mirror.orders.insert(to.min(mirror.orders.len()), item);
            }
        }
        Step::Cancel(index) => {
            let expected = (index < mirror.orders.len()).then(|| mirror.orders.remove(index).1);
            assert_eq!(shop.orders.remove(index), expected);
        }
        Step::OtherOrders => {
            shop.orders = shop.orders.clone();
            return true;
        }
        Step::Flag(flag) => (shop.inner.flag, mirror.flag) = (flag, flag),
        Step::Number(a, b, value) => {
            shop.inner.numbers.get_or_insert_with((a, b), Vec::new).clone_from(&value);
            mirror.numbers.insert((a, b), value);
        }
        Step::Total(total) => (shop.inner.total.0, mirror.total) = ((total, 1), (total, 1)),
        Step::Look | Step::Commit | Step::Undo | Step::Reload => {
            unreachable!("these do not change the state")
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_changes_are_stored_or_undone(steps in vec(step(), 1..60)) {
        let (mut shop, mut shelf) = (fresh(Shop::default()), Shelf::default());
        let (mut now, mut kept) = (Mirror::default(), Mirror::default());
        let mut replaced = false;
        for step in steps {
            match step {
                Step::Look => drop(shop.changes().unwrap()),
                Step::Commit => {
                    commit(&mut shop, &mut shelf);
                    (kept, replaced) = (now.clone(), false);
                    prop_assert_eq!(shop.changes().unwrap(), []);
                    prop_assert_eq!(shop.dirty(), 0);
                    nothing_stale(&shop, &shelf);
                    let again = shelf.load::<Shop>().unwrap();
                    prop_assert_eq!(Mirror::of(again.get()), now.clone());
                    prop_assert_eq!(again.weight(), shop.weight());
                }
                Step::Undo => {
                    match shop.undo() {
                        Ok(()) => {
                            prop_assert!(!replaced);
                            prop_assert_eq!(shop.dirty(), 0);
                        }
                        Err(error) => {
                            prop_assert!(replaced && matches!(error, StateError::Replaced(_)), "{}", error);
                            prop_assert!(shop.changes().is_err());
                            shop = shelf.load().unwrap();
                        }
                    }
                    (now, replaced) = (kept.clone(), false);
                }
                Step::Reload => {
                    shop = shelf.load().unwrap();
                    (now, replaced) = (kept.clone(), false);
                }
                other => replaced |= change(shop.get_mut(), &mut now, other),
            }
            prop_assert_eq!(Mirror::of(shop.get()), now.clone());
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_values(
        steps in vec(step(), 1..30), damages in vec((any::<prop::sample::Index>(), 0..6_u8, vec(any::<u8>(), 0..40)), 1..4)
    ) {
        let mut shop = Shop::default();
        let mut mirror = Mirror::default();
        for step in steps.into_iter().filter(|step| !matches!(step, Step::Look | Step::Commit | Step::Undo | Step::Reload)) {
            change(&mut shop, &mut mirror, step);
        }
        let mut items = stored(shop).1.items();
        for (at, kind, noise) in damages {
            let Some(at) = (!items.is_empty()).then(|| at.index(items.len())) else { break };
            damage(&mut items, at, kind, noise);
        }
        match Stored::<Shop>::load(root(), CHUNK_BYTES, items) {
            Ok(mut shop) => drop(shop.changes().unwrap()),
            Err(StateError::Corrupt(reason)) => prop_assert!(reason.to_string().contains("tenure"), "{}", reason),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

fn damage(items: &mut Vec<Item>, at: usize, kind: u8, noise: Vec<u8>) {
    let item = &mut items[at];
    let spot = noise.first().map_or(0, |byte| usize::from(*byte)) % item.value.len().max(1);
    match kind {
        0 => item.value = noise.into(),
        1 => item.value = item.value.slice(..spot),
        2 => item.value = [&item.value[..spot], &noise, &item.value[spot..]].concat().into(),
        3 => drop(items.remove(at)),
        4 => {
            let key = item.key.join(&noise);
            items.push(Item { key, ..items[at].clone() });
        }
        _ => {
            let value = items[(at + 1) % items.len()].value.clone();
            items[at].value = value;
        }
    }
}
