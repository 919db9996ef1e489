//! [`Map`]: an ordered map whose entries are stored one by one.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, btree_map},
    fmt,
    ops::RangeBounds,
};

use serde::{Serialize, de::DeserializeOwned};
use tenure_store::Part;

use super::{
    book::Identity,
    codec::{decode, encode},
    contract::State,
    error::StateError,
    loader::Loader,
    saver::Saver,
};

/// An ordered map whose entries are parts of their own: a changed entry is one small write, however many there are.
///
/// It remembers which entries changed, with the values they had. So there is no way to change all values at once unseen: what was asked for with
/// [`get_mut`](Map::get_mut) counts as changed, and is written if its encoding is another then.
///
/// The encoding of a key, with what stands in front of it, has to fit into a key of the store: some hundred bytes. Keys
/// must be of a type that has one encoding only, which one with a `HashMap` in it has not.
///
/// [`clear`](Map::clear) deletes the entries one by one and can be undone. To empty a large map, put a new one in its place: that deletes all
/// entries in one write, but to undo it the state has to be loaded again.
///
/// ```
/// use tenure_server::state::{Map, Stored};
/// use tenure_store::Tuple;
///
/// let mut ages = Stored::new(Tuple::new().text("ages"), 1024, Map::<String, u32>::new())?;
/// ages.get_mut().insert("Ada".into(), 36);
/// ages.get_mut().insert("Bob".into(), 7);
/// assert_eq!(ages.changes()?.len(), 2);
/// ages.keep();
///
/// *ages.get_mut().get_mut("Bob").expect("he was put in above") += 1;
/// assert_eq!(ages.changes()?.len(), 1);
/// ages.undo()?;
/// assert_eq!(ages.get().get("Bob"), Some(&7));
/// # Ok::<(), tenure_server::state::StateError>(())
/// ```
pub struct Map<K, V> {
    entries: BTreeMap<K, V>,
    /// The entries that changed, with what is stored: `None` where there was none.
    old: BTreeMap<K, Option<V>>,
    identity: Identity,
}

impl<K, V> Map<K, V> {
    /// A map without entries.
    #[must_use]
    pub fn new() -> Self {
        Self { entries: BTreeMap::new(), old: BTreeMap::new(), identity: Identity::default() }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> btree_map::Iter<'_, K, V> {
        self.entries.iter()
    }

    /// All keys, in order.
    pub fn keys(&self) -> btree_map::Keys<'_, K, V> {
        self.entries.keys()
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> btree_map::Values<'_, K, V> {
        self.entries.values()
    }
}

impl<K: Ord, V> Map<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    /// Whether a key has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.contains_key(key)
    }

    /// The entries whose keys are in a range.
    ///
    /// # Panics
    /// If the range starts behind its end, as [`BTreeMap::range`] does.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> btree_map::Range<'_, K, V>
    where
        K: Borrow<Q>,
    {
        self.entries.range(range)
    }

    /// The entry with the smallest key.
    #[must_use]
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.entries.first_key_value()
    }

    /// The entry with the greatest key.
    #[must_use]
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.entries.last_key_value()
    }
}

impl<K: Ord + Clone, V: Clone> Map<K, V> {
    /// The value of a key, to change it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.old.contains_key(key) {
            let (own, value) = self.entries.get_key_value(key)?;
            self.old.insert(own.clone(), Some(value.clone()));
        }
        self.entries.get_mut(key)
    }

    /// The value of a key, to change it; where there is none, it is made first.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.remember(&key);
        self.entries.entry(key).or_insert_with(make)
    }

    /// Gives a key this value, and returns the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = self.entries.insert(key.clone(), value);
        self.old.entry(key).or_insert_with(|| before.clone());
        before
    }

    /// Takes an entry out, and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (own, value) = self.entries.remove_entry(key)?;
        self.old.entry(own).or_insert_with(|| Some(value.clone()));
        Some(value)
    }

    /// Takes the entry with the smallest key out.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let (key, value) = self.entries.pop_first()?;
        self.old.entry(key.clone()).or_insert_with(|| Some(value.clone()));
        Some((key, value))
    }

    /// Takes all entries out for which `stays` is false.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &V) -> bool) {
        let leaving = self.entries.iter().filter(|(key, value)| !stays(key, value));
        for key in leaving.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    /// Takes all entries out, one by one.
    pub fn clear(&mut self) {
        self.retain(|_, _| false);
    }

    fn remember(&mut self, key: &K) {
        if !self.old.contains_key(key) {
            self.old.insert(key.clone(), self.entries.get(key).cloned());
        }
    }
}

impl<K, V> State for Map<K, V>
where
    K: Ord + Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
    V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn save(&self, at: &mut Saver<'_>) -> Result<(), StateError> {
        if at.collection(&self.identity) {
            return self.entries.iter().try_for_each(|(key, value)| save_entry(at, key, Some(value), None));
        }
        let mut changed = self.old.iter();
        changed.try_for_each(|(key, old)| save_entry(at, key, self.entries.get(key), old.as_ref()))
    }

    fn load(at: &mut Loader<'_>) -> Result<Self, StateError> {
        let mut map = Self::new();
        at.collection(&map.identity);
        for entry in at.entries(None)? {
            let at = &entry.key;
            let Part::Bytes(name) = entry.name else {
                return Err(StateError::corrupt(format!("{at} is not an entry of a map")));
            };
            let key: K = decode(&name, at)?;
            if encode(&key, at)? != name {
                return Err(StateError::corrupt(format!(
                    "{at} is not where this entry would be written: was the type of the keys changed without a migration?"
                )));
            }
            if map.entries.insert(key, decode(&entry.body, at)?).is_some() {
                return Err(StateError::corrupt(format!(
                    "{at} is an entry that is there under another key too"
                )));
            }
        }
        Ok(map)
    }

    fn keep(&mut self) {
        self.old.clear();
    }

    fn undo(&mut self, at: &mut Loader<'_>) -> Result<(), StateError> {
        at.owned(&self.identity)?;
        for (key, old) in std::mem::take(&mut self.old) {
            match old {
                Some(value) => drop(self.entries.insert(key, value)),
                None => drop(self.entries.remove(&key)),
            }
        }
        Ok(())
    }

    fn dirty(&self) -> usize {
        self.old.len()
    }
}

fn save_entry<K: Serialize, V: Serialize>(
    at: &mut Saver<'_>,
    key: &K,
    new: Option<&V>,
    old: Option<&V>,
) -> Result<(), StateError> {
    let place = at.place().entry(encode(key, at.place().prefix())?);
    let body = |value: Option<&V>| value.map(|value| encode(value, place.prefix())).transpose();
    at.entry(&place, body(new)?.as_deref(), body(old)?.as_deref())
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// The clone is another map: where it takes the place of this one, everything is written.
impl<K: Ord + Clone, V: Clone> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        self.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl<K: Eq, V: Eq> Eq for Map<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.fmt(f)
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = btree_map::Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = btree_map::IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
