//! States in parts, through their public interface.

mod migrations;
mod model;
mod promises;

use std::collections::{BTreeMap, BTreeSet};

use tenure_server::state::{List, Map, State, StateError, Stored, Whole};
use tenure_store::{Bytes, Commit, Item, Key, Limits, Tuple, Version, Write};

/// Small, so that a text of a hundred letters is in chunks.
const CHUNK_BYTES: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Shop {
    count: u64,
    #[state(rename = "title")]
    name: String,
    #[state(parts)]
    stock: Map<String, String>,
    #[state(parts)]
    orders: List<String>,
    #[state(parts)]
    inner: Inner,
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Inner {
    flag: Option<bool>,
    #[state(parts)]
    numbers: Map<(u8, i8), Vec<u8>>,
    #[state(parts)]
    total: Whole<(u8, u8)>,
}

/// A store that is nothing but its keys.
#[derive(Clone, Debug, Default)]
struct Shelf(BTreeMap<Key, Bytes>);

impl Shelf {
    fn commit(&mut self, writes: Vec<Write>) {
        let limits = Limits { commit_operations: usize::MAX, commit_bytes: usize::MAX, ..Limits::EMBEDDED };
        let commit = Commit { checks: Vec::new(), writes };
        limits.admit_commit(&commit).expect("any store would take these writes");
        for write in commit.writes {
            match write {
                Write::Set(key, value) => drop(self.0.insert(key, value)),
                Write::Delete(key) => drop(self.0.remove(&key)),
                Write::DeleteRange(range) => self.0.retain(|key, _| !range.contains(key)),
                other => panic!("a state never writes {other:?}"),
            }
        }
    }

    fn items(&self) -> Vec<Item> {
        let item = |(key, value): (&Key, &Bytes)| Item {
            key: key.clone(),
            value: value.clone(),
            version: Version(1),
        };
        self.0.iter().map(item).collect()
    }

    fn load<T: State>(&self) -> Result<Stored<T>, StateError> {
        Stored::load(root(), CHUNK_BYTES, self.items())
    }
}

fn root() -> Tuple {
    Tuple::new().text("tenure").text("state").int(7_u64)
}

/// The key of a part below the root.
fn key(path: Tuple) -> Key {
    root().key().join(path.key().as_bytes())
}

fn field(name: &str) -> Key {
    key(Tuple::new().text(name))
}

fn commit<T: State>(stored: &mut Stored<T>, shelf: &mut Shelf) {
    shelf.commit(stored.changes().expect("it can be stored"));
    stored.keep();
}

/// A new state, not stored yet.
fn fresh<T: State>(state: T) -> Stored<T> {
    Stored::new(root(), CHUNK_BYTES, state).expect("it can be stored")
}

/// A new state, stored.
fn stored<T: State>(state: T) -> (Stored<T>, Shelf) {
    let (mut stored, mut shelf) = (fresh(state), Shelf::default());
    commit(&mut stored, &mut shelf);
    (stored, shelf)
}

/// Nothing is on the shelf but what a state that is new would write. (A list that once had to say which ids it gave may go on to say so.)
fn nothing_stale(stored: &Stored<Shop>, shelf: &Shelf) {
    let mut fresh = Shelf::default();
    commit(&mut self::fresh(stored.get().clone()), &mut fresh);
    let next = key(Tuple::new().text("orders").text("next"));
    let keys = |shelf: &Shelf| shelf.0.keys().filter(|key| **key != next).cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(shelf), keys(&fresh));
}
