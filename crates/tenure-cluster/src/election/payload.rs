//! What a leader publishes.

use bytes::Bytes;
use tenure_store::{
    Key, StoreError,
    record::{Decoder, Encoder},
};

use super::Term;

const FORMAT: u8 = 1;

pub(crate) fn encode(term: Term, payload: &[u8]) -> Bytes {
    Encoder::new(FORMAT).number(term.0).bytes(payload).finish()
}

/// The payload and the term in which it was published.
pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<(Term, Bytes), StoreError> {
    Decoder::all(key, value, FORMAT, |from| Ok((Term(from.number()?), Bytes::copy_from_slice(from.bytes()?))))
}
