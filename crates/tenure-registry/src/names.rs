//! [`Names`]: this node's copy of all names, as of one position of the log.
//!
//! Look-ups read a table without locks. What needs an order, an index, or all of one instant reads what is behind a lock that is written once a batch: so no
//! list and no subscription ever sees half a batch.

mod turn;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{Arc, Weak},
};

use parking_lot::RwLock;
use tenure_cluster::SessionId;
use tenure_store::latest;

use self::turn::Turn;
use crate::{
    Entry, Owner, Query,
    batch::{Batch, Party},
    log::{Loaded, Page},
    query::Is,
    subscription::Listener,
};

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

/// What look-ups read.
type Table = papaya::HashMap<Arc<str>, Arc<Entry>, foldhash::quality::RandomState>;

/// The same, at hand for many of them.
pub(crate) type Pinned<'a> =
    papaya::HashMapRef<'a, Arc<str>, Arc<Entry>, foldhash::quality::RandomState, papaya::LocalGuard<'a>>;

/// All names, as of one position of the log.
#[derive(Debug, Default)]
pub(crate) struct Names {
    table: Table,
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
    /// Everyone who has asked for something, and whose session has not ended.
    owners: BTreeMap<SessionId, Held>,
    /// About how many bytes all of them take in pages.
    bytes: usize,
    listeners: Vec<Weak<Listener>>,
}

/// The names of one session.
#[derive(Debug)]
struct Held {
    owner: Arc<Owner>,
    /// The least number of a request that it still waited for, by its last word.
    floor: u64,
    /// By number, which a node counts up: cheaper to keep in order than names.
    names: BTreeMap<u64, Arc<str>>,
}

impl Names {
    /// Whose a name is.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.table.pin().get(name).cloned()
    }

    /// The table at hand, for many look-ups.
    pub(crate) fn pinned(&self) -> Pinned<'_> {
        self.table.pin()
    }

    /// Up to which position of the log everything is applied.
    pub(crate) fn position(&self) -> u64 {
        self.state.read().position
    }

    /// The least number of a request that a session still waited for, by its last word: what is below is a copy.
    pub(crate) fn floor(&self, session: SessionId) -> u64 {
        self.state.read().owners.get(&session).map_or(0, |held| held.floor)
    }

    /// The same for all sessions.
    pub(crate) fn parties(&self) -> Vec<Party> {
        let state = self.state.read();
        let party = |held: &Held| Party { owner: (*held.owner).clone(), floor: held.floor };
        state.owners.values().map(party).collect()
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

    /// The sessions that have asked for something, and are not known to have ended.
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
    pub(crate) fn apply(&self, position: u64, batch: Batch) -> Step {
        let mut state = self.state.write();
        if position <= state.position {
            return Step::Known;
        }
        if position > state.position + 1 {
            return Step::Gap;
        }
        let mut turn = Turn {
            state: &mut state,
            table: self.table.pin(),
            batch: (batch.at_ms, batch.epoch, position),
            moved: Vec::with_capacity(batch.changes.len()),
        };
        let owners: Vec<Arc<Owner>> = batch.parties.iter().map(|party| turn.state.raise(party)).collect();
        for (place, change) in batch.changes {
            if let Some(owner) = usize::try_from(place).ok().and_then(|place| owners.get(place)) {
                turn.change(owner, change);
            }
        }
        let moved = turn.end();
        state.position = position;
        state.epoch = batch.epoch;
        state.tell(&moved);
        drop(state);
        self.position.send_replace(position);
        Step::Applied(moved)
    }

    /// Claims to be somewhere without having got there: a flaw, to be found.
    pub(crate) fn pretend(&self, position: u64) {
        let mut state = self.state.write();
        state.position = state.position.max(position);
    }

    /// Puts what was loaded from the store in place of all that is here. Returns what has become of names by that. Listeners get a snapshot: what came and went meanwhile is in no log any more.
    pub(crate) fn replace(&self, Loaded { position, epoch, entries, parties }: Loaded) -> Vec<Moved> {
        let mut state = self.state.write();
        if position <= state.position {
            return Vec::new();
        }
        let mut turn = Turn {
            state: &mut state,
            table: self.table.pin(),
            batch: (0, epoch, position),
            moved: Vec::new(),
        };
        turn.replace(entries);
        let moved = turn.end();
        // Those who are not among them have ended.
        state.owners.retain(|session, held| !held.names.is_empty() || parties.contains_key(session));
        for (owner, floor) in parties.into_values() {
            state.held(&owner).floor = floor;
        }
        (state.position, state.epoch) = (position, epoch);
        state.each_listener(Listener::start_anew);
        drop(state);
        self.position.send_replace(position);
        moved
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
    /// Takes down what an owner has told. Returns the one that all its names share.
    fn raise(&mut self, Party { owner, floor }: &Party) -> Arc<Owner> {
        let held = self.held(owner);
        held.floor = held.floor.max(*floor);
        Arc::clone(&held.owner)
    }

    /// What is held by an owner, which may have asked for nothing before.
    fn held(&mut self, owner: &Owner) -> &mut Held {
        let new = || Held { owner: Arc::new(owner.clone()), floor: 0, names: BTreeMap::new() };
        self.owners.entry(owner.session).or_insert_with(new)
    }

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
            held.names.remove(&entry.number);
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
