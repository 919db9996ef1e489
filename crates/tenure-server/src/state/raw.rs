//! [`RawParts`]: the parts of a state as an older release stored them, for migrations.

use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};
use tenure_store::{Bytes, Key, Part, Range, Tuple};

use super::{
    book::remove_range,
    chunks::{Piece, join, split},
    codec::{decode, encode},
    error::StateError,
    list::{ItemId, List, NEXT, load_item},
    loader::{Entry, entries},
    place::{Place, admit_key},
};

/// The parts of a state as an older release stored them: for migrations, to make of them what this release expects.
///
/// Fields are named as they are stored. The one part of a state that has no fields, such as a number, is the field `""`.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tenure_server::state::{Map, RawParts, State};
///
/// /// Version 2. In version 1, `tags` was a `Vec<String>`, and `title` was called `name`.
/// #[derive(Default, State)]
/// struct Note {
///     title: String,
///     #[state(parts)]
///     tags: Map<String, u32>,
/// }
///
/// fn migrate(from: u32, parts: &mut RawParts<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     if from < 2 {
///         parts.rename("name", "title")?;
///         for tag in parts.take::<Vec<String>>("tags")?.unwrap_or_default() {
///             parts.put_entry("tags", &tag, &1_u32)?;
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct RawParts<'a> {
    place: Place,
    pieces: &'a mut BTreeMap<Key, Bytes>,
    chunk_bytes: usize,
}

impl<'a> RawParts<'a> {
    pub(super) fn new(place: Place, pieces: &'a mut BTreeMap<Key, Bytes>, chunk_bytes: usize) -> Self {
        Self { place, pieces, chunk_bytes }
    }

    /// The names of the fields that are stored, in order.
    #[must_use]
    pub fn fields(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let root = self.place.prefix();
        let below = self.below(&self.place).into_iter().filter_map(|(key, _)| key.strip_prefix(root));
        for parts in below.filter_map(|rest| Tuple::decode(&rest).ok()).map(Tuple::into_parts) {
            if let Some(Part::Text(name)) = parts.into_iter().next()
                && names.last() != Some(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// The parts of a field that is itself a struct in parts.
    #[must_use]
    pub fn nested(&mut self, field: &str) -> RawParts<'_> {
        RawParts { place: self.place.field(field), pieces: self.pieces, chunk_bytes: self.chunk_bytes }
    }

    /// The value of a field that is one part, if it is stored.
    ///
    /// # Errors
    /// [`StateError::Corrupt`] when it is not such a value.
    pub fn get<T: DeserializeOwned>(&self, field: &str) -> Result<Option<T>, StateError> {
        let place = self.place.field(field);
        let key = place.key();
        join(&key, &self.below(&place))?.map(|found| decode(&found.body, &key)).transpose()
    }

    /// The value of a field that is one part, if it is stored, which it is not any more.
    ///
    /// # Errors
    /// [`StateError::Corrupt`] when it is not such a value.
    pub fn take<T: DeserializeOwned>(&mut self, field: &str) -> Result<Option<T>, StateError> {
        let value = self.get(field)?;
        self.remove(field);
        Ok(value)
    }

    /// Makes a field one part with this value, whatever it was.
    ///
    /// # Errors
    /// [`StateError::Encode`] and [`StateError::TooLarge`].
    pub fn put<T: Serialize + ?Sized>(&mut self, field: &str, value: &T) -> Result<(), StateError> {
        self.remove(field);
        self.write(&self.place.field(field), value)
    }

    /// Gives all that is stored of a field another name. What had this name before is gone.
    ///
    /// # Errors
    /// [`StateError::TooLarge`] when the new name is too long.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), StateError> {
        if old == new {
            return Ok(());
        }
        let (from, to) = (self.place.field(old), self.place.field(new));
        let moved: Vec<Piece> = remove_range(self.pieces, &Range::Prefix(from.prefix().clone()));
        self.remove(new);
        for (key, value) in moved {
            let tail = key.strip_prefix(from.prefix()).expect("it was found below that place");
            let key = to.prefix().join(tail.as_bytes());
            admit_key(&key, &to)?;
            self.pieces.insert(key, value);
        }
        Ok(())
    }

    /// Removes a field with all that is stored of it. Returns whether there was anything.
    pub fn remove(&mut self, field: &str) -> bool {
        !remove_range(self.pieces, &Range::Prefix(self.place.field(field).prefix().clone())).is_empty()
    }

    /// The entries of a field that is a [`Map`](super::Map), in the order in which they are stored.
    ///
    /// # Errors
    /// [`StateError::Corrupt`] when it is not such a map.
    pub fn entries<K: DeserializeOwned, V: DeserializeOwned>(
        &self,
        field: &str,
    ) -> Result<Vec<(K, V)>, StateError> {
        let place = self.place.field(field);
        let found = entries(&place, &self.below(&place), None)?;
        found
            .into_iter()
            .map(|(Entry { key, name, body }, _)| match name {
                Part::Bytes(name) => Ok((decode(&name, &key)?, decode(&body, &key)?)),
                _ => Err(StateError::corrupt(format!("{key} is not an entry of a map"))),
            })
            .collect()
    }

    /// Gives an entry of a field that is a [`Map`](super::Map) this value.
    ///
    /// # Errors
    /// [`StateError::Encode`] and [`StateError::TooLarge`].
    pub fn put_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        field: &str,
        key: &K,
        value: &V,
    ) -> Result<(), StateError> {
        let place = self.place.field(field);
        let place = place.entry(encode(key, place.prefix())?);
        remove_range(self.pieces, &Range::Prefix(place.prefix().clone()));
        self.write(&place, value)
    }

    /// The items of a field that is a [`List`], in order. Their ids are those of before.
    ///
    /// # Errors
    /// [`StateError::Corrupt`] when it is not such a list.
    pub fn items<T: DeserializeOwned>(&self, field: &str) -> Result<Vec<(ItemId, T)>, StateError> {
        let place = self.place.field(field);
        let mut items = Vec::new();
        for (Entry { key, name, body }, _) in entries(&place, &self.below(&place), Some(NEXT))? {
            items.push(load_item(&name, &body, &key)?);
        }
        items.sort_by_key(|(_, slot)| slot.label());
        Ok(items.into_iter().map(|(id, slot)| (id, slot.into_item())).collect())
    }

    /// Makes a field a [`List`] of these items, whatever it was. They get new ids, from 0.
    ///
    /// # Errors
    /// [`StateError::Encode`] and [`StateError::TooLarge`].
    pub fn put_items<T: Serialize>(
        &mut self,
        field: &str,
        items: impl IntoIterator<Item = T>,
    ) -> Result<(), StateError> {
        self.remove(field);
        let place = self.place.field(field);
        for (id, value) in List::<T>::laid_out(items) {
            self.write(&place.item(id), &value)?;
        }
        Ok(())
    }

    fn write<T: Serialize + ?Sized>(&mut self, place: &Place, value: &T) -> Result<(), StateError> {
        let key = place.key();
        admit_key(&key, place)?;
        let body = encode(value, &key)?;
        self.pieces.extend(split(&key, &body, self.chunk_bytes));
        Ok(())
    }

    fn below(&self, place: &Place) -> Vec<Piece> {
        let range = Range::Prefix(place.prefix().clone());
        let found = self.pieces.range(range.start().clone()..).take_while(|(key, _)| range.contains(key));
        found.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
