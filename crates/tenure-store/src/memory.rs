//! [`MemoryStore`]: the model. It lives in one process and dies with it.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    ops::Bound::{Excluded, Included, Unbounded},
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    Answer, Check, Commit, CommitError, Conflict, Entry, EntryId, Item, Key, Limits, Page, Range, Read,
    Receipt, Snapshot, Store, StoreError, Version, Versioned, Watch, WatchHub, Weigh, Write,
};

/// A store in memory: every request takes one lock, so that its correctness is plain to see. The other stores are compared
/// with it. Nothing in it survives the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    hub: WatchHub,
}

#[derive(Debug, Default)]
struct State {
    /// The version of the last commit; each commit takes the next.
    version: u64,
    keys: BTreeMap<Key, Versioned>,
    /// The entries of all lists, by list, then by id.
    entries: BTreeMap<(Key, EntryId), Bytes>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory")
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.limits().admit_reads(&reads)?;
        let state = self.state.lock();
        Ok(Snapshot::new(reads.iter().map(|read| state.answer(read)).collect()))
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.limits().admit_commit(&commit)?;
        let changed: Vec<Range> = commit.writes.iter().map(Write::range).collect();
        let receipt = self.state.lock().commit(commit)?;
        self.hub.wake(changed);
        Ok(receipt)
    }

    fn watch(&self, range: Range) -> Watch {
        self.hub.watch(range)
    }

    fn limits(&self) -> Limits {
        Limits::EMBEDDED
    }
}

impl State {
    fn answer(&self, read: &Read) -> Answer {
        match read {
            Read::Key(key) => Answer::Key(self.keys.get(key).cloned()),
            Read::Range { range, limit } => {
                let items = self.keys_in(range).map(|(key, Versioned { value, version })| Item {
                    key: key.clone(),
                    value: value.clone(),
                    version: *version,
                });
                Answer::Range(page(items, *limit))
            }
            Read::List { list, after, limit } => {
                let entries = self.entries_of(list, after.as_ref());
                let entries = entries.map(|((_, id), value)| Entry { id: id.clone(), value: value.clone() });
                Answer::List(page(entries, *limit))
            }
        }
    }

    fn commit(&mut self, commit: Commit) -> Result<Receipt, Conflict> {
        let failed = commit.checks.iter().position(|check| !self.holds(check));
        if let Some(index) = failed {
            return Err(Conflict::Check { index, key: commit.checks[index].key().clone() });
        }
        self.version += 1;
        let version = Version(self.version);
        for (index, write) in commit.writes.into_iter().enumerate() {
            match write {
                Write::Set(key, value) => {
                    self.keys.insert(key, Versioned { value, version });
                }
                Write::Delete(key) => {
                    self.keys.remove(&key);
                }
                Write::DeleteRange(range) => {
                    self.keys.retain(|key, _| !range.contains(key));
                    self.entries.retain(|(list, _), _| !range.contains(list));
                }
                Write::Append(list, value) => {
                    self.entries.insert((list, entry_id(version, index)), value);
                }
                Write::Remove(list, id) => {
                    self.entries.remove(&(list, id));
                }
            }
        }
        Ok(Receipt { version })
    }

    fn holds(&self, check: &Check) -> bool {
        match check {
            Check::Version(key, version) => self.keys.get(key).is_some_and(|found| found.version == *version),
            Check::Absent(key) => !self.keys.contains_key(key),
            Check::Present(key) => self.keys.contains_key(key),
            Check::Empty(list) => self.entries_of(list, None).next().is_none(),
        }
    }

    fn keys_in(&self, range: &Range) -> impl Iterator<Item = (&Key, &Versioned)> {
        self.keys.range(range.start().clone()..).take_while(|(key, _)| range.contains(key))
    }

    fn entries_of(
        &self,
        list: &Key,
        after: Option<&EntryId>,
    ) -> impl Iterator<Item = (&(Key, EntryId), &Bytes)> {
        let start = match after {
            None => Included((list.clone(), EntryId::new(Bytes::new()))),
            Some(id) => Excluded((list.clone(), id.clone())),
        };
        self.entries.range((start, Unbounded)).take_while(move |((of, _), _)| of == list)
    }
}

fn page<T: Weigh>(found: impl Iterator<Item = T>, limit: usize) -> Page<T> {
    let Ok(page) = Page::gather(found.map(Ok::<T, Infallible>), limit, Limits::EMBEDDED.page_bytes);
    page
}

/// Sorts by commit, then by place in the commit.
fn entry_id(version: Version, index: usize) -> EntryId {
    let mut id = version.0.to_be_bytes().to_vec();
    id.extend_from_slice(&(index as u64).to_be_bytes());
    EntryId::new(id)
}
