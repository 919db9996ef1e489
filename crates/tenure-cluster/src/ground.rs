//! [`Ground`]: what other primitives of a node stand on.

use std::{sync::Arc, time::Duration};

use tenure_store::{Env, Name, Retry, Store, latest};

use crate::{Election, Keys, Members, Session, Settings, election::Standing, node::Node};

/// The store, the time, the keys and the present session of a node. It keeps the node alive no longer than its [`Cluster`](crate::Cluster) does.
#[derive(Clone, Debug)]
pub struct Ground {
    node: Arc<Node>,
    session: latest::Receiver<Session>,
    standing: Standing,
}

impl Ground {
    pub(crate) fn new(standing: Standing, session: latest::Receiver<Session>) -> Self {
        Self { node: Arc::clone(&standing.node), session, standing }
    }

    /// The store of the cluster.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.node.store
    }

    /// The time, dice and tasks of the node.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.node.env
    }

    /// The keys of the cluster.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.node.keys
    }

    /// How the node takes part.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.node.settings
    }

    /// The present session.
    #[must_use]
    pub fn session(&self) -> Session {
        self.session.borrow().clone()
    }

    /// The present session and all that follow it. Nothing follows when the node has left.
    #[must_use]
    pub fn sessions(&self) -> latest::Receiver<Session> {
        self.session.clone()
    }

    /// Who is there.
    #[must_use]
    pub fn members(&self) -> Members {
        Members::new(Arc::clone(&self.node))
    }

    /// The election of this name; of those that Tenure keeps for itself too.
    #[must_use]
    pub fn election(&self, name: Name) -> Election {
        Election::new(self.standing.clone(), name)
    }

    /// How patiently something is tried that nobody but its caller waits for: as long as a session lives.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.node.retry()
    }

    /// The longest that one request to the store is waited for, where another may follow.
    #[must_use]
    pub fn request_time(&self) -> Duration {
        self.node.request_time()
    }
}
