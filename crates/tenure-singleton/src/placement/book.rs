//! [`Book`]: records by name, many in one key.
//!
//! Rows cost stores more than bytes do: a thousand singletons are a handful of keys. A page is only ever written by
//! one process at a time, and every write checks the version that it replaces: so a copy of a commit that arrives
//! late, after its answer was lost, can't undo what was written since.

use std::collections::{BTreeMap, BTreeSet};

use tenure_store::{
    Check, Item, Key, Name, Part, Range, StoreError, Tuple, Version, Write,
    record::{Decoder, Encoder},
};

use super::record::Record;

/// How large a page may get before another is begun: a few hundred names of usual length. Each change of one of them
/// rewrites it.
const PAGE_BYTES: usize = 8 * 1024;

/// What a record takes beside its name, about.
const RECORD_BYTES: usize = 24;

const FORMAT: u8 = 1;

/// The records of one kind that belong to one session, as they are in the store.
#[derive(Debug)]
pub(crate) struct Book<R> {
    prefix: Tuple,
    pages: BTreeMap<u64, Page<R>>,
    /// The page of each name.
    places: BTreeMap<Name, u64>,
}

#[derive(Clone, Debug)]
struct Page<R> {
    /// `None` until it is in the store.
    version: Option<Version>,
    records: BTreeMap<Name, R>,
    bytes: usize,
}

/// A page that is to be written.
#[derive(Debug)]
pub(crate) struct Draft<R> {
    number: u64,
    page: Page<R>,
    pub(crate) check: Check,
    pub(crate) write: Write,
}

