//! [`Limits`]: how large a request may be, and the check that refuses it before any I/O.

use std::collections::HashSet;

use crate::{Commit, EntryId, Key, Range, Read, StoreError, Write};

/// How large things may be in a store. A larger request is refused with [`StoreError::TooLarge`] before any I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest key, in bytes.
    pub key_bytes: usize,
    /// The longest value of a key or an entry, in bytes.
    pub value_bytes: usize,
    /// The most checks and writes of one commit, together. The deletion of a range counts as two, since keys and lists are
    /// two places in some stores.
    pub commit_operations: usize,
    /// The most bytes of one commit: all keys and values of its checks and writes.
    pub commit_bytes: usize,
    /// The most questions of one read.
    pub read_questions: usize,
    /// The most items or entries in one answer.
    pub page_items: usize,
    /// The most bytes of keys and values in one answer. An answer that would have more ends before, with `more` set; it has at least one
    /// item all the same, if there is any.
    pub page_bytes: usize,
}

impl Limits {
    /// The longest key that any store may offer: what fits an index entry of PostgreSQL (2,704 bytes) and of InnoDB (3,072)
    /// with room for what they add.
    pub const KEY_BYTES_MAX: usize = 1024;

    /// What every store of ours offers at least. A program that keeps to these runs on all of them; [`Limited`](crate::Limited)
    /// makes it keep to them. The smallest is etcd's: 128 operations and 1.5 MiB in a transaction.
    pub const PORTABLE: Limits = Limits {
        key_bytes: Self::KEY_BYTES_MAX,
        value_bytes: 256 * 1024,
        commit_operations: 120,
        commit_bytes: 1024 * 1024,
        read_questions: 120,
        page_items: 1000,
        page_bytes: 1024 * 1024,
    };

    /// What a store offers that lives in our own process and has no protocol in between.
    pub const EMBEDDED: Limits = Limits {
        key_bytes: Self::KEY_BYTES_MAX,
        value_bytes: 1024 * 1024,
        commit_operations: 10_000,
        commit_bytes: 16 * 1024 * 1024,
        read_questions: 1000,
        page_items: 10_000,
        page_bytes: 4 * 1024 * 1024,
    };

    /// The smaller of both, field by field.
    #[must_use]
    pub fn min(self, other: Limits) -> Limits {
        Limits {
            key_bytes: self.key_bytes.min(other.key_bytes),
            value_bytes: self.value_bytes.min(other.value_bytes),
            commit_operations: self.commit_operations.min(other.commit_operations),
            commit_bytes: self.commit_bytes.min(other.commit_bytes),
            read_questions: self.read_questions.min(other.read_questions),
            page_items: self.page_items.min(other.page_items),
            page_bytes: self.page_bytes.min(other.page_bytes),
        }
    }

