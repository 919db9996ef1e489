//! How a commit and a read become arguments of the two procedures: bytes, most significant first.
//!
//! ```text
//! locks      mode 1, slot 4
//! checks     kind 1 (0 Version, 1 Absent, 2 Present, 3 Empty), version 8, length 2, name
//! writes     kind 1 (0 Set, 1 Delete, 2 Append, 3 Remove, 4 key and list, 5 range, 6 range without end), length 2, size 4, name, value
//!            (the value of Remove is the id of the entry, that of a range is its end)
//! id         version 8 (count 6, session 2), place 1, index 3
//! questions  kind 1 (0 Key, 1 range, 2 range without end, 3 list), limit 4, length 2, size 2, name, end or id
//! ```

use std::borrow::Cow;

use mysql_async::{Params, Value};
use tenure_store::{Check, Commit, EntryId, Range, Read, StoreError, Write};

use crate::{
    note::{self, Stamp},
    slots::{self, Locker},
};

/// What the gate is to a commit: the procedure holds one desk, all of them, or all of them and changes them.
const ONE_DESK: u8 = 0;
const ALL_DESKS: u8 = 1;
const ALL_DESKS_TOUCHED: u8 = 2;

/// How long the ids of entries are.
const ID_BYTES: usize = 12;

/// An id that no entry has, and that sorts before all that they have.
const NO_ID: [u8; ID_BYTES] = [0; ID_BYTES];

/// Refuses to read on from an entry id that this store can't have given.
pub(crate) fn admit_ids(reads: &[Read]) -> Result<(), StoreError> {
    for read in reads {
        if let Read::List { list, after: Some(id), .. } = read
            && id.as_bytes().len() != ID_BYTES
        {
            return Err(StoreError::invalid(format!(
                "{id:?} is no entry of list {list}: read on from an id that this store gave"
            )));
        }
    }
    Ok(())
}

/// Who commits: what the procedure needs to know of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) locker: Locker,
    /// Its desk.
    pub(crate) desk: u32,
    /// Its number, which goes into its versions.
    pub(crate) number: u16,
    /// The stamp of its next note.
    pub(crate) stamp: Stamp,
}

/// The arguments of the procedure that makes a commit.
pub(crate) fn commit(commit: &Commit, signature: Signature) -> Params {
    let Signature { locker, desk, number, stamp } = signature;
    let gate = match commit.writes.iter().any(needs_gate) {
        false => ONE_DESK,
        true if locker.cluster => ALL_DESKS_TOUCHED,
        true => ALL_DESKS,
    };
    let mut locks = Vec::new();
    for (mode, slot) in slots::locks(commit, locker) {
        locks.push(mode as u8);
        locks.extend(slot.to_be_bytes());
    }
    let writes = writes(commit);
    let note = if writes.is_empty() { Vec::new() } else { note::encode(stamp, &commit.writes) };
    Params::Positional(vec![
        Value::UInt(gate.into()),
        Value::UInt(desk.into()),
        Value::UInt(locker.place.into()),
        Value::UInt(number.into()),
        Value::Bytes(locks),
        Value::Bytes(checks(commit)),
        Value::Bytes(writes),
        Value::Bytes(note),
    ])
}

/// The argument of the procedure that answers questions.
pub(crate) fn questions<'a>(reads: impl IntoIterator<Item = &'a Read>) -> Vec<u8> {
    let mut packed = Vec::new();
    for read in reads {
        let (kind, limit, name, tail): (u8, usize, &[u8], Cow<'_, [u8]>) = match read {
            Read::Key(key) => (0, 0, key.as_bytes(), Cow::Borrowed(&[])),
            Read::Range { range, limit } => match range.end() {
                Some(end) => (1, *limit, range.start().as_bytes(), Cow::Owned(end.as_bytes().to_vec())),
                None => (2, *limit, range.start().as_bytes(), Cow::Borrowed(&[])),
            },
            Read::List { list, after, limit } => {
                (3, *limit, list.as_bytes(), Cow::Borrowed(after.as_ref().map_or(&NO_ID, EntryId::as_bytes)))
            }
        };
        packed.push(kind);
        // One more than asked for, to see whether there is more.
        packed.extend(u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1).to_be_bytes());
        packed.extend(length(name).to_be_bytes());
        packed.extend(length(&tail).to_be_bytes());
        packed.extend(name);
        packed.extend(&tail[..]);
    }
    packed
}

fn checks(commit: &Commit) -> Vec<u8> {
    let mut packed = Vec::new();
    for check in &commit.checks {
        let (kind, version) = match check {
            Check::Version(_, version) => (0, version.0),
            Check::Absent(_) => (1, 0),
            Check::Present(_) => (2, 0),
            Check::Empty(_) => (3, 0),
        };
        packed.push(kind);
        packed.extend(version.to_be_bytes());
        packed.extend(length(check.key().as_bytes()).to_be_bytes());
        packed.extend(check.key().as_bytes());
    }
    packed
}

/// The writes: removals last and sorted, since they lock the rows of entries themselves, and these too must be locked in one order.
fn writes(commit: &Commit) -> Vec<u8> {
    let mut packed = Vec::new();
    let (mut removals, others): (Vec<&Write>, Vec<&Write>) =
        commit.writes.iter().partition(|write| locks_entries(write));
    for write in others {
        push(&mut packed, write);
    }
    removals.sort_by_cached_key(|write| (write.range().start().clone(), entry(write)));
    for write in removals {
        push(&mut packed, write);
    }
    packed
}

fn push(packed: &mut Vec<u8>, write: &Write) {
    match write {
        Write::Set(key, value) => put(packed, 0, key.as_bytes(), value),
        Write::Delete(key) => put(packed, 1, key.as_bytes(), &[]),
        Write::Append(list, value) => put(packed, 2, list.as_bytes(), value),
        Write::Remove(list, id) => put(packed, 3, list.as_bytes(), known(id)),
        Write::DeleteRange(Range::Key(key)) => put(packed, 4, key.as_bytes(), &[]),
        Write::DeleteRange(range) => match range.end() {
            Some(end) => put(packed, 5, range.start().as_bytes(), end.as_bytes()),
            None => put(packed, 6, range.start().as_bytes(), &[]),
        },
    }
}

fn put(packed: &mut Vec<u8>, kind: u8, name: &[u8], value: &[u8]) {
    packed.push(kind);
    packed.extend(length(name).to_be_bytes());
    packed.extend(u32::try_from(value.len()).expect("the limits admit no longer value").to_be_bytes());
    packed.extend(name);
    packed.extend(value);
}

fn needs_gate(write: &Write) -> bool {
    matches!(write, Write::DeleteRange(range) if !matches!(range, Range::Key(_)))
}

fn locks_entries(write: &Write) -> bool {
    matches!(write, Write::Remove(..) | Write::DeleteRange(Range::Key(_)))
}

/// The entry that is removed; a whole list comes where its first entry would.
fn entry(write: &Write) -> Vec<u8> {
    if let Write::Remove(_, id) = write { known(id).to_vec() } else { NO_ID.to_vec() }
}

/// The bytes of an id. One of another form was never given by this store, so no such entry is there.
fn known(id: &EntryId) -> &[u8] {
    if id.as_bytes().len() == ID_BYTES { id.as_bytes() } else { &NO_ID }
}

fn length(name: &[u8]) -> u16 {
    u16::try_from(name.len()).expect("the limits admit no longer name")
}
