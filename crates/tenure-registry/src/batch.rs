//! [`Batch`]: changes that are committed together, as one entry of the log.

use std::cell::Cell;

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Key, Name, StoreError,
    record::{Decoder, Encoder, Flaw},
};

use crate::{Metadata, entry::Owner};

const FORMAT: u8 = 1;

/// A change that the node in whose name it is made asked for, or that the leader found necessary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The owner has this name.
    Register {
        /// Which.
        name: Name,
        /// The owner's number of the request, and of the registration.
        number: u64,
        /// What is said about it.
        metadata: Metadata,
    },
    /// It has it no longer, if it still was under this number.
    Unregister {
        /// Which.
        name: Name,
        /// As it was registered.
        number: u64,
    },
    /// Something else is said about it.
    Describe {
        /// Which.
        name: Name,
        /// As it was registered.
        number: u64,
        /// The owner's number of this request: one that is no greater than the last is a copy.
        request: u64,
        /// What.
        metadata: Metadata,
    },
    /// The owner's session has ended, and all its names are free.
    Ended,
    /// The owner takes part no longer, though its session may go on: all its names up to this number are free. Without a number, one that comes late would free what the owner has
    /// registered since it takes part again.
    Left {
        /// The last of them.
        through: u64,
    },
}

impl Change {
    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Register { name, metadata, .. } | Self::Describe { name, metadata, .. } => {
                name.as_str().len() + metadata.bytes() + 16 * metadata.labels.len() + 48
            }
            Self::Unregister { name, .. } => name.as_str().len() + 24,
            Self::Ended => 8,
            Self::Left { .. } => 16,
        }
    }

    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        match self {
            // Most have nothing said about them.
            Self::Register { name, number, metadata } if metadata.is_empty() => {
                encoder.byte(5).text(name.as_str()).number(*number)
            }
            Self::Register { name, number, metadata } => {
                metadata.encode(encoder.byte(0).text(name.as_str()).number(*number))
            }
            Self::Unregister { name, number } => encoder.byte(1).text(name.as_str()).number(*number),
            Self::Describe { name, number, request, metadata } => {
                metadata.encode(encoder.byte(2).text(name.as_str()).number(*number).number(*request))
            }
            Self::Ended => encoder.byte(3),
            Self::Left { through } => encoder.byte(4).number(*through),
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        match decoder.byte()? {
            0 => {
                let (name, number) = (decoder.name()?, decoder.number()?);
                let metadata = Metadata::decode(decoder)?;
                if metadata.is_empty() {
                    return Err(Flaw::new("metadata that says nothing"));
                }
                Ok(Self::Register { name, number, metadata })
            }
            1 => Ok(Self::Unregister { name: decoder.name()?, number: decoder.number()? }),
            2 => Ok(Self::Describe {
                name: decoder.name()?,
                number: decoder.number()?,
                request: decoder.number()?,
                metadata: Metadata::decode(decoder)?,
            }),
            3 => Ok(Self::Ended),
            4 => Ok(Self::Left { through: decoder.number()? }),
            5 => Ok(Self::Register {
                name: decoder.name()?,
                number: decoder.number()?,
                metadata: Metadata::new(),
            }),
            _ => Err(Flaw::new("a change of a sort that this release does not know")),
        }
    }
}

/// An owner, and what it has told of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) owner: Owner,
    /// The least number of a request that it still waited for. It numbers its requests upwards and tells this with each: so a request below it is a copy, however late it comes.
    pub(crate) floor: u64,
}

impl Party {
    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        self.owner.encode(encoder).number(self.floor)
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        Ok(Self { owner: Owner::decode(decoder)?, floor: decoder.number()? })
    }
}

/// Changes that are committed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Of the leader that committed it.
    pub(crate) epoch: u64,
    /// By the leader's wall clock.
    pub(crate) at_ms: u64,
    /// Those in whose names changes are made.
    pub(crate) parties: Vec<Party>,
    /// Changes, each with the place of its owner.
    pub(crate) changes: Vec<(u32, Change)>,
}

impl Batch {
    /// Adds a change in the name of an owner, which has told this floor with it.
    pub(crate) fn add(&mut self, owner: &Owner, floor: u64, change: Change) {
        let known = self.parties.iter().position(|known| known.owner == *owner);
        let place = known.unwrap_or_else(|| {
            self.parties.push(Party { owner: owner.clone(), floor });
            self.parties.len() - 1
        });
        let told = &mut self.parties[place].floor;
        *told = floor.max(*told);
        self.changes.push((u32::try_from(place).unwrap_or(u32::MAX), change));
    }

