//! [`Log`]: how names are read back from the store.
//!
//! What is true is the log: batch after batch, each committed by whoever led then. So that it does not grow for ever, the leader writes names into pages now and
//! then, and removes what they contain from the log. Pages are written one by one, at different positions; what is read is put
//! together from all of them and the log behind its base.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Item, Key, Range, Read, Store, StoreError, Version, Versioned,
    record::{Decoder, Encoder},
};

use crate::{
    Entry, Owner,
    batch::{Batch, Change, Party},
    elector::Led,
    keys::RegistryKeys,
};

const FORMAT: u8 = 1;

/// How often reading starts anew because the log was shortened meanwhile: that takes a leader many commits each time.
const TRIES: usize = 20;

/// Up to where the log was removed, and the epoch of the batch there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) position: u64,
    pub(crate) epoch: u64,
}

impl Base {
    pub(crate) fn encode(self) -> Bytes {
        Encoder::new(FORMAT).number(self.position).number(self.epoch).finish()
    }

    fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |decoder| {
            Ok(Self { position: decoder.number()?, epoch: decoder.number()? })
        })
    }
}

/// What all owners have told: what is below is a copy.
pub(crate) fn encode_floors(parties: &[Party]) -> Bytes {
    Encoder::new(FORMAT).many(parties.iter(), |encoder, party| party.encode(encoder)).finish()
}

fn decode_floors(key: &Key, value: &[u8]) -> Result<Vec<Party>, StoreError> {
    Decoder::all(key, value, FORMAT, |decoder| decoder.many(Party::decode))
}

/// The end of the log, and who leads at the instant it was read.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) led: Led,
    /// Of the leader's key.
    pub(crate) version: Option<Version>,
    pub(crate) base: Base,
    /// Of the base's key.
    pub(crate) base_version: Option<Version>,
    /// All that is behind the position that was asked for; nothing, if the base is behind it too.
    pub(crate) batches: Vec<(u64, Bytes)>,
}

/// All names, as of a position.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) position: u64,
    pub(crate) epoch: u64,
    pub(crate) entries: BTreeMap<Arc<str>, Arc<Entry>>,
    /// Everyone who has asked for something, and whose session has not ended.
    pub(crate) parties: Parties,
}

/// Owners by their sessions, each with the floor that it has told.
pub(crate) type Parties = BTreeMap<SessionId, (Arc<Owner>, u64)>;

/// Names that are stored together.
#[derive(Debug, PartialEq)]
pub(crate) struct Page {
    /// As of which position.
    pub(crate) position: u64,
    pub(crate) entries: Vec<Arc<Entry>>,
}

impl Page {
    pub(crate) fn encode(&self) -> Bytes {
        let bytes = self.entries.iter().map(|entry| entry.weight()).sum();
        Encoder::with_room(FORMAT, bytes)
            .number(self.position)
            .many(self.entries.iter(), |encoder, entry| entry.encode(encoder))
            .finish()
    }

    fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |decoder| {
            let position = decoder.number()?;
            Ok(Self { position, entries: decoder.many(|decoder| Entry::decode(decoder).map(Arc::new))? })
        })
    }
}

/// The log of a registry in the store.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Arc<RegistryKeys>,
}

impl Log {
    /// What is behind a position, and who leads: all as of the instant of the last read.
    pub(crate) async fn tail(&self, after: u64) -> Result<Tail, StoreError> {
        let mut batches: Vec<(u64, Bytes)> = Vec::new();
        loop {
            let last = batches.last().map_or(after, |(position, _)| *position);
            let limit = self.store.limits().page_items;
            let reads = vec![
                Read::Key(self.keys.leader.clone()),
                Read::Key(self.keys.base.clone()),
                Read::Range { range: self.keys.log_after(last), limit },
            ];
            let found = self.store.read(reads).await?;
            let (led, version) = match found.key(0) {
                Some(value) => (Led::read(&self.keys.leader, &value.value)?, Some(value.version)),
                None => (Led::default(), None),
            };
            let (base, base_version) = (self.read_base(found.key(1))?, found.key(1).map(|base| base.version));
            if base.position > last {
                return Ok(Tail { led, version, base, base_version, batches: Vec::new() });
            }
            let page = found.range(2);
            for item in &page.items {
                batches.push((RegistryKeys::position_of(&item.key)?, item.value.clone()));
            }
            if !page.more {
                return Ok(Tail { led, version, base, base_version, batches });
            }
        }
    }

    async fn base(&self) -> Result<(Base, Vec<Party>), StoreError> {
        let reads = vec![Read::Key(self.keys.base.clone()), Read::Key(self.keys.floors.clone())];
        let found = self.store.read(reads).await?;
        let floors = found.key(1).map(|floors| decode_floors(&self.keys.floors, &floors.value));
        Ok((self.read_base(found.key(0))?, floors.transpose()?.unwrap_or_default()))
    }

    fn read_base(&self, found: Option<&Versioned>) -> Result<Base, StoreError> {
        found.map_or(Ok(Base::default()), |found| Base::decode(&self.keys.base, &found.value))
    }

    /// A batch of the log.
    pub(crate) fn batch(&self, position: u64, bytes: &[u8]) -> Result<Batch, StoreError> {
        Batch::decode(&self.keys.batch(position), bytes)
    }

    /// All names, from pages and log.
    pub(crate) async fn load(&self) -> Result<Loaded, StoreError> {
        for _ in 0..TRIES {
            let (base, floors) = self.base().await?;
            let pages = self.scan(self.keys.pages()).await?;
            let tail = self.tail(base.position).await?;
            // If it was shortened meanwhile, what the pages lack may be missing from it.
            if tail.base == base {
                return self.assemble(&pages, &tail, &floors);
            }
        }
        Err(StoreError::unavailable("the log of names was shortened each time while it was read"))
    }

