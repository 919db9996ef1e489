//! Answers that are kept under idempotency keys.

use bytes::Bytes;
use tenure_store::{
    Key, StoreError,
    record::{Decoder, Encoder},
};

const FORMAT: u8 = 1;

/// The longest idempotency key, in bytes: with three names it still fits a key of every store.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

/// An answer, kept until that time; `None` if it was given later, by another way.
pub(crate) fn record(until_ms: u64, answer: Option<&Bytes>) -> Bytes {
    Encoder::new(FORMAT).number(until_ms).optional(answer, |into, answer| into.bytes(answer)).finish()
}

/// Until when it is kept, and the answer.
pub(crate) fn read(key: &Key, value: &[u8]) -> Result<(u64, Option<Bytes>), StoreError> {
    Decoder::all(key, value, FORMAT, |from| {
        let until = from.number()?;
        Ok((until, from.optional(|from| from.bytes().map(Bytes::copy_from_slice))?))
    })
}
