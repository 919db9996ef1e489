//! [`Book`]: what the store holds of a state, as far as that has to be known to write only what changed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tenure_store::{Bytes, Key, Range};

/// Which collection this is. A collection that was moved is still the same, its clone is another.
///
/// It counts how often a book took it for stored: one that went to another state and was stored there is not what the first book knew.
///
/// A state's field may be assigned to: `state.orders = Map::new()`. Nobody tells the collection that was there, so what lies in the store below a
/// place must be known to be that of the collection which is there now.
#[derive(Debug, Default)]
pub(super) struct Identity(Arc<AtomicU64>);

impl Identity {
    fn same(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn claim(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    fn is(&self, other: &Identity, claim: u64) -> bool {
        Arc::ptr_eq(&self.0, &other.0) && self.0.load(Relaxed) == claim
    }
}

/// What the store holds of a state, as far as that has to be known.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// The encoded values of single parts. Entries of maps and items of lists are not here: their collections know what changed.
    values: BTreeMap<Key, Bytes>,
    /// In how many chunks the values are that are in chunks.
    chunks: BTreeMap<Key, u32>,
    /// The collections, by their place.
    collections: BTreeMap<Key, Collection>,
    /// Roughly how many bytes all of this has in the store.
    weight: usize,
}

#[derive(Debug)]
struct Collection {
    identity: Identity,
    /// What its count was when it was entered here.
    claim: u64,
    weight: usize,
}

/// A line to be entered into the book once what it says has been committed.
#[derive(Debug)]
pub(super) enum Line {
    /// A single part has this value now.
    Value(Key, Bytes),
    /// A value is in so many chunks now.
    Chunks(Key, u32),
    /// All that was below this place is gone, and this collection is there now.
    Collection(Key, Identity),
    /// Something has become so much larger and so much smaller. The place is that of its collection, if it is in one.
    Weight { within: Option<Key>, more: usize, less: usize },
}

/// Whose the parts are that are stored below a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This collection's.
    Same,
    /// Another collection's, which is no longer there.
    Other,
    /// Nobody's: there are none.
    Nobody,
}

impl Book {
    pub(super) fn value(&self, key: &Key) -> Option<&Bytes> {
        self.values.get(key)
    }

    pub(super) fn chunks(&self, key: &Key) -> u32 {
        self.chunks.get(key).copied().unwrap_or_default()
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn owner(&self, place: &Key, identity: &Identity) -> Owner {
        match self.collections.get(place) {
            None => Owner::Nobody,
            Some(collection) if collection.identity.is(identity, collection.claim) => Owner::Same,
            Some(_) => Owner::Other,
        }
    }

    pub(super) fn enter(&mut self, line: Line) {
        match line {
            Line::Value(key, value) => drop(self.values.insert(key, value)),
            Line::Chunks(key, 0) => drop(self.chunks.remove(&key)),
            Line::Chunks(key, count) => drop(self.chunks.insert(key, count)),
            Line::Collection(place, identity) => self.enter_collection(place, identity),
            Line::Weight { within, more, less } => {
                self.weight = self.weight.saturating_add(more).saturating_sub(less);
                if let Some(collection) = within.and_then(|place| self.collections.get_mut(&place)) {
                    collection.weight = collection.weight.saturating_add(more).saturating_sub(less);
                }
            }
        }
    }

    fn enter_collection(&mut self, place: Key, identity: Identity) {
        let range = Range::Prefix(place.clone());
        for (key, value) in remove_range(&mut self.values, &range) {
            self.weight = self.weight.saturating_sub(key.len() + value.len());
        }
        remove_range(&mut self.chunks, &range);
        let claim = identity.claim();
        if let Some(before) = self.collections.insert(place, Collection { identity, claim, weight: 0 }) {
            self.weight = self.weight.saturating_sub(before.weight);
        }
    }
}

impl Line {
    pub(super) fn collection(place: &Key, identity: &Identity) -> Self {
        Self::Collection(place.clone(), identity.same())
    }
}

/// Takes out what is in a range, without looking at the rest.
pub(super) fn remove_range<V>(map: &mut BTreeMap<Key, V>, range: &Range) -> Vec<(Key, V)> {
    let within: Vec<Key> = map
        .range(range.start().clone()..)
        .map(|(key, _)| key)
        .take_while(|key| range.contains(key))
        .cloned()
        .collect();
    within.iter().filter_map(|key| map.remove_entry(key)).collect()
}
