//! [`Outcome`]: the answer to a call, and how answers are kept until their caller has read them.

use bytes::Bytes;
use tenure_cluster::{Keys, SessionId};
use tenure_store::{
    Key, StoreError,
    record::{Decoder, Encoder, Flaw},
};

use crate::keys;

const FORMAT: u8 = 1;

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered with this.
    Reply(Bytes),
    /// It is a dead letter.
    Failed { attempts: u64, error: String },
    /// Its server was deleted before.
    Deleted,
}

impl Outcome {
    fn encode(&self, into: Encoder) -> Encoder {
        match self {
            Self::Reply(body) => into.byte(0).bytes(body),
            Self::Failed { attempts, error } => into.byte(1).number(*attempts).text(error),
            Self::Deleted => into.byte(2),
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Flaw> {
        Ok(match from.byte()? {
            0 => Self::Reply(Bytes::copy_from_slice(from.bytes()?)),
            1 => Self::Failed { attempts: from.number()?, error: from.text()?.to_owned() },
            2 => Self::Deleted,
            _ => return Err(Flaw::new("an outcome that is not known")),
        })
    }

    /// About how many bytes it has.
    pub(crate) fn weight(&self) -> usize {
        16 + match self {
            Self::Reply(body) => body.len(),
            Self::Failed { error, .. } => error.len(),
            Self::Deleted => 0,
        }
    }
}

/// The answers that one commit gives to the callers of one session, as keys with values: in pieces, if they are too large for one.
pub(crate) fn write(
    keys: &Keys,
    session: SessionId,
    mark: u64,
    answers: &[(u64, Outcome)],
    piece_bytes: usize,
) -> Vec<(Key, Bytes)> {
    let whole = Encoder::new(FORMAT)
        .many(answers.iter(), |into, (slot, outcome)| outcome.encode(into.number(*slot)))
        .finish();
    let place = keys::replies(keys, session).int(mark);
    pieces(&whole, piece_bytes)
        .into_iter()
        .zip(0_u64..)
        .map(|(piece, number)| (place.clone().int(number).key(), piece))
        .collect()
}

/// The answers that were written under `key` and its likes.
pub(crate) fn read(key: &Key, whole: &[u8]) -> Result<Vec<(u64, Outcome)>, StoreError> {
    Decoder::all(key, whole, FORMAT, |from| {
        from.many(|from| {
            let slot = from.number()?;
            Ok((slot, Outcome::decode(from)?))
        })
    })
}

/// What a value can't hold, cut into some that can; each says how many there are.
pub(crate) fn pieces(whole: &Bytes, piece_bytes: usize) -> Vec<Bytes> {
    let room = piece_bytes.saturating_sub(16).max(1);
    let count = whole.len().div_ceil(room).max(1);
    let piece = |number: usize| {
        let end = whole.len().min((number + 1) * room);
        Encoder::new(FORMAT).number(count as u64).bytes(&whole[number * room..end]).finish()
    };
    (0..count).map(piece).collect()
}

/// One piece: how many there are, and its bytes.
pub(crate) fn piece(key: &Key, value: &[u8]) -> Result<(u64, Bytes), StoreError> {
    Decoder::all(key, value, FORMAT, |from| {
        let count = from.number()?;
        Ok((count, Bytes::copy_from_slice(from.bytes()?)))
    })
}
