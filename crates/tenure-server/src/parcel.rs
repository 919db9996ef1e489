//! [`Parcel`]: a message on its way, and bundles of them.

use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tenure_cluster::SessionId;
use tenure_store::{
    Key, StoreError,
    record::{Decoder, Encoder, Flaw},
};

use crate::{Failure, ServerError};

/// The most bytes of an error that is kept of an attempt.
const ERROR_BYTES_MAX: usize = 1000;

/// Where an answer goes: a caller that waits on some node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
pub(crate) struct Address {
    /// The session of the caller's node, as bytes.
    session: [u8; SessionId::BYTES],
    /// Which of its callers.
    pub(crate) slot: u64,
}

impl Address {
    pub(crate) fn new(session: SessionId, slot: u64) -> Self {
        Self { session: session.to_bytes(), slot }
    }

    pub(crate) fn session(&self) -> SessionId {
        SessionId::from_bytes(self.session)
    }
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// When, by the wall clock of the node that tried, since 1970.
    pub at: Duration,
    /// Which node tried, or found that the one that had it in hand was gone.
    pub node: String,
    /// What went wrong.
    pub error: String,
}

impl Attempt {
    pub(crate) fn new(at: Duration, node: &str, error: &str) -> Self {
        let end = (0..=ERROR_BYTES_MAX.min(error.len())).rev().find(|end| error.is_char_boundary(*end));
        Self { at, node: node.to_owned(), error: error[..end.unwrap_or(0)].to_owned() }
    }
}

/// Whether a message wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Call,
    Cast,
}

/// A message, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    /// Random: tells it in logs and spans, wherever it is.
    pub(crate) id: u64,
    pub(crate) sort: Sort,
    /// Who waits for the answer.
    pub(crate) to: Option<Address>,
    /// Its idempotency key.
    pub(crate) key: Option<String>,
    /// When it was sent, in milliseconds since 1970: for people.
    pub(crate) sent_ms: u64,
    /// Until when its caller waits, by the wall clock of the caller, in milliseconds since 1970: for tidying up.
    pub(crate) until_ms: u64,
    /// How it failed before.
    pub(crate) attempts: Vec<Attempt>,
    /// Whether its callback has run and was committed, so that only its locked work is left to do.
    pub(crate) locked: bool,
    pub(crate) body: Bytes,
}

impl Parcel {
    pub(crate) fn encode(&self, into: Encoder) -> Encoder {
        let flags = u8::from(self.sort == Sort::Call) | u8::from(self.locked) << 1;
        into.number(self.id)
            .byte(flags)
            .optional(self.to, |into, to| into.array(to.session).number(to.slot))
            .optional(self.key.as_deref(), Encoder::text)
            .number(self.sent_ms)
            .number(self.until_ms)
            .many(self.attempts.iter(), |into, attempt| {
                into.number(millis(attempt.at)).text(&attempt.node).text(&attempt.error)
            })
            .bytes(&self.body)
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, Flaw> {
        let id = from.number()?;
        let flags = from.byte()?;
        if flags > 3 {
            return Err(Flaw::new("a sort of message that is not known"));
        }
        Ok(Self {
            id,
            sort: if flags & 1 == 1 { Sort::Call } else { Sort::Cast },
            locked: flags & 2 == 2,
            to: from.optional(|from| {
                let session = from.array()?;
                Ok(Address { session, slot: from.number()? })
            })?,
            key: from.optional(|from| from.text().map(str::to_owned))?,
            sent_ms: from.number()?,
            until_ms: from.number()?,
            attempts: from.many(|from| {
                let at = Duration::from_millis(from.number()?);
                Ok(Attempt { at, node: from.text()?.to_owned(), error: from.text()?.to_owned() })
            })?,
            body: Bytes::copy_from_slice(from.bytes()?),
        })
    }

    /// About how many bytes it has in a bundle.
    pub(crate) fn weight(&self) -> usize {
        let attempts: usize = self.attempts.iter().map(|one| 24 + one.node.len() + one.error.len()).sum();
        64 + self.key.as_ref().map_or(0, String::len) + attempts + self.body.len()
    }
}

const BUNDLE: u8 = 1;
const PIECES: u8 = 2;

/// What an entry of a queue says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bundle {
    /// These messages.
    Here(Vec<Parcel>),
    /// Messages that are in so many pieces, under this number.
    InPieces { bundle: u64, count: u64 },
}

/// These parcels as the value of an entry, or in pieces if they are too many.
pub(crate) fn bundle(parcels: &[Parcel]) -> Bytes {
    Encoder::new(BUNDLE).many(parcels.iter(), |into, parcel| parcel.encode(into)).finish()
}

pub(crate) fn in_pieces(bundle: u64, count: u64) -> Bytes {
    Encoder::new(PIECES).number(bundle).number(count).finish()
}

impl Bundle {
    pub(crate) fn decode(list: &Key, value: &[u8]) -> Result<Self, StoreError> {
        if value.first() == Some(&PIECES) {
            return Decoder::all(list, value, PIECES, |from| {
                Ok(Self::InPieces { bundle: from.number()?, count: from.number()? })
            });
        }
        Decoder::all(list, value, BUNDLE, |from| from.many(Parcel::decode)).map(Self::Here)
    }
}

/// A message or answer as bytes.
pub(crate) fn pack<T: Serialize>(message: &T) -> Result<Bytes, ServerError> {
    rmp_serde::to_vec_named(message).map(Bytes::from).map_err(|error| {
        let words = format!("a {} can't be stored: {error}", std::any::type_name::<T>());
        ServerError::Invalid(tenure_store::Reason::caused(words, error))
    })
}

/// The message or answer that these bytes are.
pub(crate) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let mut from = rmp_serde::Deserializer::from_read_ref(bytes);
    let message = T::deserialize(&mut from);
    message.map_err(|error| Failure::new(format!("a message is no {}: {error}", std::any::type_name::<T>())))
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
