//! [`Saver`]: what a state is shown to, part by part, to find out what changed.

use serde::{Serialize, de::DeserializeOwned};
use tenure_store::Bytes;

use super::{
    book::{Book, Identity, Line, Owner},
    codec::{decode, encode},
    draft::{Changed, Draft},
    error::StateError,
    place::Place,
};

/// What a state is shown to, part by part: it knows what is stored, and takes down what is different.
///
/// It stands at a place: at first at that of the whole state, and [`field`](Saver::field) leads to those below.
#[derive(Debug)]
pub struct Saver<'a> {
    place: Place,
    book: &'a Book,
    draft: &'a mut Draft,
    chunk_bytes: usize,
    /// Whether nothing of what the book says about this place is to be believed, since it is about another collection.
    fresh: bool,
}

impl<'a> Saver<'a> {
    pub(super) fn new(place: Place, book: &'a Book, draft: &'a mut Draft, chunk_bytes: usize) -> Self {
        Self { place, book, draft, chunk_bytes, fresh: false }
    }

    /// The place of a field of the struct that lies here.
    #[must_use]
    pub fn field(&mut self, name: &str) -> Saver<'_> {
        let Self { place, book, draft, chunk_bytes, fresh } = self;
        Saver { place: place.field(name), book, draft, chunk_bytes: *chunk_bytes, fresh: *fresh }
    }

    /// Shows the value that lies here as one part. It is taken down when its encoding is another than the one that is stored.
    ///
    /// # Errors
    /// [`StateError::Encode`] when the value can't be encoded, and [`StateError::TooLarge`] when its name is too long for a key.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), StateError> {
        let key = self.place.key();
        let body = Bytes::from(encode(value, &key)?);
        let old = self.book.value(&key).filter(|_| !self.fresh);
        if old == Some(&body) {
            return Ok(());
        }
        let chunks = if self.fresh { 0 } else { self.book.chunks(&key) };
        let old = old.map(Bytes::len);
        self.draft.note(Line::Value(key.clone(), body.clone()));
        self.draft
            .change(Changed { key, new: Some(&body), old, chunks, within: &self.place }, self.chunk_bytes)
    }

    /// The value that is stored here as one part.
    pub(super) fn stored<T: DeserializeOwned>(&self) -> Result<Option<T>, StateError> {
        let key = self.place.key();
        let old = self.book.value(&key).filter(|_| !self.fresh);
        old.map(|body| decode(body, &key)).transpose()
    }

    /// Says which collection lies here, and whether it has to show all of its entries, not just those that changed.
    pub(super) fn collection(&mut self, identity: &Identity) -> bool {
        let place = self.place.prefix();
        let owner = self.book.owner(place, identity);
        if owner == Owner::Same {
            return false;
        }
        if owner == Owner::Other {
            self.draft.replace(place);
        }
        self.draft.note(Line::collection(place, identity));
        self.fresh = true;
        true
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Shows a changed entry of the collection that lies here: what is now, and what was.
    pub(super) fn entry(
        &mut self,
        at: &Place,
        new: Option<&[u8]>,
        old: Option<&[u8]>,
    ) -> Result<(), StateError> {
        let old = old.filter(|_| !self.fresh);
        if new == old {
            return Ok(());
        }
        let key = at.key();
        let chunks = if self.fresh { 0 } else { self.book.chunks(&key) };
        let old = old.map(<[u8]>::len);
        self.draft.change(Changed { key, new, old, chunks, within: &self.place }, self.chunk_bytes)
    }
}
