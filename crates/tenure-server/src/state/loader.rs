//! [`Loader`]: what a state is put together from.

use serde::de::DeserializeOwned;
use tenure_store::{Bytes, Key, Part, Reason, Tuple};

use super::{
    book::{Book, Identity, Line, Owner},
    chunks::{Found, Piece, join},
    codec::decode,
    error::StateError,
    place::Place,
};

/// What a state is put together from: all that the store holds of it, or, to undo changes, what is remembered of that.
///
/// It stands at a place: at first at that of the whole state, and [`field`](Loader::field) leads to those below.
#[derive(Debug)]
pub struct Loader<'a> {
    place: Place,
    /// What is stored at and below this place, in order; `None` to undo.
    pieces: Option<&'a [Piece]>,
    book: &'a mut Book,
}

/// An entry of a map or an item of a list, as it is stored.
pub(super) struct Entry {
    /// Where it lies.
    pub(super) key: Key,
    /// What it is called in its collection.
    pub(super) name: Part,
    /// The `MessagePack`.
    pub(super) body: Bytes,
}

impl<'a> Loader<'a> {
    /// Loads what is stored, and enters it into the book.
    pub(super) fn new(place: Place, pieces: &'a [Piece], book: &'a mut Book) -> Self {
        Self { place, pieces: Some(pieces), book }
    }

    /// Goes back to what the book says.
    pub(super) fn undoing(place: Place, book: &'a mut Book) -> Self {
        Self { place, pieces: None, book }
    }

    /// The place of a field of the struct that lies here.
    #[must_use]
    pub fn field(&mut self, name: &str) -> Loader<'_> {
        let place = self.place.field(name);
        let pieces = self.pieces.map(|pieces| below(pieces, place.prefix()));
        Loader { place, pieces, book: self.book }
    }

    /// The value that lies here as one part, if there is one.
    ///
    /// # Errors
    /// [`StateError::Corrupt`] when what is stored is not such a value.
    pub fn value<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StateError> {
        let key = self.place.key();
        let Some(pieces) = self.pieces else {
            return self.book.value(&key).map(|body| decode(body, &key)).transpose();
        };
        let Some(found) = join(&key, below(pieces, &key))? else { return Ok(None) };
        let value = decode(&found.body, &key)?;
        self.enter(&key, &found);
        self.book.enter(Line::Value(key, found.body));
        Ok(Some(value))
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Says which collection is made of what lies here.
    pub(super) fn collection(&mut self, identity: &Identity) {
        self.book.enter(Line::collection(self.place.prefix(), identity));
    }

    /// Makes sure that what lies here is that of this collection.
    pub(super) fn owned(&self, identity: &Identity) -> Result<(), StateError> {
        let place = self.place.prefix();
        if self.book.owner(place, identity) == Owner::Same {
            return Ok(());
        }
        Err(StateError::Replaced(Reason::new(format!(
            "the collection below {place} was replaced by another, and the old one is gone: load the state again"
        ))))
    }

    /// Everything below this place, but for the field `skipped`, as entries of a collection.
    pub(super) fn entries(&mut self, skipped: Option<&str>) -> Result<Vec<Entry>, StateError> {
        let entries = entries(&self.place, self.pieces.unwrap_or_default(), skipped)?;
        let mut all = Vec::with_capacity(entries.len());
        for (entry, chunks) in entries {
            self.enter(&entry.key, &Found { body: entry.body.clone(), chunks });
            all.push(entry);
        }
        Ok(all)
    }

    fn enter(&mut self, key: &Key, found: &Found) {
        let within = Some(self.place.prefix().clone());
        self.book.enter(Line::Weight { within, more: key.len() + found.body.len(), less: 0 });
        self.book.enter(Line::Chunks(key.clone(), found.chunks));
    }
}

/// The entries that lie below a place, each with the number of its chunks. The field `skipped` is none.
pub(super) fn entries(
    place: &Place,
    pieces: &[Piece],
    skipped: Option<&str>,
) -> Result<Vec<(Entry, u32)>, StateError> {
    let skipped = skipped.map(|name| place.field(name));
    let mut entries = Vec::new();
    let mut rest = pieces;
    while let Some((key, _)) = rest.first() {
        let run = rest.partition_point(|(other, _)| other.as_bytes().starts_with(key.as_bytes()));
        let (own, others) = rest.split_at(run);
        rest = others;
        if skipped.as_ref().is_some_and(|skipped| key.as_bytes().starts_with(skipped.prefix().as_bytes())) {
            continue;
        }
        let name = name_below(place.prefix(), key)?;
        if let Some(Found { body, chunks }) = join(key, own)? {
            entries.push((Entry { key: key.clone(), name, body }, chunks));
        }
    }
    Ok(entries)
}

/// What `key` is called in the collection that lies at `place`.
fn name_below(place: &Key, key: &Key) -> Result<Part, StateError> {
    let name = key.strip_prefix(place).and_then(|rest| Tuple::decode(&rest).ok()).map(Tuple::into_parts);
    match name.map(<[Part; 1]>::try_from) {
        Some(Ok([name])) => Ok(name),
        _ => Err(StateError::corrupt(format!("{key} is not the key of an entry below {place}"))),
    }
}

/// Those of `pieces`, which are in order, whose keys start with `prefix`.
pub(super) fn below<'a>(pieces: &'a [Piece], prefix: &Key) -> &'a [Piece] {
    let start = pieces.partition_point(|(key, _)| key < prefix);
    let rest = &pieces[start..];
    &rest[..rest.partition_point(|(key, _)| key.as_bytes().starts_with(prefix.as_bytes()))]
}