    /// Whether changes are made in the name of an owner.
    pub(crate) fn has(&self, owner: &Owner) -> bool {
        self.parties.iter().any(|known| known.owner == *owner)
    }

    /// Takes out all that was asked for in the name of a session that has ended, but for what frees names: others may have been given them behind it.
    pub(crate) fn without(&self, session: SessionId) -> Self {
        let mut rest = Self { epoch: self.epoch, at_ms: self.at_ms, ..Self::default() };
        for (party, change) in self.iter_parties() {
            let takes = matches!(change, Change::Register { .. } | Change::Describe { .. });
            if party.owner.session != session || !takes {
                rest.add(&party.owner, party.floor, change.clone());
            }
        }
        rest
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Owner, &Change)> {
        self.iter_parties().map(|(party, change)| (&party.owner, change))
    }

    fn iter_parties(&self) -> impl Iterator<Item = (&Party, &Change)> {
        self.changes.iter().filter_map(|(place, change)| {
            let party = self.parties.get(usize::try_from(*place).ok()?)?;
            Some((party, change))
        })
    }

    /// As it is stored, in about so many bytes.
    pub(crate) fn encode(&self, bytes: usize) -> Bytes {
        Encoder::with_room(FORMAT, bytes)
            .number(self.epoch)
            .number(self.at_ms)
            .many(self.parties.iter(), |encoder, party| party.encode(encoder))
            .many(self.changes.iter().enumerate(), |encoder, (at, (place, change))| {
                let other = (*place != self.place_before(at)).then_some(u64::from(*place));
                change.encode(encoder.optional(other, Encoder::number))
            })
            .finish()
    }

    /// The place of the owner of the change before one: many in a row have the same.
    fn place_before(&self, at: usize) -> u32 {
        at.checked_sub(1).map_or(0, |before| self.changes[before].0)
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |decoder| {
            let (epoch, at_ms) = (decoder.number()?, decoder.number()?);
            let parties = decoder.many(Party::decode)?;
            let before = Cell::new(0);
            let changes = decoder.many(|decoder| {
                let place = match decoder.optional(Decoder::number)? {
                    Some(place) => u32::try_from(place).map_err(|_| Flaw::new("too many owners"))?,
                    None => before.get(),
                };
                if usize::try_from(place).is_ok_and(|place| place >= parties.len()) {
                    return Err(Flaw::new("a change of nobody"));
                }
                before.set(place);
                Ok((place, Change::decode(decoder)?))
            })?;
            Ok(Self { epoch, at_ms, parties, changes })
        })
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    fn owner(node: &str) -> Owner {
        Owner { node: node.parse().unwrap(), session: SessionId::random(&Env::system()) }
    }

    fn batch() -> (Batch, [Owner; 2]) {
        let owners = [owner("a"), owner("b")];
        let mut batch = Batch { epoch: 7, at_ms: 1000, ..Batch::default() };
        let name = |name: &str| name.parse::<Name>().unwrap();
        let metadata = Metadata::new().label("zone", "eu").label("a", "b").data("x");
        let register = Change::Register { name: name("n"), number: 1, metadata: metadata.clone() };
        batch.add(&owners[0], 1, register);
        batch.add(&owners[1], 3, Change::Unregister { name: name("m"), number: 2 });
        batch.add(&owners[0], 2, Change::Describe { name: name("n"), number: 1, request: 2, metadata });
        batch.add(&owners[1], 0, Change::Ended);
        (batch, owners)
    }

    #[test]
    fn a_batch_comes_back_and_everything_else_is_refused() {
        let (batch, _) = batch();
        assert_eq!(
            batch.parties.iter().map(|party| party.floor).collect::<Vec<_>>(),
            [2, 3],
            "the last word"
        );
        let (key, bytes) = (Key::from("batch"), batch.encode(0));
        assert_eq!(Batch::decode(&key, &bytes).unwrap(), batch);
        for end in 0..bytes.len() {
            assert!(Batch::decode(&key, &bytes[..end]).is_err(), "{end}");
        }
        let mut strange = bytes.to_vec();
        for at in 0..strange.len() {
            strange[at] ^= 0xff;
            // Whatever it means now, it is no panic, and it fills no memory.
            let _ = Batch::decode(&key, &strange);
            strange[at] ^= 0xff;
        }
    }

    #[test]
    fn what_a_session_asked_for_is_taken_out_but_not_its_end() {
        let (batch, [one, other]) = batch();
        let rest = batch.without(one.session);
        assert_eq!(rest.iter().count(), 2);
        assert!(rest.iter().all(|(owner, _)| *owner == other));
        assert_eq!(
            batch.without(other.session).iter().filter(|(_, change)| **change == Change::Ended).count(),
            1
        );
    }
}