    /// Refuses a read that is too large or makes no sense.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] and [`StoreError::Invalid`].
    pub fn admit_reads(&self, reads: &[Read]) -> Result<(), StoreError> {
        at_most("a read", "questions", reads.len(), self.read_questions)?;
        for read in reads {
            match read {
                Read::Key(key) => self.admit_key(key)?,
                Read::Range { range, limit } => {
                    self.admit_range(range)?;
                    self.admit_page(*limit)?;
                }
                Read::List { list, after, limit } => {
                    self.admit_key(list)?;
                    after.as_ref().map_or(Ok(()), admit_entry_id)?;
                    self.admit_page(*limit)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses a commit that is too large or makes no sense.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] and [`StoreError::Invalid`].
    pub fn admit_commit(&self, commit: &Commit) -> Result<(), StoreError> {
        let ranges = commit.writes.iter().filter(|write| is_deletion(write)).count();
        let operations = commit.checks.len() + commit.writes.len() + ranges;
        let unit = "checks and writes (a deleted range counts as two)";
        at_most("a commit", unit, operations, self.commit_operations)?;
        let mut bytes = 0;
        for check in &commit.checks {
            self.admit_key(check.key())?;
            bytes += check.key().len();
        }
        for write in &commit.writes {
            bytes += self.admit_write(write)?;
        }
        at_most("a commit", "bytes of keys and values", bytes, self.commit_bytes)?;
        admit_overlaps(&commit.writes)
    }

    fn admit_write(&self, write: &Write) -> Result<usize, StoreError> {
        match write {
            Write::Set(key, value) | Write::Append(key, value) => {
                self.admit_key(key)?;
                at_most(format_args!("the value for {key}"), "bytes", value.len(), self.value_bytes)?;
                Ok(key.len() + value.len())
            }
            Write::Delete(key) => self.admit_key(key).map(|()| key.len()),
            Write::Remove(list, id) => {
                self.admit_key(list)?;
                admit_entry_id(id)?;
                Ok(list.len() + id.as_bytes().len())
            }
            Write::DeleteRange(range) => {
                self.admit_range(range)?;
                Ok(range.start().len() + range.end().map_or(0, |end| end.len()))
            }
        }
    }

    fn admit_key(&self, key: &Key) -> Result<(), StoreError> {
        if key.is_empty() {
            return Err(StoreError::invalid("a key has no bytes: give it at least one"));
        }
        self.admit_length(key)
    }

    fn admit_length(&self, key: &Key) -> Result<(), StoreError> {
        let head = Key::new(key.to_bytes().slice(..key.len().min(24)));
        at_most(format_args!("a key that starts with {head}"), "bytes", key.len(), self.key_bytes)
    }

    fn admit_range(&self, range: &Range) -> Result<(), StoreError> {
        match range {
            Range::Key(key) => self.admit_key(key),
            // Every key starts with no bytes at all, so an empty prefix is a good one.
            Range::Prefix(prefix) => self.admit_length(prefix),
            // The bounds are not keys themselves: one byte more than a key is the next key behind it.
            Range::Between { start, end } => [start, end].into_iter().try_for_each(|bound| {
                at_most("the bound of a range", "bytes", bound.len(), Self::KEY_BYTES_MAX + 1)
            }),
        }
    }

    fn admit_page(&self, limit: usize) -> Result<(), StoreError> {
        if limit == 0 {
            return Err(StoreError::invalid("a page of 0 items was asked for: ask for at least 1"));
        }
        at_most("a page", "items", limit, self.page_items)
    }
}

fn admit_entry_id(id: &EntryId) -> Result<(), StoreError> {
    at_most("the id of an entry", "bytes", id.as_bytes().len(), EntryId::BYTES_MAX)
}

fn at_most(what: impl std::fmt::Display, unit: &str, value: usize, limit: usize) -> Result<(), StoreError> {
    if value <= limit {
        return Ok(());
    }
    Err(StoreError::too_large(format!("{what} has {value} {unit}, this store takes {limit}: split it")))
}

fn is_deletion(write: &Write) -> bool {
    matches!(write, Write::DeleteRange(_))
}

/// Refuses writes whose order would matter, since stores are free to choose one.
fn admit_overlaps(writes: &[Write]) -> Result<(), StoreError> {
    let mut keys = HashSet::new();
    let mut entries = HashSet::new();
    for write in writes {
        let fresh = match write {
            Write::Set(key, _) | Write::Delete(key) => keys.insert(key),
            Write::Remove(list, id) => entries.insert((list, id)),
            Write::Append(..) | Write::DeleteRange(_) => true,
        };
        if !fresh {
            let key = write.range().start().clone();
            return Err(StoreError::invalid(format!("a commit writes {key} twice: write it once")));
        }
    }
    admit_deletions(writes)
}

/// Refuses a deleted range that meets any other write: in the order of their starts, each may only begin where all before it have ended,
/// if it or one of them is a deletion.
fn admit_deletions(writes: &[Write]) -> Result<(), StoreError> {
    if !writes.iter().any(is_deletion) {
        return Ok(());
    }
    let mut spans: Vec<(Range, bool)> =
        writes.iter().map(|write| (write.range(), is_deletion(write))).collect();
    spans.retain(|(range, _)| !range.is_empty());
    spans.sort_by(|(left, _), (right, _)| left.start().cmp(right.start()));
    // Where the writes so far end, and where the deletions among them do.
    let (mut written, mut deleted) = (End::default(), End::default());
    for (range, deletion) in spans {
        if deleted.reaches(range.start()) || deletion && written.reaches(range.start()) {
            let key = range.start();
            return Err(StoreError::invalid(format!(
                "a commit deletes a range and writes {key} in it: make them two commits"
            )));
        }
        written.extend(range.end());
        if deletion {
            deleted.extend(range.end());
        }
    }
    Ok(())
}

/// The end of the ranges seen so far: nowhere yet, before a key, or nowhere at all.
#[derive(Default)]
enum End {
    #[default]
    None,
    Before(Key),
    Open,
}

impl End {
    fn reaches(&self, start: &Key) -> bool {
        match self {
            Self::None => false,
            Self::Before(end) => start < end,
            Self::Open => true,
        }
    }

    fn extend(&mut self, end: Option<Key>) {
        *self = match (std::mem::take(self), end) {
            (Self::Open, _) | (_, None) => Self::Open,
            (Self::None, Some(end)) => Self::Before(end),
            (Self::Before(before), Some(end)) => Self::Before(before.max(end)),
        };
    }
}