impl<R: Record> Book<R> {
    pub(crate) fn new(prefix: Tuple) -> Self {
        Self { prefix, pages: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Where its pages are.
    pub(crate) fn range(&self) -> Range {
        self.prefix.range()
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&R> {
        self.pages.get(self.places.get(name)?)?.records.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &R)> {
        self.pages.values().flat_map(|page| &page.records)
    }

    /// All records, by name.
    pub(crate) fn records(&self) -> BTreeMap<Name, R> {
        self.iter().map(|(name, record)| (name.clone(), record.clone())).collect()
    }

    /// What was found in its range, in place of all that was known.
    pub(crate) fn take(&mut self, found: &[Item]) -> Result<(), StoreError> {
        let pages = found.iter().map(|item| Ok((number(&item.key)?, Page::decode(item)?)));
        self.pages = pages.collect::<Result<_, StoreError>>()?;
        self.places.clear();
        for (number, page) in &self.pages {
            self.places.extend(page.records.keys().map(|name| (name.clone(), *number)));
        }
        Ok(())
    }

    /// The pages to write so that it holds just these records.
    pub(crate) fn plan(&self, wanted: &BTreeMap<Name, R>) -> Vec<Draft<R>> {
        let mut pages = self.pages.clone();
        let mut touched = BTreeSet::new();
        for (name, number) in self.places.iter().filter(|(name, _)| !wanted.contains_key(*name)) {
            if let Some(page) = pages.get_mut(number) {
                page.remove(name);
                touched.insert(*number);
            }
        }
        for (name, record) in wanted.iter().filter(|(name, record)| self.get(name) != Some(*record)) {
            let roomy = || pages.iter().find(|(_, page)| page.bytes < PAGE_BYTES).map(|(number, _)| *number);
            let number = self.places.get(name).copied().or_else(roomy);
            let next = pages.last_key_value().map_or(0, |(last, _)| last + 1);
            let number = number.unwrap_or(next);
            pages.entry(number).or_insert_with(Page::new).insert(name, record);
            touched.insert(number);
        }
        touched
            .into_iter()
            .filter_map(|number| pages.remove(&number).map(|page| self.draft(number, page)))
            .collect()
    }

    fn draft(&self, number: u64, page: Page<R>) -> Draft<R> {
        let key = self.prefix.clone().int(number).key();
        let check =
            page.version.map_or(Check::Absent(key.clone()), |version| Check::Version(key.clone(), version));
        let write = if page.records.is_empty() { Write::Delete(key) } else { Write::Set(key, page.encode()) };
        Draft { number, page, check, write }
    }

    /// These pages were written, in this version.
    pub(crate) fn landed(&mut self, drafts: Vec<Draft<R>>, version: Version) {
        for Draft { number, mut page, .. } in drafts {
            if let Some(before) = self.pages.remove(&number) {
                before.records.keys().for_each(|name| {
                    self.places.remove(name);
                });
            }
            if !page.records.is_empty() {
                page.version = Some(version);
                self.places.extend(page.records.keys().map(|name| (name.clone(), number)));
                self.pages.insert(number, page);
            }
        }
    }
}

impl<R: Record> Page<R> {
    fn new() -> Self {
        Self { version: None, records: BTreeMap::new(), bytes: 0 }
    }

    fn insert(&mut self, name: &Name, record: &R) {
        if self.records.insert(name.clone(), record.clone()).is_none() {
            self.bytes += weight(name);
        }
    }

    fn remove(&mut self, name: &Name) {
        if self.records.remove(name).is_some() {
            self.bytes -= weight(name);
        }
    }

    fn encode(&self) -> tenure_store::Bytes {
        let all = self.records.iter();
        Encoder::new(FORMAT)
            .many(all, |into, (name, record)| record.encode(into.text(name.as_str())))
            .finish()
    }

    fn decode(item: &Item) -> Result<Self, StoreError> {
        let records = Decoder::all(&item.key, &item.value, FORMAT, |from| {
            from.many(|from| Ok((from.name()?, R::decode(from)?)))
        })?;
        let records: BTreeMap<Name, R> = records.into_iter().collect();
        let bytes = records.keys().map(weight).sum();
        Ok(Self { version: Some(item.version), records, bytes })
    }
}

fn weight(name: &Name) -> usize {
    name.as_str().len() + RECORD_BYTES
}

/// The number of the page at this key.
fn number(key: &Key) -> Result<u64, StoreError> {
    let number = match Tuple::decode(key)?.parts().last() {
        Some(Part::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    number.ok_or_else(|| StoreError::corrupt(format!("key {key} names no page")))
}

#[cfg(test)]
mod tests {
    use tenure_store::{Commit, MemoryStore, Store as _, StoreExt as _};

    use super::{super::record::Run, *};

    fn wanted(numbers: std::ops::Range<u64>) -> BTreeMap<Name, Run> {
        numbers.map(|n| (format!("singleton {n:05}").parse().unwrap(), Run { term: n })).collect()
    }

    async fn write(store: &MemoryStore, book: &mut Book<Run>, wanted: &BTreeMap<Name, Run>) -> usize {
        let drafts = book.plan(wanted);
        let written = drafts.len();
        if written > 0 {
            let checks = drafts.iter().map(|draft| draft.check.clone()).collect();
            let writes = drafts.iter().map(|draft| draft.write.clone()).collect();
            let receipt = store.commit(Commit { checks, writes }).await.unwrap();
            book.landed(drafts, receipt.version);
        }
        written
    }

    #[tokio::test]
    async fn what_is_wanted_is_what_is_found_and_a_change_writes_one_page() {
        let store = MemoryStore::new();
        let mut book = Book::new(Tuple::new().text("run"));
        let all = wanted(0..1000);
        assert!((2..10).contains(&write(&store, &mut book, &all).await));
        assert_eq!(write(&store, &mut book, &all).await, 0);
        assert_eq!(book.records(), all);
        let mut other = all.clone();
        other.insert("singleton 00500".parse().unwrap(), Run { term: 7 });
        assert_eq!(write(&store, &mut book, &other).await, 1);
        let mut again = Book::<Run>::new(Tuple::new().text("run"));
        again.take(&store.scan(&again.range(), 1000).await.unwrap().items).unwrap();
        assert_eq!(again.records(), other);
        assert_eq!(again.get(&"singleton 00500".parse().unwrap()), Some(&Run { term: 7 }));
        // An old copy, whose answer was lost, comes too late.
        let late = again.plan(&all).remove(0);
        other.insert("singleton 00500".parse().unwrap(), Run { term: 8 });
        assert_eq!(write(&store, &mut again, &other).await, 1);
        let late = Commit::new().check(late.check).write(late.write);
        assert!(store.commit(late).await.is_err());
        write(&store, &mut again, &BTreeMap::new()).await;
        assert!(store.scan(&again.range(), 1).await.unwrap().items.is_empty());
    }
}
