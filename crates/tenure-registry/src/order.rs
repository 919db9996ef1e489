//! [`Order`]: a request as the leader gets it, and [`Held`]: what is decided about it.

use std::collections::HashMap;

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    EntryId, Key, Name, StoreError,
    record::{Decoder, Encoder},
};

use crate::{
    Entry, Owner,
    batch::Change,
    flaws::Flaws,
    message::Answer,
    names::{Names, Pinned},
};

const FORMAT: u8 = 1;

/// Where a request came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// From this node.
    Here,
    /// From another, by a link.
    Peer(Name),
    /// From another, through the store.
    Post(EntryId),
    /// Nobody asked: the leader found it necessary.
    Nobody,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) source: Source,
    /// The number that the owner's node gave it.
    pub(crate) request: u64,
    /// The least number of a request that the owner still waited for when it sent this.
    pub(crate) floor: u64,
    pub(crate) owner: Owner,
    pub(crate) change: Change,
}

impl Order {
    /// As it is posted.
    pub(crate) fn encode(request: u64, floor: u64, owner: &Owner, change: &Change) -> Bytes {
        change.encode(owner.encode(Encoder::new(FORMAT)).number(request).number(floor)).finish()
    }

    pub(crate) fn decode(key: &Key, entry: EntryId, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |decoder| {
            let (owner, request, floor) = (Owner::decode(decoder)?, decoder.number()?, decoder.number()?);
            Ok(Self { source: Source::Post(entry), request, floor, owner, change: Change::decode(decoder)? })
        })
    }

    /// What is a copy once this is committed. Whoever takes part no longer waits for nothing.
    pub(crate) fn settles(&self) -> u64 {
        match self.change {
            Change::Left { through } => self.floor.max(through.saturating_add(1)),
            _ => self.floor,
        }
    }
}

/// Whose a name is: under which number, and by which request it was last described.
#[derive(Clone, Debug)]
struct Holder {
    owner: Owner,
    number: u64,
    described: u64,
}

impl Holder {
    fn of(entry: &Entry) -> Self {
        Self { owner: (*entry.owner).clone(), number: entry.number, described: entry.described }
    }
}

/// What is decided in this batch.
pub(crate) struct Held<'a> {
    committed: &'a Names,
    /// Its table, at hand.
    table: Pinned<'a>,
    /// Whose each name is that was decided about.
    names: HashMap<Name, Option<Holder>, foldhash::quality::RandomState>,
    /// What is a copy, for each session: what is below.
    floors: HashMap<SessionId, u64, foldhash::quality::RandomState>,
    /// A flaw, to be found: no request counts as a copy.
    without_floors: bool,
}

impl<'a> Held<'a> {
    /// Nothing but what is committed.
    pub(crate) fn new(committed: &'a Names, flaws: Flaws) -> Self {
        let (names, floors) = (HashMap::default(), HashMap::default());
        Self { committed, table: committed.pinned(), names, floors, without_floors: flaws.without_floors }
    }

    /// Decides a request by what is committed and what is decided before it. Returns the answer, and whether it changes something.
    ///
    /// A registration that was taken back never comes back. Its owner takes it back only when it waits for no request up to that registration's any more, and says so with it. Whoever is told that
    /// it is taken back has that floor committed: so each copy of the registration's request is known for one, whoever leads.
    pub(crate) fn judge(&mut self, order: &Order, position: u64) -> (Answer, bool) {
        let session = order.owner.session;
        let floor = *self.floors.entry(session).or_insert_with(|| self.committed.floor(session));
        let (answer, changes) = self.decide(order, position, floor);
        if changes {
            self.floors.insert(session, order.settles().max(floor));
        }
        (answer, changes)
    }

    fn decide(&mut self, order: &Order, position: u64, floor: u64) -> (Answer, bool) {
        let (name, number) = match &order.change {
            Change::Register { name, number, .. }
            | Change::Unregister { name, number }
            | Change::Describe { name, number, .. } => (name, *number),
            Change::Ended | Change::Left { .. } => return (Answer::Done(position), true),
        };
        let present = match self.names.get(name) {
            Some(decided) => decided.clone(),
            None => self.table.get(name.as_str()).map(|entry| Holder::of(entry)),
        };
        let own =
            present.as_ref().is_some_and(|holder| holder.owner == order.owner && holder.number == number);
        match (&order.change, present) {
            (Change::Register { .. }, None) if number < floor && !self.without_floors => {
                (Answer::Gone, false)
            }
            (Change::Register { .. }, None) => {
                let holder = Holder { owner: order.owner.clone(), number, described: number };
                self.names.insert(name.clone(), Some(holder));
                (Answer::Done(position), true)
            }
            (Change::Register { .. }, Some(_)) if own => (Answer::Done(position), false),
            (Change::Register { .. }, Some(holder)) => (Answer::Taken(holder.owner), false),
            (Change::Unregister { .. }, Some(_)) if own => {
                self.names.insert(name.clone(), None);
                (Answer::Done(position), true)
            }
            // It may be registered yet, by a copy, unless the floor is known.
            (Change::Unregister { .. }, _) => (Answer::Gone, floor <= number),
            (Change::Describe { request, .. }, Some(holder)) if own => {
                let newer = *request > holder.described;
                if newer {
                    self.names.insert(name.clone(), Some(Holder { described: *request, ..holder }));
                }
                (Answer::Done(position), newer)
            }
            _ => (Answer::Gone, false),
        }
    }
}

#[cfg(test)]
mod tests;
