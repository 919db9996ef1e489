//! Registries as they are told.

use std::collections::BTreeMap;

use serde::Serialize;
use tenure::registry::{self, Led, RegistryView};
use utoipa::ToSchema;

use super::millis;

/// A registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Registry {
    pub(crate) name: String,
    /// The node that leads it.
    pub(crate) leader: Option<String>,
    /// Counts its leaders.
    pub(crate) epoch: u64,
    pub(crate) names: u64,
    /// How many batches were ever committed.
    pub(crate) position: u64,
}

/// A registered name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The node that owns it.
    pub(crate) node: String,
    pub(crate) session: String,
    /// Tells it from other registrations of that session.
    pub(crate) number: u64,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) since_ms: u64,
    /// In which epoch it was committed.
    pub(crate) epoch: u64,
    /// In which batch.
    pub(crate) position: u64,
}

impl Registry {
    pub(crate) fn new(view: &RegistryView, led: &Led) -> Self {
        Self {
            name: view.name().to_string(),
            leader: led.leader.as_ref().map(|leader| leader.node.clone()),
            epoch: led.epoch,
            names: view.len() as u64,
            position: view.position(),
        }
    }
}

impl From<&registry::Entry> for Entry {
    fn from(entry: &registry::Entry) -> Self {
        Self {
            name: entry.name().to_owned(),
            node: entry.owner().node.to_string(),
            session: entry.owner().session.to_string(),
            number: entry.number(),
            labels: entry.metadata().labels.clone(),
            since_ms: millis(entry.since()),
            epoch: entry.epoch(),
            position: entry.position(),
        }
    }
}
