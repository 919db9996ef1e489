//! What is stored of a session.

use std::time::Duration;

use bytes::Bytes;
use tenure_store::{
    Key, Name, StoreError,
    record::{Decoder, Encoder},
};

use crate::member::millis;

/// Who a session is, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) node: Name,
    pub(crate) ttl: Duration,
    pub(crate) liveness_window: Duration,
    /// The machine, boot and pid namespace of its owner; see [`Owner::place`](crate::Owner::place).
    pub(crate) place: String,
}

impl Identity {
    const FORMAT: u8 = 1;

    pub(crate) fn encode(&self) -> Bytes {
        Encoder::new(Self::FORMAT)
            .text(self.node.as_str())
            .number(millis(self.ttl))
            .number(millis(self.liveness_window))
            .text(&self.place)
            .finish()
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, Self::FORMAT, |from| {
            Ok(Self {
                node: from.name()?,
                ttl: Duration::from_millis(from.number()?),
                liveness_window: Duration::from_millis(from.number()?),
                place: from.text()?.to_owned(),
            })
        })
    }
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    /// How often the session was renewed.
    pub(crate) renewals: u64,
    /// When, by the owner's wall clock, since 1970: for people to read.
    pub(crate) at: Duration,
}

impl Beat {
    const FORMAT: u8 = 1;

    pub(crate) fn encode(self) -> Bytes {
        Encoder::new(Self::FORMAT).number(self.renewals).number(millis(self.at)).finish()
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, Self::FORMAT, |from| {
            Ok(Self { renewals: from.number()?, at: Duration::from_millis(from.number()?) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let key = Key::from("k");
        let identity = Identity {
            node: "n".parse().unwrap(),
            ttl: Duration::from_secs(15),
            liveness_window: Duration::from_secs(10),
            place: "here".into(),
        };
        assert_eq!(Identity::decode(&key, &identity.encode()).unwrap(), identity);
        let beat = Beat { renewals: 7, at: Duration::from_millis(8) };
        assert_eq!(Beat::decode(&key, &beat.encode()).unwrap(), beat);
        assert!(Beat::decode(&key, &identity.encode()).is_err());
    }
}