    /// What pages there are, by the names that they begin with.
    pub(crate) async fn firsts(&self) -> Result<BTreeSet<String>, StoreError> {
        self.scan(self.keys.pages()).await?.iter().map(|item| RegistryKeys::first_of(&item.key)).collect()
    }

    async fn scan(&self, mut range: Range) -> Result<Vec<Item>, StoreError> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let limit = self.store.limits().page_items;
            let found = self.store.read(vec![Read::Range { range: range.clone(), limit }]).await?;
            let page = found.range(0);
            items.extend(page.items.iter().cloned());
            match items.last() {
                Some(last) if page.more => range = range.after(&last.key),
                _ => return Ok(items),
            }
        }
    }

    fn assemble(&self, pages: &[Item], tail: &Tail, floors: &[Party]) -> Result<Loaded, StoreError> {
        let mut assembly = Assembly::default();
        floors.iter().for_each(|party| assembly.tell(party));
        for item in pages {
            let page = Page::decode(&item.key, &item.value)?;
            assembly.take_page(&RegistryKeys::first_of(&item.key)?, page);
        }
        let mut last = tail.base;
        for (position, bytes) in &tail.batches {
            if *position != last.position + 1 {
                let key = self.keys.batch(last.position + 1);
                return Err(StoreError::corrupt(format!("the log has no {key}, but {position}")));
            }
            let batch = self.batch(*position, bytes)?;
            assembly.take_batch(*position, &batch);
            last = Base { position: *position, epoch: batch.epoch };
        }
        let Assembly { entries, parties, .. } = assembly;
        Ok(Loaded { position: last.position, epoch: last.epoch, entries, parties })
    }
}

/// Names that are being put together.
#[derive(Debug, Default)]
struct Assembly {
    entries: BTreeMap<Arc<str>, Arc<Entry>>,
    /// As of which position the names from here up to the next are.
    covered: BTreeMap<String, u64>,
    /// One for all names of a session.
    parties: Parties,
}

impl Assembly {
    /// Pages come in order. One that was read later may have been split off from the one before it, since that was read: what that has of its names is outdated.
    fn take_page(&mut self, first: &str, page: Page) {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(first), Bound::Unbounded);
        let outdated: Vec<Arc<str>> =
            self.entries.range::<str, _>(from).map(|(name, _)| Arc::clone(name)).collect();
        for name in outdated {
            self.entries.remove(&name);
        }
        self.covered.insert(first.to_owned(), page.position);
        for mut entry in page.entries {
            if let Some(own) = Arc::get_mut(&mut entry) {
                own.owner = self.shared(&own.owner);
            }
            self.entries.insert(Arc::clone(&entry.name), entry);
        }
    }

    /// The owner that all names of its session share.
    fn shared(&mut self, owner: &Owner) -> Arc<Owner> {
        Arc::clone(&self.party(owner).0)
    }

    fn party(&mut self, owner: &Owner) -> &mut (Arc<Owner>, u64) {
        self.parties.entry(owner.session).or_insert_with(|| (Arc::new(owner.clone()), 0))
    }

    fn tell(&mut self, party: &Party) {
        let floor = &mut self.party(&party.owner).1;
        *floor = party.floor.max(*floor);
    }

    /// Whether the page of a name already has what was done at a position.
    fn has(&self, name: &str, position: u64) -> bool {
        let through: (Bound<&str>, Bound<&str>) = (Bound::Unbounded, Bound::Included(name));
        self.covered.range::<str, _>(through).next_back().is_some_and(|(_, covered)| *covered >= position)
    }

    fn take_batch(&mut self, position: u64, batch: &Batch) {
        batch.parties.iter().for_each(|party| self.tell(party));
        for (owner, change) in batch.iter() {
            match change {
                Change::Register { name, .. }
                | Change::Unregister { name, .. }
                | Change::Describe { name, .. }
                    if self.has(name.as_str(), position) => {}
                Change::Register { name, number, metadata } => {
                    let name: Arc<str> = name.as_str().into();
                    let entry = Entry {
                        name: Arc::clone(&name),
                        owner: self.shared(owner),
                        number: *number,
                        described: *number,
                        metadata: metadata.clone(),
                        since_ms: batch.at_ms,
                        epoch: batch.epoch,
                        position,
                    };
                    self.entries.insert(name, Arc::new(entry));
                }
                Change::Unregister { name, number } => {
                    if self.is(name.as_str(), owner, *number) {
                        self.entries.remove(name.as_str());
                    }
                }
                Change::Describe { name, number, request, metadata } => {
                    if self.is(name.as_str(), owner, *number)
                        && let Some(entry) = self.entries.get_mut(name.as_str())
                    {
                        let (described, metadata) = (*request, metadata.clone());
                        *entry = Arc::new(Entry { described, metadata, ..(**entry).clone() });
                    }
                }
                Change::Ended => {
                    self.end(owner.session, u64::MAX, position);
                    self.parties.remove(&owner.session);
                }
                Change::Left { through } => self.end(owner.session, *through, position),
            }
        }
    }

    fn is(&self, name: &str, owner: &Owner, number: u64) -> bool {
        let found = self.entries.get(name);
        found.is_some_and(|entry| entry.owner.session == owner.session && entry.number == number)
    }

    fn end(&mut self, session: SessionId, through: u64, position: u64) {
        let of_session = |entry: &&Arc<Entry>| entry.owner.session == session && entry.number <= through;
        let names: Vec<Arc<str>> =
            self.entries.values().filter(of_session).map(|entry| Arc::clone(&entry.name)).collect();
        for name in names {
            if !self.has(&name, position) {
                self.entries.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
