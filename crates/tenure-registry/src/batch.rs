//! [`Batch`]: changes that are committed together, as one entry of the log.

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
        /// The owner's number of this registration.
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
                name.as_str().len() + metadata.bytes() + 16 * metadata.labels.len() + 40
            }
            Self::Unregister { name, .. } => name.as_str().len() + 24,
            Self::Ended => 8,
            Self::Left { .. } => 16,
        }
    }

    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        match self {
            Self::Register { name, number, metadata } => {
                metadata.encode(encoder.byte(0).text(name.as_str()).number(*number))
            }
            Self::Unregister { name, number } => encoder.byte(1).text(name.as_str()).number(*number),
            Self::Describe { name, number, metadata } => {
                metadata.encode(encoder.byte(2).text(name.as_str()).number(*number))
            }
            Self::Ended => encoder.byte(3),
            Self::Left { through } => encoder.byte(4).number(*through),
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        match decoder.byte()? {
            0 => Ok(Self::Register {
                name: decoder.name()?,
                number: decoder.number()?,
                metadata: Metadata::decode(decoder)?,
            }),
            1 => Ok(Self::Unregister { name: decoder.name()?, number: decoder.number()? }),
            2 => Ok(Self::Describe {
                name: decoder.name()?,
                number: decoder.number()?,
                metadata: Metadata::decode(decoder)?,
            }),
            3 => Ok(Self::Ended),
            4 => Ok(Self::Left { through: decoder.number()? }),
            _ => Err(Flaw::new("a change of a sort that this release does not know")),
        }
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
    pub(crate) owners: Vec<Owner>,
    /// Changes, each with the place of its owner.
    pub(crate) changes: Vec<(u32, Change)>,
}

impl Batch {
    /// Adds a change in the name of an owner.
    pub(crate) fn add(&mut self, owner: &Owner, change: Change) {
        let known = self.owners.iter().position(|known| known == owner);
        let place = known.unwrap_or_else(|| {
            self.owners.push(owner.clone());
            self.owners.len() - 1
        });
        self.changes.push((u32::try_from(place).unwrap_or(u32::MAX), change));
    }

    /// Takes out all that was asked for in the name of a session that has ended, but for what frees names: others may have been given them behind it.
    pub(crate) fn without(&self, session: SessionId) -> Self {
        let mut rest = Self { epoch: self.epoch, at_ms: self.at_ms, ..Self::default() };
        for (owner, change) in self.iter() {
            let takes = matches!(change, Change::Register { .. } | Change::Describe { .. });
            if owner.session != session || !takes {
                rest.add(owner, change.clone());
            }
        }
        rest
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Owner, &Change)> {
        self.changes.iter().filter_map(|(place, change)| {
            let owner = self.owners.get(usize::try_from(*place).ok()?)?;
            Some((owner, change))
        })
    }

    pub(crate) fn encode(&self) -> Bytes {
        Encoder::new(FORMAT)
            .number(self.epoch)
            .number(self.at_ms)
            .many(self.owners.iter(), |encoder, owner| owner.encode(encoder))
            .many(self.changes.iter(), |encoder, (owner, change)| {
                change.encode(encoder.number(u64::from(*owner)))
            })
            .finish()
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |decoder| {
            let (epoch, at_ms) = (decoder.number()?, decoder.number()?);
            let owners = decoder.many(Owner::decode)?;
            let changes = decoder.many(|decoder| {
                let place = decoder.number()?;
                if place >= owners.len() as u64 {
                    return Err(Flaw::new("a change of nobody"));
                }
                let place = u32::try_from(place).map_err(|_| Flaw::new("too many owners"))?;
                Ok((place, Change::decode(decoder)?))
            })?;
            Ok(Self { epoch, at_ms, owners, changes })
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
        batch.add(&owners[0], Change::Register { name: name("n"), number: 1, metadata: metadata.clone() });
        batch.add(&owners[1], Change::Unregister { name: name("m"), number: 2 });
        batch.add(&owners[0], Change::Describe { name: name("n"), number: 1, metadata });
        batch.add(&owners[1], Change::Ended);
        (batch, owners)
    }

    #[test]
    fn a_batch_comes_back_and_everything_else_is_refused() {
        let (batch, _) = batch();
        let (key, bytes) = (Key::from("batch"), batch.encode());
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
