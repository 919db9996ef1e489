//! What can be asked of a store, and what it answers.

use std::fmt;

use bytes::Bytes;

use crate::{Key, Range, StoreError, Version};

/// One question of a [`read`](crate::Store::read).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The value of one key.
    Key(Key),
    /// The keys in a range, in order.
    Range {
        /// Where to look.
        range: Range,
        /// At most how many; at least 1.
        limit: usize,
    },
    /// The entries of a list, from its head or from behind an entry.
    List {
        /// The list.
        list: Key,
        /// Only what comes behind this entry. A consumer that must miss nothing reads from the head, since an entry
        /// may become visible late, before others that were already there. An id that the store never gave may be refused.
        after: Option<EntryId>,
        /// At most how many; at least 1.
        limit: usize,
    },
}

impl Read {
    /// Refuses to read on from an entry that a store which counts its entries can't have given.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the id and the list.
    pub fn admit_numbered(reads: &[Read]) -> Result<(), StoreError> {
        for read in reads {
            if let Read::List { list, after: Some(id), .. } = read
                && id.number().is_none()
            {
                return Err(StoreError::invalid(format!(
                    "{id:?} is no entry of list {list}: read on from an id that this store gave"
                )));
            }
        }
        Ok(())
    }
}

/// A value and the version in which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The value.
    pub value: Bytes,
    /// The version of the key.
    pub version: Version,
}

/// A key that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Bytes,
    /// Its version.
    pub version: Version,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What to call it when it is taken out.
    pub id: EntryId,
    /// What was appended.
    pub value: Bytes,
}

/// The name of an entry in its list, given by the store and never used again. Ids sort in the order of the list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(Bytes);

impl EntryId {
    /// The longest id that a store may give.
    pub const BYTES_MAX: usize = 64;

    /// An id of these bytes: for stores, which alone know what they mean.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The id that is this number: for stores that count their entries.
    #[must_use]
    pub fn numbered(number: u64) -> Self {
        Self(Bytes::copy_from_slice(&number.to_be_bytes()))
    }

    /// The number that the id is, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.as_bytes().try_into().ok().map(u64::from_be_bytes)
    }

    /// The bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

/// Part of a longer answer: as many as were asked for, or fewer if they are large. Only `more` tells whether it is the last part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What was found, in order.
    pub items: Vec<T>,
    /// Whether there is more behind the last one.
    pub more: bool,
}

impl<T: Weigh> Page<T> {
    /// A page of the first items of `found`: at most `limit`, and not more `bytes` than it may have. `found` should go on behind the
    /// last that fits, by one at least, to show whether there is more.
    ///
    /// # Errors
    /// The first error in `found`.
    pub fn gather<E>(
        found: impl IntoIterator<Item = Result<T, E>>,
        limit: usize,
        bytes: usize,
    ) -> Result<Self, E> {
        let (mut items, mut held) = (Vec::new(), 0);
        for item in found {
            let item = item?;
            held += item.weigh();
            if items.len() == limit || !items.is_empty() && held > bytes {
                return Ok(Self { items, more: true });
            }
            items.push(item);
        }
        Ok(Self { items, more: false })
    }
}

/// What counts towards [`Limits::page_bytes`](crate::Limits).
pub trait Weigh {
    /// How many bytes it has.
    fn weigh(&self) -> usize;
}

impl Weigh for Item {
    fn weigh(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

impl Weigh for Entry {
    fn weigh(&self) -> usize {
        self.id.0.len() + self.value.len()
    }
}

/// The answer to one [`Read`], of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Read::Key`]: the value, if the key exists.
    Key(Option<Versioned>),
    /// To [`Read::Range`].
    Range(Page<Item>),
    /// To [`Read::List`].
    List(Page<Entry>),
}

/// The answers to a [`read`](crate::Store::read), in the order of its questions, all as of one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot(Vec<Answer>);

impl Snapshot {
    /// A snapshot of these answers.
    #[must_use]
    pub fn new(answers: Vec<Answer>) -> Self {
        Self(answers)
    }

    /// All answers.
    #[must_use]
    pub fn into_answers(self) -> Vec<Answer> {
        self.0
    }

    /// The answer to the `index`th question, which asked for a key.
    ///
    /// # Panics
    /// If there was no such question, or it asked for something else.
    #[must_use]
    pub fn key(&self, index: usize) -> Option<&Versioned> {
        match &self.0[index] {
            Answer::Key(found) => found.as_ref(),
            other => panic!("question {index} was not for a key: {other:?}"),
        }
    }

    /// The answer to the `index`th question, which asked for a range.
    ///
    /// # Panics
    /// If there was no such question, or it asked for something else.
    #[must_use]
    pub fn range(&self, index: usize) -> &Page<Item> {
        match &self.0[index] {
            Answer::Range(page) => page,
            other => panic!("question {index} was not for a range: {other:?}"),
        }
    }

    /// The answer to the `index`th question, which asked for a list.
    ///
    /// # Panics
    /// If there was no such question, or it asked for something else.
    #[must_use]
    pub fn list(&self, index: usize) -> &Page<Entry> {
        match &self.0[index] {
            Answer::List(page) => page,
            other => panic!("question {index} was not for a list: {other:?}"),
        }
    }
}
