//! [`Prefixed`]: one store, many clusters that cannot see each other.

use std::fmt;

use async_trait::async_trait;

use crate::{
    Answer, Check, Commit, CommitError, Conflict, Key, Limits, Name, Range, Read, Receipt, Snapshot, Store,
    StoreError, Tuple, Watch, Write,
};

/// The part of a store whose keys start with a name. Nothing outside of it can be read, written or watched through it.
///
/// The name is encoded as a [`Tuple`], so that no name can begin another.
///
/// ```
/// use std::sync::Arc;
/// use tenure_store::{Commit, Key, MemoryStore, Prefixed, Store, StoreExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure_store::CommitError> {
/// let store = Arc::new(MemoryStore::new());
/// let blue = Prefixed::new(Arc::clone(&store), &"blue".parse()?);
/// let green = Prefixed::new(store, &"green".parse()?);
/// blue.commit(Commit::new().set(Key::from("k"), "v")).await?;
/// assert!(green.get(&Key::from("k")).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Prefixed<S> {
    inner: S,
    name: Name,
    prefix: Key,
}

impl<S: Store> Prefixed<S> {
    /// The part of `inner` under `name`.
    pub fn new(inner: S, name: &Name) -> Self {
        Self { inner, name: name.clone(), prefix: Tuple::new().name(name).key() }
    }

    fn key(&self, key: &Key) -> Key {
        self.prefix.join(key.as_bytes())
    }

    fn range(&self, range: &Range) -> Range {
        match range {
            Range::Key(key) => Range::Key(self.key(key)),
            Range::Prefix(prefix) => Range::Prefix(self.key(prefix)),
            Range::Between { start, end } => {
                Range::Between { start: self.bound(start), end: self.bound(end) }
            }
        }
    }

    /// The bound of a range. One that grows longer than any key can be cut there: no key notices.
    fn bound(&self, bound: &Key) -> Key {
        let bytes = self.key(bound).to_bytes();
        Key::new(bytes.slice(..bytes.len().min(Limits::KEY_BYTES_MAX + 1)))
    }

    fn read(&self, read: Read) -> Read {
        match read {
            Read::Key(key) => Read::Key(self.key(&key)),
            Read::Range { range, limit } => Read::Range { range: self.range(&range), limit },
            Read::List { list, after, limit } => Read::List { list: self.key(&list), after, limit },
        }
    }

    fn check(&self, check: Check) -> Check {
        match check {
            Check::Version(key, version) => Check::Version(self.key(&key), version),
            Check::Absent(key) => Check::Absent(self.key(&key)),
            Check::Present(key) => Check::Present(self.key(&key)),
            Check::Empty(list) => Check::Empty(self.key(&list)),
        }
    }

    fn write(&self, write: Write) -> Write {
        match write {
            Write::Set(key, value) => Write::Set(self.key(&key), value),
            Write::Delete(key) => Write::Delete(self.key(&key)),
            Write::DeleteRange(range) => Write::DeleteRange(self.range(&range)),
            Write::Append(list, value) => Write::Append(self.key(&list), value),
            Write::Remove(list, id) => Write::Remove(self.key(&list), id),
        }
    }

    /// The key as the user of this part knows it.
    fn own(&self, key: &Key) -> Result<Key, StoreError> {
        key.strip_prefix(&self.prefix)
            .ok_or_else(|| StoreError::corrupt(format!("{self} was given the key {key} of another part")))
    }

    fn own_answer(&self, answer: Answer) -> Result<Answer, StoreError> {
        let Answer::Range(mut page) = answer else { return Ok(answer) };
        for item in &mut page.items {
            item.key = self.own(&item.key)?;
        }
        Ok(Answer::Range(page))
    }

    fn own_error(&self, error: CommitError) -> CommitError {
        match error {
            CommitError::Conflict(Conflict::Check { index, key }) => match self.own(&key) {
                Ok(key) => CommitError::Conflict(Conflict::Check { index, key }),
                Err(error) => error.into(),
            },
            other => other,
        }
    }
}

impl<S: Store> fmt::Display for Prefixed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name, self.inner)
    }
}

#[async_trait]
impl<S: Store> Store for Prefixed<S> {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.limits().admit_reads(&reads)?;
        let reads = reads.into_iter().map(|read| self.read(read)).collect();
        let answers = self.inner.read(reads).await?.into_answers();
        answers.into_iter().map(|answer| self.own_answer(answer)).collect::<Result<_, _>>().map(Snapshot::new)
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.limits().admit_commit(&commit)?;
        let commit = Commit {
            checks: commit.checks.into_iter().map(|check| self.check(check)).collect(),
            writes: commit.writes.into_iter().map(|write| self.write(write)).collect(),
        };
        self.inner.commit(commit).await.map_err(|error| self.own_error(error))
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(self.range(&range))
    }

    fn limits(&self) -> Limits {
        let inner = self.inner.limits();
        // Every key of a commit grows by the prefix, so that much is taken off what a commit may hold. (A range has two bounds.)
        let growth = 2 * self.prefix.len() * inner.commit_operations;
        let key_bytes = inner.key_bytes.saturating_sub(self.prefix.len());
        let commit_bytes = inner.commit_bytes.saturating_sub(growth);
        Limits { key_bytes, commit_bytes, value_bytes: inner.value_bytes.min(commit_bytes), ..inner }
    }
}
