//! Nodes that share a store and reach each other by links on this machine.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cluster, Settings, peer::LinkSettings};
use tenure_registry::{Registries as _, Registry};
use tenure_store::{Env, MemoryStore, Store};

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster in the making.
pub(crate) struct Fleet {
    pub(crate) store: Arc<dyn Store>,
}

/// A node and its part in the registry `names`.
pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) registry: Registry,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self { store: Arc::new(MemoryStore::new()) }
    }

    fn settings(name: &str) -> Settings {
        let mut settings = Settings::new("fleet", name).unwrap();
        settings.ttl = Duration::from_secs(2);
        settings.renewal_interval = Duration::from_millis(400);
        settings.liveness_window = Duration::from_secs(1);
        settings.proof_of_death = false;
        settings
    }

    /// A node with links.
    pub(crate) async fn node(&self, name: &str) -> Node {
        let mut settings = Self::settings(name);
        let mut links = LinkSettings::new("127.0.0.1:0".parse().unwrap());
        links.insecure_on_loopback = true;
        settings.links = Some(links);
        self.join(settings).await
    }

    /// A node that has no address.
    pub(crate) async fn node_without_links(&self, name: &str) -> Node {
        self.join(Self::settings(name)).await
    }

    pub(crate) async fn join(&self, settings: Settings) -> Node {
        let cluster = Cluster::join(Arc::clone(&self.store), settings).await.unwrap();
        let registry = cluster.registry("names").await.unwrap();
        Node { cluster, registry }
    }

    /// So many nodes with links, called `n0` and so on, of which `n0` leads.
    pub(crate) async fn nodes(&self, count: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        for number in 0..count {
            let node = self.node(&format!("n{number}")).await;
            node.registry.ready(PATIENCE).await.unwrap();
            nodes.push(node);
        }
        nodes
    }
}

/// Returns when something is so.
pub(crate) async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let env = Env::system();
    let start = env.now();
    while !is() {
        assert!(env.now() - start < PATIENCE, "{what}: not within {PATIENCE:?}");
        env.sleep(Duration::from_millis(5)).await;
    }
}
