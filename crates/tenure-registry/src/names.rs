//! [`Names`]: this node's copy of all names, as of one position of the log.
//!
//! Look-ups read a table without locks. What needs an order, an index, or all of one instant reads what is behind a lock that is written once a batch: so no
//! list and no subscription ever sees half a batch.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::{Arc, Weak},
};

use parking_lot::RwLock;
use tenure_cluster::SessionId;
use tenure_store::latest;

use crate::{
    Entry, Owner, Query,
    batch::{Batch, Change},
    log::{Loaded, Mark, Page},
    query::Is,
    subscription::Listener,
};

/// How many registrations that were taken back are remembered: several times what a busy registry takes back while a request, and copies of it, are under way.
const FREED_MAX: usize = 65_536;

/// How many of them are stored, for whoever learns the names from pages: few enough for one value of any store.
const FREED_STORED_MAX: usize = 4096;

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It was registered.
    Joined(Arc<Entry>),
    /// Something else is said about it: what it was, and what it is.
    Changed(Arc<Entry>, Arc<Entry>),
    /// It is free.
    Left(Arc<Entry>),
}

/// What came of a batch that was to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was.
    Applied(Vec<Moved>),
    /// It was before.
    Known,
    /// There is something missing before it.
    Gap,
}

/// All names, as of one position of the log.
#[derive(Debug, Default)]
pub(crate) struct Names {
    table: papaya::HashMap<Arc<str>, Arc<Entry>, foldhash::quality::RandomState>,
    state: RwLock<State>,
    position: latest::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    position: u64,
    /// Of the last batch.
    epoch: u64,
    ordered: BTreeMap<Arc<str>, Arc<Entry>>,
    /// Names by label and value.
    labels: BTreeMap<(String, String), BTreeSet<Arc<str>>>,
    /// Names by whose they are.
    owners: BTreeMap<SessionId, Held>,
    /// About how many bytes all of them take in pages.
    bytes: usize,
    listeners: Vec<Weak<Listener>>,
    freed: Freed,
}

/// The registrations that were taken back last, by session and number: a request for one of them that comes late is a copy.
#[derive(Debug, Default)]
struct Freed {
    known: BTreeSet<Mark>,
    order: VecDeque<Mark>,
}

impl Freed {
    fn add(&mut self, registration: Mark) {
        if self.known.insert(registration) {
            self.order.push_back(registration);
        }
        if self.order.len() > FREED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Nothing is registered any more in the name of a session that has ended.
    fn forget(&mut self, session: SessionId) {
        self.known.retain(|(of, _)| *of != session);
        self.order.retain(|(of, _)| *of != session);
    }
}

/// The names of one session.
#[derive(Debug)]
struct Held {
    owner: Arc<Owner>,
    /// By number, which a node counts up: cheaper to keep in order than names.
    names: BTreeSet<(u64, Arc<str>)>,
}

impl Names {
    /// Whose a name is.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.table.pin().get(name).cloned()
    }

    /// Up to which position of the log everything is applied.
    pub(crate) fn position(&self) -> u64 {
        self.state.read().position
    }

    /// Whether a registration is known to have been taken back.
    pub(crate) fn was_freed(&self, registration: Mark) -> bool {
        self.state.read().freed.known.contains(&registration)
    }

    /// The registrations that were taken back last, the oldest first: as many as are stored.
    pub(crate) fn freed(&self) -> Vec<Mark> {
        let state = self.state.read();
        let order = &state.freed.order;
        order.range(order.len().saturating_sub(FREED_STORED_MAX)..).copied().collect()
    }

