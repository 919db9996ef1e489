//! States of older releases.

use std::{collections::BTreeMap, error::Error};

use tenure_server::state::{Map, RawParts, State, StateError, Stored};
use tenure_store::Bytes;

use crate::{CHUNK_BYTES, Shelf, Shop, commit, field, nothing_stale, root, stored};

type Migrated = Result<(), Box<dyn Error + Send + Sync>>;

/// To version 2: `name` is `title`, `stock` is a map, `orders` a list, and `old` is gone.
fn migrate(from: u32, parts: &mut RawParts<'_>) -> Migrated {
    assert_eq!(
        (from, parts.fields()),
        (1, ["count", "name", "old", "orders", "stock"].map(str::to_owned).to_vec())
    );
    parts.rename("name", "title")?;
    parts.remove("old");
    for (index, good) in parts.take::<Vec<String>>("stock")?.unwrap_or_default().iter().enumerate() {
        parts.put_entry("stock", good, &"x".repeat(100 * index))?;
    }
    let orders: Vec<String> = parts.take("orders")?.unwrap_or_default();
    parts.put_items("orders", orders)?;
    parts.nested("inner").put("flag", &Some(true))?;
    Ok(())
}

fn version_1() -> Shelf {
    #[derive(Default, State)]
    struct Old {
        count: u64,
        name: String,
        stock: Vec<String>,
        orders: Vec<String>,
        #[state(parts)]
        old: Map<u8, u8>,
    }
    let texts = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
    let old = [(1, 2)].into_iter().collect();
    stored(Old {
        count: 1,
        name: "long ".repeat(50),
        stock: texts(["a", "b"]),
        orders: texts(["z", "y"]),
        old,
    })
    .1
}

#[test]
fn a_migration_is_written_with_the_next_change() {
    let mut shelf = version_1();
    let mut shop = Stored::<Shop>::load_migrated(root(), CHUNK_BYTES, shelf.items(), 1, migrate).unwrap();
    let migrated = shop.get().clone();
    assert_eq!(migrated.name, "long ".repeat(50));
    assert_eq!(migrated.stock.get("b"), Some(&"x".repeat(100)));
    assert_eq!(migrated.orders, ["z", "y"].map(str::to_owned).into_iter().collect());
    assert_eq!((migrated.count, migrated.inner.flag), (1, Some(true)));

    shop.get_mut().name.clear();
    shop.get_mut().stock = Map::new();
    shelf.clone().commit(shop.changes().unwrap());
    assert!(matches!(shop.undo(), Err(StateError::Replaced(_))));
    let mut shop = Stored::<Shop>::load_migrated(root(), CHUNK_BYTES, shelf.items(), 1, migrate).unwrap();
    shop.get_mut().stock.clear();
    shop.undo().unwrap();
    assert_eq!(shop.get(), &migrated);

    shop.get_mut().count = 2;
    shop.get_mut().stock.remove("a");
    commit(&mut shop, &mut shelf);
    assert_eq!(shop.changes().unwrap(), []);
    nothing_stale(&shop, &shelf);
    assert_eq!(shelf.load::<Shop>().unwrap().get(), shop.get());
    assert_eq!(shelf.load::<Shop>().unwrap().weight(), shop.weight());
}

#[test]
fn a_migration_can_lead_back_and_can_refuse() {
    let items = ["b", "a"].map(str::to_owned);
    let shop = Shop {
        stock: [("tea".into(), "y".repeat(100))].into_iter().collect(),
        orders: items.iter().cloned().collect(),
        ..Shop::default()
    };
    let (_, mut shelf) = stored(shop);
    #[derive(Debug, Default, PartialEq, State)]
    struct Plain {
        stock: BTreeMap<String, String>,
        orders: Vec<String>,
    }
    let load = |shelf: &Shelf, migrate: &dyn Fn(&mut RawParts<'_>) -> Migrated| {
        Stored::<Plain>::load_migrated(root(), CHUNK_BYTES, shelf.items(), 3, |_, parts| migrate(parts))
    };
    let back = |parts: &mut RawParts<'_>| -> Migrated {
        let stock: BTreeMap<String, String> = parts.entries("stock")?.into_iter().collect();
        parts.put("stock", &stock)?;
        let orders: Vec<String> = parts.items("orders")?.into_iter().map(|(_, item)| item).collect();
        parts.put("orders", &orders)?;
        Ok(())
    };
    let error = load(&shelf, &|_| Err("not today".into())).unwrap_err();
    assert!(
        matches!(error, StateError::Migration { from: 3, .. }) && error.to_string().contains("not today")
    );
    let mut plain = load(&shelf, &back).unwrap();
    assert_eq!(plain.get().orders, items);
    assert_eq!(plain.get().stock["tea"].len(), 100);
    commit(&mut plain, &mut shelf);
    assert_eq!(shelf.load::<Plain>().unwrap().get(), plain.get());

    shelf.0.insert(field("stock"), Bytes::from_static(b"\x01\xC1"));
    let corrupt = load(&shelf, &|parts| Ok(parts.take::<Vec<u8>>("stock").map(drop)?)).unwrap_err();
    assert!(matches!(corrupt, StateError::Corrupt(_)), "{corrupt}");
}
