//! [`Place`]: where a part of a state lies in the store.

use tenure_store::{Key, Limits, Reason, Tuple};

use super::error::StateError;

/// How many bytes of a key are left for what comes behind a part: the number of a chunk takes 9 at most, the rest is for stores that put
/// a prefix in front.
const KEY_ROOM: usize = 64;

/// Where a part lies, or where parts lie below.
///
/// The parts of an encoded tuple simply stand one behind the other, so a place below is this place's bytes and some more.
#[derive(Clone, Debug)]
pub(super) struct Place {
    key: Key,
    /// Whether this is where the whole state lies.
    root: bool,
}

impl Place {
    pub(super) fn root(root: &Tuple) -> Self {
        Self { key: root.key(), root: true }
    }

    /// What every key at and below this place starts with.
    pub(super) fn prefix(&self) -> &Key {
        &self.key
    }

    /// The key of a value that lies here. A state that is one value lies below the root all the same, where it is a field without a name: so
    /// the root's own key stays free.
    pub(super) fn key(&self) -> Key {
        if self.root { self.field("").key } else { self.key.clone() }
    }

    /// A field of the struct that lies here.
    pub(super) fn field(&self, name: &str) -> Self {
        self.below(Tuple::new().text(name))
    }

    /// An entry of the map that lies here, by its encoded key.
    pub(super) fn entry(&self, key: Vec<u8>) -> Self {
        self.below(Tuple::new().bytes(key))
    }

    /// An item of the list that lies here.
    pub(super) fn item(&self, id: u64) -> Self {
        self.below(Tuple::new().int(id))
    }

    fn below(&self, part: Tuple) -> Self {
        Self { key: self.key.join(part.key().as_bytes()), root: false }
    }
}

/// The key of a chunk of the value at `key`.
pub(super) fn chunk(key: &Key, number: u32) -> Key {
    key.join(Tuple::new().int(u64::from(number)).key().as_bytes())
}

/// Refuses a key that no store may take. `within` is where the entry with that key would lie.
pub(super) fn admit_key(key: &Key, within: &Place) -> Result<(), StateError> {
    let most = Limits::KEY_BYTES_MAX - KEY_ROOM;
    if key.len() <= most {
        return Ok(());
    }
    let (place, bytes) = (within.prefix(), key.len());
    Err(StateError::TooLarge(Reason::new(format!(
        "an entry below {place} would have a key of {bytes} bytes, {most} are possible: use shorter keys"
    ))))
}