    /// The epoch of the last batch that is applied.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.read().epoch
    }

    /// How many there are, and about how many bytes they take in pages.
    pub(crate) fn size(&self) -> (usize, usize) {
        let state = self.state.read();
        (state.ordered.len(), state.bytes)
    }

    /// Returns when everything up to this position is applied.
    pub(crate) async fn reach(&self, position: u64) {
        if *self.position.borrow() >= position {
            return;
        }
        // The sender lives as long as this.
        let _ = self.position.subscribe().wait_for(|present| *present >= position).await;
    }

    /// The sessions that own names.
    pub(crate) fn owners(&self) -> Vec<Arc<Owner>> {
        self.state.read().owners.values().map(|held| Arc::clone(&held.owner)).collect()
    }

    /// How many names a session has.
    pub(crate) fn count_of(&self, session: SessionId) -> usize {
        self.state.read().owners.get(&session).map_or(0, |held| held.names.len())
    }

    /// The names of a session.
    pub(crate) fn owned_by(&self, session: SessionId) -> Vec<Arc<Entry>> {
        let state = self.state.read();
        let names = state.owners.get(&session).map(|held| held.names.iter());
        names.into_iter().flatten().filter_map(|(_, name)| state.ordered.get(name).cloned()).collect()
    }

    /// Applies a batch, if it is the next.
    pub(crate) fn apply(&self, position: u64, batch: &Batch) -> Step {
        let mut state = self.state.write();
        if position <= state.position {
            return Step::Known;
        }
        if position > state.position + 1 {
            return Step::Gap;
        }
        let mut moved = Vec::new();
        for (owner, change) in batch.iter() {
            self.change(&mut state, position, batch, owner, change, &mut moved);
        }
        state.position = position;
        state.epoch = batch.epoch;
        state.tell(&moved);
        drop(state);
        self.position.send_replace(position);
        Step::Applied(moved)
    }

    fn change(
        &self,
        state: &mut State,
        position: u64,
        batch: &Batch,
        owner: &Owner,
        change: &Change,
        moved: &mut Vec<Moved>,
    ) {
        match change {
            Change::Register { name, number, metadata } => {
                let owner = state
                    .owners
                    .get(&owner.session)
                    .map_or_else(|| Arc::new(owner.clone()), |held| Arc::clone(&held.owner));
                let entry = Arc::new(Entry {
                    name: name.to_shared(),
                    owner,
                    number: *number,
                    metadata: metadata.clone(),
                    since_ms: batch.at_ms,
                    epoch: batch.epoch,
                    position,
                });
                moved.extend(self.insert(state, Arc::clone(&entry)).map(Moved::Left));
                moved.push(Moved::Joined(entry));
            }
            Change::Unregister { name, number } => {
                state.freed.add((owner.session, *number));
                if state.has(name.as_str(), owner, *number)
                    && let Some(entry) = self.remove(state, name.as_str())
                {
                    moved.push(Moved::Left(entry));
                }
            }
            Change::Describe { name, number, metadata } => {
                if state.has(name.as_str(), owner, *number)
                    && let Some(before) = state.ordered.get(name.as_str()).cloned()
                {
                    let entry = Arc::new(Entry { metadata: metadata.clone(), ..(*before).clone() });
                    self.insert(state, Arc::clone(&entry));
                    moved.push(Moved::Changed(before, entry));
                }
            }
            Change::Left { through } => {
                let held = state.owners.get(&owner.session).map(|held| held.names.iter());
                let names = held.into_iter().flatten().take_while(|(number, _)| number <= through);
                let names: Vec<Arc<str>> = names.map(|(_, name)| Arc::clone(name)).collect();
                for name in names {
                    moved.extend(self.remove(state, &name).map(Moved::Left));
                }
            }
            Change::Ended => {
                // Taken out as a whole: one by one, many names would take several times as long.
                state.freed.forget(owner.session);
                let held = state.owners.remove(&owner.session);
                for (_, name) in held.into_iter().flat_map(|held| held.names) {
                    moved.extend(self.remove(state, &name).map(Moved::Left));
                }
            }
        }
    }

    /// Claims to be somewhere without having got there: a flaw, to be found.
    pub(crate) fn pretend(&self, position: u64) {
        let mut state = self.state.write();
        state.position = state.position.max(position);
    }

    /// Puts what was loaded from the store in place of all that is here. Returns what has become of names by that. Listeners get a snapshot: what came and went meanwhile is in no log any more.
    pub(crate) fn replace(&self, Loaded { position, epoch, entries, freed }: Loaded) -> Vec<Moved> {
        let mut state = self.state.write();
        if position <= state.position {
            return Vec::new();
        }
        freed.into_iter().for_each(|mark| state.freed.add(mark));
        let mut moved = Vec::new();
        let gone: Vec<Arc<str>> =
            state.ordered.keys().filter(|name| !entries.contains_key(*name)).cloned().collect();
        for name in gone {
            moved.extend(self.remove(&mut state, &name).map(Moved::Left));
        }
        for entry in entries.into_values() {
            match state.ordered.get(&entry.name).cloned() {
                Some(before) if before == entry => {}
                Some(before) => {
                    self.insert(&mut state, Arc::clone(&entry));
                    if (&before.owner, before.number) == (&entry.owner, entry.number) {
                        moved.push(Moved::Changed(before, entry));
                    } else {
                        moved.extend([Moved::Left(before), Moved::Joined(entry)]);
                    }
                }
                None => {
                    self.insert(&mut state, Arc::clone(&entry));
                    moved.push(Moved::Joined(entry));
                }
            }
        }
        (state.position, state.epoch) = (position, epoch);
        state.each_listener(Listener::start_anew);
        drop(state);
        self.position.send_replace(position);
        moved
    }

    /// Puts an entry in, and returns the one that had its name before.
    fn insert(&self, state: &mut State, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let before = state.ordered.insert(Arc::clone(&entry.name), Arc::clone(&entry));
        if let Some(before) = &before {
            state.forget(before);
        }
        for (key, value) in &entry.metadata.labels {
            let place = (key.clone(), value.clone());
            state.labels.entry(place).or_default().insert(Arc::clone(&entry.name));
        }
        let held = state
            .owners
            .entry(entry.owner.session)
            .or_insert_with(|| Held { owner: Arc::clone(&entry.owner), names: BTreeSet::new() });
        held.names.insert((entry.number, Arc::clone(&entry.name)));
        state.bytes += entry.weight();
        self.table.pin().insert(Arc::clone(&entry.name), entry);
        before
    }

    fn remove(&self, state: &mut State, name: &str) -> Option<Arc<Entry>> {
        let entry = state.ordered.remove(name)?;
        state.forget(&entry);
        self.table.pin().remove(name);
        Some(entry)
    }

    /// Those that a query means, in the order of names, behind `after`, and the position that they are of.
    pub(crate) fn list(&self, query: &Query, after: Option<&str>, limit: usize) -> (Vec<Arc<Entry>>, u64) {
        let state = self.state.read();
        let found = state.candidates(query, after).filter(|entry| query.matches(entry)).take(limit);
        (found.collect(), state.position)
    }

    /// The last names from `first` up to `end`, of about so many bytes, as a page; and whether these are all.
    pub(crate) fn last_page(&self, first: &str, end: Option<&str>, bytes: usize) -> (Page, bool) {
        let state = self.state.read();
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut entries, mut weight, mut whole) = (Vec::new(), 0, true);
        for entry in
            state.ordered.range::<str, _>((Bound::Included(first), end)).map(|(_, entry)| entry).rev()
        {
            if weight > bytes {
                whole = false;
                break;
            }
            weight += entry.weight();
            entries.push(Arc::clone(entry));
        }
        entries.reverse();
        (Page { position: state.position, entries }, whole)
    }

    /// Has a listener told from now on, and gives `take` what is there at this instant.
    pub(crate) fn listen<T>(
        &self,
        listener: &Arc<Listener>,
        take: impl FnOnce(Vec<Arc<Entry>>, u64) -> T,
    ) -> T {
        let mut state = self.state.write();
        state.listeners.retain(|known| known.strong_count() > 0);
        if !state.listeners.iter().any(|known| known.as_ptr() == Arc::as_ptr(listener)) {
            state.listeners.push(Arc::downgrade(listener));
        }
        let query = &listener.query;
        let found = state.candidates(query, None).filter(|entry| query.matches(entry)).collect();
        take(found, state.position)
    }
}

