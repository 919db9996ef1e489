//! [`Testator`]: keeps a node's last will in step with its session.

use std::sync::Arc;

use crate::{
    SessionId,
    node::Node,
    will::{LastWill, WillError, WillProgram},
};

/// The last will of a node that is to have one. A node that can't have one goes on without, with a warning.
#[derive(Debug)]
pub(crate) struct Testator {
    node: Arc<Node>,
    program: WillProgram,
    kept: Option<LastWill>,
}

impl Testator {
    /// For a node whose settings name a program.
    pub(crate) fn new(node: &Arc<Node>) -> Option<Self> {
        let program = node.settings.last_will.clone()?;
        Some(Self { node: Arc::clone(node), program, kept: None })
    }

    /// From now on, this session is to be ended when this process dies.
    pub(crate) async fn bequeath(&mut self, session: SessionId) {
        if let Err(error) = self.try_bequeath(session).await {
            tracing::warn!(%error, node = %self.node.settings.node, "no last will: after a crash, the session waits for its ttl");
        }
    }

    async fn try_bequeath(&mut self, session: SessionId) -> Result<(), WillError> {
        let env = &self.node.env;
        let will = self.program.will(&self.node.settings.cluster, session, &self.node.owner);
        if let Some(mut kept) = self.kept.take()
            && kept.replace(&will, env).await.is_ok()
        {
            self.kept = Some(kept);
            return Ok(());
        }
        self.kept = Some(LastWill::start(&self.program, &will, env).await?);
        Ok(())
    }

    /// Returns when the will is not kept any more, because somebody killed the process that kept it; never, if there is none.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn lost(&mut self) {
        let Some(kept) = &mut self.kept else { return std::future::pending().await };
        let error = kept.lost(&self.node.env).await;
        tracing::warn!(%error, node = %self.node.settings.node, "the last will was lost: it is made anew");
        self.kept = None;
    }

    /// After a goodbye there is nothing left to be done.
    pub(crate) async fn revoke(self) {
        if let Some(kept) = self.kept {
            kept.revoke(&self.node.env).await;
        }
    }
}
