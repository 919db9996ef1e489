//! [`Records`]: what the log says, for a simulation that compares with it.

use bytes::Bytes;
use tenure_cluster::{Cluster, SessionId};
use tenure_store::{Key, Name, StoreError};

use crate::{
    Elector, Metadata, Owner,
    batch::{Batch, Change},
    keys::RegistryKeys,
};

/// A change, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The owner has this name.
    Registered(String, u64, Metadata),
    /// It has it no longer, if it was under this number.
    Unregistered(String, u64),
    /// Something else is said about it, if it is under this number.
    Described(String, u64, Metadata),
    /// The owner's session has ended.
    Ended,
    /// The owner has given up all its registrations up to this number.
    Left(u64),
}

/// A batch, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where in the log.
    pub position: u64,
    /// The epoch of the leader that committed it.
    pub epoch: u64,
    /// In order, each with whose it is.
    pub changes: Vec<(Owner, Recorded)>,
}

/// Knows what the keys of a registry mean.
#[derive(Debug)]
pub struct Records {
    keys: RegistryKeys,
}

impl Records {
    /// Those of a registry of this cluster.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is no [`Name`].
    pub fn of(cluster: &Cluster, registry: &str) -> Result<Self, StoreError> {
        let name: Name = registry.parse()?;
        let leader = Elector::leader_key(cluster, registry)?;
        Ok(Self { keys: RegistryKeys::new(cluster.ground().keys(), &name, leader) })
    }

    /// Where it says who leads.
    #[must_use]
    pub fn leader(&self) -> &Key {
        &self.keys.leader
    }

    /// Where it says up to where the log was removed.
    #[must_use]
    pub fn base(&self) -> &Key {
        &self.keys.base
    }

    /// Where requests are posted.
    #[must_use]
    pub fn post(&self) -> &Key {
        &self.keys.post
    }

    /// That a session exists.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Key {
        self.keys.session(session)
    }

    /// The batch that is written under a key, if it is one.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is something else.
    pub fn batch(&self, key: &Key, value: &Bytes) -> Result<Option<Record>, StoreError> {
        if !self.keys.log().contains(key) {
            return Ok(None);
        }
        let batch = Batch::decode(key, value)?;
        let changes = batch.iter().map(|(owner, change)| (owner.clone(), recorded(change))).collect();
        Ok(Some(Record { position: RegistryKeys::position_of(key)?, epoch: batch.epoch, changes }))
    }
}

fn recorded(change: &Change) -> Recorded {
    match change {
        Change::Register { name, number, metadata } => {
            Recorded::Registered(name.to_string(), *number, metadata.clone())
        }
        Change::Unregister { name, number } => Recorded::Unregistered(name.to_string(), *number),
        Change::Describe { name, number, metadata, .. } => {
            Recorded::Described(name.to_string(), *number, metadata.clone())
        }
        Change::Ended => Recorded::Ended,
        Change::Left { through } => Recorded::Left(*through),
    }
}
