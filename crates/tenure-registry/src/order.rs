//! [`Order`]: a request as the leader gets it, and [`judge`]: what is decided about it.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    EntryId, Key, Name, StoreError,
    record::{Decoder, Encoder},
};

use crate::{Owner, batch::Change, message::Answer, names::Names};

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
    pub(crate) owner: Owner,
    pub(crate) change: Change,
}

impl Order {
    /// As it is posted.
    pub(crate) fn encode(request: u64, owner: &Owner, change: &Change) -> Bytes {
        change.encode(owner.encode(Encoder::new(FORMAT)).number(request)).finish()
    }

    pub(crate) fn decode(key: &Key, entry: EntryId, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |decoder| {
            let (owner, request) = (Owner::decode(decoder)?, decoder.number()?);
            Ok(Self { source: Source::Post(entry), request, owner, change: Change::decode(decoder)? })
        })
    }
}

/// What is decided in this batch.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Whose each name is, and under which number.
    names: HashMap<Name, Option<(Owner, u64)>, foldhash::quality::RandomState>,
    /// Registrations that are taken back, by session and number.
    freed: HashSet<(SessionId, u64)>,
}

/// Decides a request by what is committed and what is decided before it. Returns the answer, and whether it changes something.
pub(crate) fn judge(names: &Names, held: &mut Held, order: &Order, position: u64) -> (Answer, bool) {
    let (name, number) = match &order.change {
        Change::Register { name, number, .. }
        | Change::Unregister { name, number }
        | Change::Describe { name, number, .. } => (name, *number),
        Change::Ended | Change::Left { .. } => return (Answer::Done(position), true),
    };
    let known = || names.get(name.as_str()).map(|entry| ((*entry.owner).clone(), entry.number));
    let present = held.names.get(name).cloned().unwrap_or_else(known);
    let registration = (order.owner.session, number);
    let is_mine = present.as_ref().is_some_and(|(owner, its)| *owner == order.owner && *its == number);
    match (&order.change, present) {
        // A copy that comes late must not bring back what its owner has taken back since.
        (Change::Register { .. }, None)
            if held.freed.contains(&registration) || names.was_freed(registration) =>
        {
            (Answer::Gone, false)
        }
        (Change::Register { .. }, None) => {
            held.names.insert(name.clone(), Some((order.owner.clone(), number)));
            (Answer::Done(position), true)
        }
        (Change::Register { .. }, Some(_)) if is_mine => (Answer::Done(position), false),
        (Change::Register { .. }, Some((owner, _))) => (Answer::Taken(owner), false),
        (Change::Unregister { .. }, Some(_)) if is_mine => {
            held.names.insert(name.clone(), None);
            held.freed.insert(registration);
            (Answer::Done(position), true)
        }
        (Change::Describe { .. }, Some(_)) if is_mine => (Answer::Done(position), true),
        _ => (Answer::Gone, false),
    }
}
