//! Answers that are owed: to calls that were handled and are answered later, through a [`ReplyTo`](crate::ReplyTo).
//!
//! Each has a key of the server that it was asked of, so that its caller can be told if that server is deleted. Whoever
//! answers deletes it. If nobody does, it is swept when the caller has given up.

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Key, Part, StoreError, Tuple,
    record::{Decoder, Encoder},
};

use crate::parcel::Address;

const FORMAT: u8 = 1;

/// One that is owed until this time.
pub(crate) fn record(until_ms: u64) -> Bytes {
    Encoder::new(FORMAT).number(until_ms).finish()
}

/// Until when it is owed.
pub(crate) fn read(key: &Key, value: &[u8]) -> Result<u64, StoreError> {
    Decoder::all(key, value, FORMAT, Decoder::number)
}

/// To whom.
pub(crate) fn address_of(key: &Key) -> Result<Address, StoreError> {
    let foreign = || StoreError::corrupt(format!("key {key} names no caller"));
    match Tuple::decode(key)?.parts() {
        [.., Part::Bytes(session), Part::Int(slot)] => {
            let session = session[..].try_into().map_err(|_| foreign())?;
            Ok(Address::new(SessionId::from_bytes(session), u64::try_from(*slot).map_err(|_| foreign())?))
        }
        _ => Err(foreign()),
    }
}
