//! [`Spared`]: a session whose owner was never away longer than everybody else is not ended.

use std::collections::BTreeMap;

use tenure_cluster::SessionId;

/// The session that each node began with.
#[derive(Clone, Debug, Default)]
pub struct Spared {
    sessions: BTreeMap<String, SessionId>,
}

impl Spared {
    /// This node has this session.
    pub fn has(&mut self, node: &str, session: SessionId) {
        self.sessions.insert(node.to_owned(), session);
    }

    /// Compares with the session that the node has now.
    ///
    /// # Errors
    /// When it is another.
    pub fn check(&self, node: &str, session: SessionId) -> Result<(), String> {
        match self.sessions.get(node) {
            Some(first) if *first != session => Err(format!("{node} was robbed of its session {first}")),
            _ => Ok(()),
        }
    }
}
