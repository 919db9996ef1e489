//! A fleet of nodes in one process, on simulated time, over one store in memory.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{future::Future, sync::Arc, time::Duration};

use tenure_cluster::{Cluster, ClusterError, Settings};
use tenure_store::{Env, Faults, Faulty, Gate, MemoryStore, Store};

/// What all nodes of a test share.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) env: Env,
    pub(crate) store: Arc<dyn Store>,
}

/// One node: a simulated process with a link to the store that can be cut.
pub(crate) struct Seat {
    pub(crate) cluster: Cluster,
    pub(crate) gate: Gate,
    pub(crate) link: Arc<Faulty>,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self { env: Env::simulated(7), store: Arc::new(MemoryStore::new()) }
    }

    pub(crate) fn settings(node: &str) -> Settings {
        let mut settings = Settings::new("c", node).unwrap();
        // One process runs all of them.
        settings.proof_of_death = false;
        settings
    }

    pub(crate) async fn join(&self, node: &str) -> Seat {
        self.join_with(Self::settings(node)).await.unwrap()
    }

    pub(crate) async fn join_with(&self, settings: Settings) -> Result<Seat, ClusterError> {
        let gate = Gate::new();
        let env = self.env.fork().behind(&gate);
        let link = Arc::new(Faulty::new(Arc::clone(&self.store), self.env.fork(), Faults::NONE));
        let cluster = Cluster::join_in(Arc::clone(&link) as Arc<dyn Store>, settings, env).await?;
        Ok(Seat { cluster, gate, link })
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    /// What a future gives within a while, by simulated time.
    pub(crate) async fn soon<T>(&self, what: &str, seconds: u64, future: impl Future<Output = T>) -> T {
        let waited = self.env.timeout(Duration::from_secs(seconds), future).await;
        waited.unwrap_or_else(|_| panic!("{what} took longer than {seconds} s"))
    }
}
