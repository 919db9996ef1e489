//! [`Status`]: how a member of a registry is, and [`Explanation`]: all that is known about a name.

use std::{fmt, sync::Arc, time::Duration};

use tenure_store::record::{Decoder, Encoder, Flaw};

use crate::{Entry, entry::Owner};

/// How a member of a registry is, as it sees itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which member.
    pub member: Owner,
    /// Whom it takes for the leader.
    pub leader: Option<Owner>,
    /// In which epoch.
    pub epoch: u64,
    /// Up to which position of the log its names are.
    pub applied: u64,
    /// Up to which position it knows the log to be.
    pub tail: u64,
    /// How many names it knows.
    pub names: u64,
    /// How many of them are its own.
    pub own: u64,
    /// How many requests of its own wait for an answer.
    pub waiting: u64,
    /// Whether it answered. If not, only `member` says something.
    pub heard: bool,
}

impl Status {
    /// How many batches it has still to apply.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.tail.saturating_sub(self.applied)
    }

    /// Whether it takes itself for the leader.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.leader.as_ref() == Some(&self.member)
    }

    /// A member that did not answer.
    pub(crate) fn unheard(member: Owner) -> Self {
        Self {
            member,
            leader: None,
            epoch: 0,
            applied: 0,
            tail: 0,
            names: 0,
            own: 0,
            waiting: 0,
            heard: false,
        }
    }

    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        let numbers = [self.epoch, self.applied, self.tail, self.names, self.own, self.waiting];
        let encoder = self.member.encode(encoder);
        let encoder = encoder.optional(self.leader.as_ref(), |encoder, leader| leader.encode(encoder));
        numbers.into_iter().fold(encoder, Encoder::number).byte(self.heard.into())
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        Ok(Self {
            member: Owner::decode(decoder)?,
            leader: decoder.optional(Owner::decode)?,
            epoch: decoder.number()?,
            applied: decoder.number()?,
            tail: decoder.number()?,
            names: decoder.number()?,
            own: decoder.number()?,
            waiting: decoder.number()?,
            heard: decoder.byte()? == 1,
        })
    }
}

/// All that is known here about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The name.
    pub name: String,
    /// The registration, if there is one.
    pub entry: Option<Arc<Entry>>,
    /// Whether the owner is this node.
    pub here: bool,
    /// How long it has been registered, by wall clocks.
    pub age: Option<Duration>,
    /// The position that this is as of.
    pub applied: u64,
    /// The epoch of the last batch that is applied.
    pub epoch: u64,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(entry) = &self.entry else {
            return write!(f, "{} is free, as of batch {} in epoch {}", self.name, self.applied, self.epoch);
        };
        let place = if self.here { " (this node)" } else { "" };
        write!(f, "{} is {}{place}", self.name, entry.owner)?;
        if let Some(age) = self.age {
            write!(f, ", for {:.1} s", age.as_secs_f64())?;
        }
        write!(
            f,
            ", committed in batch {} of epoch {}, as of batch {}",
            entry.position, entry.epoch, self.applied
        )
    }
}
