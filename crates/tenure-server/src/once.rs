//! Answers that are kept under idempotency keys.
//!
//! An answer that is too large for one value is in pieces, as messages are. One that is given later, by whoever has the
//! [`ReplyTo`](crate::ReplyTo), is written in pieces too, under a number that its record tells from the beginning. Until
//! then another key under that number says that it is to come, and goes with the record: so only the first answer is
//! kept, and none of which there is no record any more.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_cluster::Keys;
use tenure_store::{
    Check, Commit, Key, Limits, StoreError, Write,
    record::{Decoder, Encoder, Flaw},
};

use crate::{keys::ServerKeys, reply};

const FORMAT: u8 = 1;

/// The longest idempotency key, in bytes: with three names it still fits a key of every store.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

/// An answer that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Now(Bytes),
    /// It comes later, under this number.
    Later(u64),
}

/// Where an answer is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Here(Bytes),
    /// In so many pieces, under this number.
    InPieces {
        number: u64,
        count: u64,
    },
    /// In pieces under this number, if it was given.
    Later(u64),
}

impl Answer {
    /// Adds the deletion of what is kept apart from its record.
    pub(crate) fn forget(&self, commit: Commit, keys: &ServerKeys) -> Commit {
        match self {
            Self::Here(_) => commit,
            Self::InPieces { number, count } => {
                (0..*count).fold(commit, |commit, at| commit.delete(keys.piece(*number, at)))
            }
            Self::Later(number) => commit.delete_range(keys.pieces(*number)),
        }
    }

    /// How many operations of a commit that takes.
    pub(crate) fn operations(&self) -> usize {
        match self {
            Self::Here(_) => 0,
            Self::InPieces { count, .. } => usize::try_from(*count).unwrap_or(usize::MAX),
            // The deletion of a range counts as two.
            Self::Later(_) => 2,
        }
    }
}

/// What is kept under the idempotency keys of some messages.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Answers by their key; `None` if it comes later.
    pub(crate) answers: BTreeMap<String, Option<Bytes>>,
    /// Those whose time is over, and that nobody has swept: whoever writes another in their place deletes their pieces.
    pub(crate) over: BTreeMap<String, Answer>,
}

/// An answer, kept until that time; pieces are added to the commit.
pub(crate) fn record(
    commit: Commit,
    keys: &ServerKeys,
    until_ms: u64,
    given: &Given,
    number: u64,
    limits: &Limits,
) -> (Commit, Bytes) {
    let into = Encoder::new(FORMAT).number(until_ms);
    match given {
        // With room for the rest of the record.
        Given::Now(body) if body.len() + 32 > limits.value_bytes => {
            let pieces = reply::pieces(body, limits.value_bytes);
            let record = into.byte(1).number(number).number(pieces.len() as u64).finish();
            let set = |commit: Commit, (piece, at): (Bytes, u64)| commit.set(keys.piece(number, at), piece);
            (pieces.into_iter().zip(0_u64..).fold(commit, set), record)
        }
        Given::Now(body) => (commit, into.byte(0).bytes(body).finish()),
        Given::Later(number) => {
            let commit = commit.set(keys.later(*number), Bytes::new());
            (commit, into.byte(2).number(*number).finish())
        }
    }
}

/// Until when it is kept, and the answer.
pub(crate) fn read(key: &Key, value: &[u8]) -> Result<(u64, Answer), StoreError> {
    Decoder::all(key, value, FORMAT, |from| {
        let until = from.number()?;
        let answer = match from.byte()? {
            0 => Answer::Here(Bytes::copy_from_slice(from.bytes()?)),
            1 => Answer::InPieces { number: from.number()?, count: from.number()? },
            2 => Answer::Later(from.number()?),
            _ => return Err(Flaw::new("an answer that is not known")),
        };
        Ok((until, answer))
    })
}

/// A call that is answered later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) kind: String,
    pub(crate) id: String,
    /// Its idempotency key.
    pub(crate) key: Option<String>,
    /// The number of the answer: that of the message.
    pub(crate) number: u64,
}

impl Place {
    /// The keys of its server.
    pub(crate) fn keys(&self, keys: &Keys) -> Result<ServerKeys, StoreError> {
        Ok(ServerKeys::new(keys, &self.kind.parse()?, &self.id.parse()?))
    }
}

/// What keeps an answer that is given later, with what must hold for it.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) check: Check,
    pub(crate) writes: Vec<Write>,
}

impl Late {
    pub(crate) fn new(
        keys: &Keys,
        place: &Place,
        body: &Bytes,
        piece_bytes: usize,
    ) -> Result<Self, StoreError> {
        let keys = place.keys(keys)?;
        let to_come = keys.later(place.number);
        let pieces = reply::pieces(body, piece_bytes).into_iter().zip(0_u64..);
        let pieces = pieces.map(|(piece, at)| Write::Set(keys.piece(place.number, at), piece));
        let writes = std::iter::once(Write::Delete(to_come.clone())).chain(pieces).collect();
        Ok(Self { check: Check::Present(to_come), writes })
    }

    /// Whether its check is of this key.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.check.key() == key
    }
}
