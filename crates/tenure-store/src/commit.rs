//! [`Commit`]: a change to the store as a plain value.

use bytes::Bytes;

use crate::{EntryId, Key, Range};

/// Counts the writes of a key: a later write has a greater version, and no version is ever used twice for one key, not
/// even after the key was deleted and made again.
///
/// All that one commit writes has the same version. Versions of different keys say nothing about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A condition on the state before a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The key was last written in this version, and exists.
    Version(Key, Version),
    /// The key does not exist.
    Absent(Key),
    /// The key exists, whatever its version. A concurrent overwrite is no conflict, a deletion is.
    Present(Key),
    /// The list has no entry.
    Empty(Key),
}

impl Check {
    /// The key or list that the check speaks of.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Version(key, _) | Self::Absent(key) | Self::Present(key) | Self::Empty(key) => key,
        }
    }
}

/// One change that a commit makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Gives the key this value.
    Set(Key, Bytes),
    /// Deletes the key, if it exists.
    Delete(Key),
    /// Deletes every key in the range, and every entry of every list in it.
    DeleteRange(Range),
    /// Puts an entry at the tail of the list.
    Append(Key, Bytes),
    /// Takes this entry out of the list, if it is there.
    Remove(Key, EntryId),
}

impl Write {
    /// Everything the write may change.
    #[must_use]
    pub fn range(&self) -> Range {
        match self {
            Self::Set(key, _) | Self::Delete(key) | Self::Append(key, _) | Self::Remove(key, _) => {
                Range::Key(key.clone())
            }
            Self::DeleteRange(range) => range.clone(),
        }
    }
}

/// A change to the store: if every check holds, every write is made, at one instant; else nothing is.
///
/// It is plain data. So it takes one round trip, a guard can be added to anybody's commit with [`Commit::and`], and a
/// test can look at it, drop it, delay it or send it twice.
///
/// Checks see the state before the commit. No two writes may touch the same key or entry, and no write may lie in
/// a range that the same commit deletes; only appends to one list may be many, and keep their order.
///
/// ```
/// use tenure_store::{Check, Commit, Key, Version};
///
/// let account = Key::from("account");
/// let commit = Commit::new().check(Check::Version(account.clone(), Version(7))).set(account, "90");
/// assert_eq!((commit.checks.len(), commit.writes.len()), (1, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// What must hold.
    pub checks: Vec<Check>,
    /// What is then done.
    pub writes: Vec<Write>,
}

impl Commit {
    /// A commit that checks nothing and writes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also checks this.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Also makes this write.
    #[must_use]
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Also gives `key` this value.
    #[must_use]
    pub fn set(self, key: Key, value: impl Into<Bytes>) -> Self {
        self.write(Write::Set(key, value.into()))
    }

    /// Also deletes `key`.
    #[must_use]
    pub fn delete(self, key: Key) -> Self {
        self.write(Write::Delete(key))
    }

    /// Also deletes every key and list in `range`.
    #[must_use]
    pub fn delete_range(self, range: Range) -> Self {
        self.write(Write::DeleteRange(range))
    }

    /// Also puts an entry at the tail of `list`.
    #[must_use]
    pub fn append(self, list: Key, value: impl Into<Bytes>) -> Self {
        self.write(Write::Append(list, value.into()))
    }

    /// Also takes an entry out of `list`.
    #[must_use]
    pub fn remove(self, list: Key, entry: EntryId) -> Self {
        self.write(Write::Remove(list, entry))
    }

    /// This commit and another as one: all checks of both must hold, then all writes of both are made.
    #[must_use]
    pub fn and(mut self, other: Commit) -> Self {
        self.checks.extend(other.checks);
        self.writes.extend(other.writes);
        self
    }
}

/// The answer to a commit that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The version of every key that the commit wrote; without meaning if it wrote none.
    pub version: Version,
}