impl State {
    /// Whether a name is registered so.
    fn has(&self, name: &str, owner: &Owner, number: u64) -> bool {
        self.ordered
            .get(name)
            .is_some_and(|entry| entry.owner.session == owner.session && entry.number == number)
    }

    /// Takes an entry out of every index.
    fn forget(&mut self, entry: &Entry) {
        for (key, value) in &entry.metadata.labels {
            let place = (key.clone(), value.clone());
            if let Some(names) = self.labels.get_mut(&place) {
                names.remove(&entry.name);
                if names.is_empty() {
                    self.labels.remove(&place);
                }
            }
        }
        if let Some(held) = self.owners.get_mut(&entry.owner.session) {
            held.names.remove(&(entry.number, Arc::clone(&entry.name)));
            if held.names.is_empty() {
                self.owners.remove(&entry.owner.session);
            }
        }
        self.bytes -= entry.weight();
    }

    /// All that a query could mean, and few others, in the order of names.
    fn candidates<'a>(
        &'a self,
        query: &'a Query,
        after: Option<&str>,
    ) -> Box<dyn Iterator<Item = Arc<Entry>> + 'a> {
        let start: Bound<&str> = match after {
            Some(after) if after >= &*query.prefix => Bound::Excluded(after),
            _ => Bound::Included(&query.prefix),
        };
        let within = move |name: &Arc<str>| name.starts_with(&*query.prefix);
        let named = |name: &Arc<str>| self.ordered.get(name).cloned();
        let equal = query.labels.iter().find_map(|(key, is)| match is {
            Is::Equal(value) => Some((key.clone(), value.clone())),
            Is::Prefix(_) => None,
        });
        if let Some(place) = equal {
            let Some(names) = self.labels.get(&place) else { return Box::new(std::iter::empty()) };
            let names = names.range::<str, _>((start, Bound::Unbounded)).take_while(move |name| within(name));
            return Box::new(names.filter_map(named));
        }
        if let Some((key, Is::Prefix(prefix))) = query.labels.first() {
            let from = (key.clone(), prefix.clone());
            let values = self.labels.range(from..);
            let values =
                values.take_while(|((label, value), _)| label == key && value.starts_with(&**prefix));
            let names: BTreeSet<&Arc<str>> = values
                .flat_map(|(_, names)| names.range::<str, _>((start, Bound::Unbounded)))
                .filter(|name| within(name))
                .collect();
            return Box::new(names.into_iter().filter_map(named));
        }
        let all = self.ordered.range::<str, _>((start, Bound::Unbounded));
        Box::new(all.take_while(move |(name, _)| within(name)).map(|(_, entry)| Arc::clone(entry)))
    }

    fn tell(&mut self, moved: &[Moved]) {
        if moved.is_empty() {
            return;
        }
        let position = self.position;
        self.each_listener(|listener| listener.hear(moved, position));
    }

    fn each_listener(&mut self, tell: impl Fn(&Listener)) {
        self.listeners.retain(|listener| listener.upgrade().inspect(|listener| tell(listener)).is_some());
    }
}

#[cfg(test)]
mod tests;
