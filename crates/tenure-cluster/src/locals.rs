//! [`Locals`]: notices when another process of this machine dies, and ends its session.
//!
//! Sessions are listed by the machine, boot and pid namespace of their owners. Whoever shares all three can prove the owner's death, and learns of it from the
//! kernel at once. Everybody here watches everybody else; the first one's commit ends the session, the others find it done.

use std::{collections::BTreeMap, sync::Arc};

use tenure_store::{CommitError, StoreError, StoreExt as _};
use tokio::task::JoinHandle;

use crate::{
    Cause, Keys, Owner, SessionId,
    exits::exited,
    node::Node,
    session::{Evidence, end},
};

/// The most processes that are watched: each costs a descriptor.
const WATCHED_MAX: usize = 256;

/// Watches the owners of sessions that live on this machine.
#[derive(Debug)]
pub(crate) struct Locals {
    node: Arc<Node>,
    watched: BTreeMap<SessionId, JoinHandle<()>>,
}

impl Drop for Locals {
    fn drop(&mut self) {
        self.watched.values().for_each(JoinHandle::abort);
    }
}

impl Locals {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, watched: BTreeMap::new() }
    }

    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        let range = self.node.keys.locals(&self.node.owner.place());
        let mut watch = self.node.store.watch(range);
        loop {
            match self.look().await {
                Ok(()) => watch.changed().await,
                Err(error) => {
                    tracing::debug!(%error, "could not look for other processes of this machine: it is tried again");
                    self.node.env.sleep(self.node.settings.renewal_interval).await;
                }
            }
        }
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        let range = self.node.keys.locals(&self.node.owner.place());
        let page = self.node.store.scan(&range, WATCHED_MAX.min(self.node.store.limits().page_items)).await?;
        let mut there = BTreeMap::new();
        for item in page.items {
            let mut value = &item.value[..];
            let owner = Owner::decode(&mut value)
                .filter(|_| value.is_empty())
                .ok_or_else(|| StoreError::corrupt(format!("the value of {} is no owner", item.key)))?;
            there.insert(Keys::session_of(&item.key)?, owner);
        }
        self.watched.retain(|id, task| {
            let stays = there.contains_key(id);
            if !stays {
                task.abort();
            }
            stays
        });
        for (id, owner) in there {
            // Several nodes may live in one process, which knows that it is alive.
            if owner != self.node.owner && !self.watched.contains_key(&id) {
                let task = self.node.env.spawn(watch_over(Arc::clone(&self.node), id, owner));
                self.watched.insert(id, task);
            }
        }
        Ok(())
    }
}

/// Ends the session when its owner is dead.
async fn watch_over(node: Arc<Node>, id: SessionId, owner: Owner) {
    let proof = exited(&owner, &node.owner, &node.env).await;
    tracing::info!(session = %id, %owner, ?proof, "the owner of a session is dead");
    let mut pauses = node.retry().start(&node.env);
    while let Err(error) = end(&node, id, Evidence::Certain, Cause::Died).await {
        let passes = match &error {
            CommitError::Failed(error) => error.is_transient(),
            _ => true,
        };
        if !passes || !pauses.pause().await {
            // Wardens will end it.
            tracing::warn!(session = %id, %error, "the session of a dead process could not be ended");
            return;
        }
    }
}
