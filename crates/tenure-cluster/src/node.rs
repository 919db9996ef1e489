//! [`Node`]: what all parts of one node share.

use std::{sync::Arc, time::Duration};

use tenure_store::{Env, Retry, Store};

use crate::{Keys, Owner, Settings};

/// A node's way to its store, its time, its keys and its settings.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) env: Env,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
    pub(crate) owner: Owner,
}

impl Node {
    pub(crate) fn new(store: Arc<dyn Store>, env: Env, settings: Settings) -> Self {
        let keys = Keys::new(&settings.cluster);
        let owner = if settings.proof_of_death {
            Owner::this_process(settings.machine.as_deref())
        } else {
            Owner::unknown()
        };
        Self { store, env, keys, settings, owner }
    }

    /// How patiently something is tried that nobody but its caller waits for: as long as a session lives.
    pub(crate) fn retry(&self) -> Retry {
        Retry { within: self.settings.ttl, ..Retry::default() }
    }

    /// The longest that one request to the store is waited for, where another may follow.
    pub(crate) fn request_time(&self) -> Duration {
        self.settings.renewal_interval.max(REQUEST_TIME_MIN)
    }
}

/// Databases that fail over answer within this, as a rule.
const REQUEST_TIME_MIN: Duration = Duration::from_millis(500);
