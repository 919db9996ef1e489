//! [`Counted`]: a store that counts what is asked of it for the sake of what is measured.

use std::{
    fmt,
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tenure_cluster::Keys;
use tenure_store::{
    Commit, CommitError, Key, Limits, Name, Range, Read, Receipt, Snapshot, Store, StoreError, Watch, Write,
};

/// The areas of keys that keep sessions and members: they cost the same however many messages there are. Keys of sessions are read for the sake of servers too.
const KEEPING: [&str; 5] = ["beat", "local", "member", "changes", "session"];
const KEEPING_READ: usize = 4;

/// What was asked of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Commits.
    pub commits: u64,
    /// Reads, each of one round trip.
    pub reads: u64,
    /// Parts of states that were written.
    pub parts: u64,
    /// Bytes of keys and values that were written.
    pub bytes: u64,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            commits: self.commits - before.commits,
            reads: self.reads - before.reads,
            parts: self.parts - before.parts,
            bytes: self.bytes - before.bytes,
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            commits: self.commits + other.commits,
            reads: self.reads + other.reads,
            parts: self.parts + other.parts,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A store that counts.
#[derive(Debug)]
pub struct Counted {
    inner: Arc<dyn Store>,
    /// What begins with one of these is not counted.
    keeping: Vec<Key>,
    state: Key,
    commits: AtomicU64,
    reads: AtomicU64,
    parts: AtomicU64,
    bytes: AtomicU64,
}

impl Counted {
    /// Counts what is asked of this store, but for what keeps the sessions of this cluster.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, cluster: &Name) -> Self {
        let keys = Keys::new(cluster);
        let area = |word: &str| keys.area(word).key();
        Self {
            inner,
            keeping: KEEPING.map(area).to_vec(),
            state: area("state"),
            commits: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            parts: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// All that was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            commits: self.commits.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            parts: self.parts.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    fn count_commit(&self, commit: &Commit) {
        let first = commit.writes.first().map(write_key);
        if first.is_some_and(|key| is_in(key, &self.keeping)) {
            return;
        }
        let (mut parts, mut bytes) = (0, 0);
        for write in &commit.writes {
            let key = write_key(write);
            parts += u64::from(is_in(key, std::slice::from_ref(&self.state)));
            bytes += key.len();
            if let Write::Set(_, value) | Write::Append(_, value) = write {
                bytes += value.len();
            }
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.parts.fetch_add(parts, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn count_read(&self, reads: &[Read]) {
        let keeping = reads.first().is_some_and(|read| {
            let key = match read {
                Read::Key(key) | Read::List { list: key, .. } => key,
                Read::Range { range, .. } => range.start(),
            };
            is_in(key, &self.keeping[..KEEPING_READ])
        });
        if !keeping {
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_key(write: &Write) -> &Key {
    match write {
        Write::Set(key, _) | Write::Delete(key) | Write::Append(key, _) | Write::Remove(key, _) => key,
        Write::DeleteRange(range) => range.start(),
    }
}

fn is_in(key: &Key, areas: &[Key]) -> bool {
    areas.iter().any(|area| key.as_bytes().starts_with(area.as_bytes()))
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl Store for Counted {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.count_read(&reads);
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.count_commit(&commit);
        self.inner.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}
