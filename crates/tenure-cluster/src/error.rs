//! What can go wrong, by what to do about it.

use std::sync::Arc;

use tenure_store::{CommitError, Name, Reason, StoreError};

use crate::{Member, peer::LinkError};

/// Why a cluster could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Another live process takes part under this node's name. Give each process a name of its own, or ask to take over.
    #[error(
        "node {} is taken by a live process: {}: choose another name, wait until its session has ended, or set take_over", .0.node, .0
    )]
    Occupied(Box<Member>),
    /// This node has left the cluster. Join again.
    #[error("this node has left the cluster: join again")]
    Left,
    /// The session, or the leadership, that this needed has passed on. Nothing was changed.
    #[error("fenced: {0}")]
    Fenced(Reason),
    /// Nobody of that name waits to lead. Nothing was changed.
    #[error("node {node} is no candidate of election {election}: let it stand first")]
    NoCandidate {
        /// The election.
        election: Name,
        /// Who was named.
        node: Name,
    },
    /// The answer of the store was lost for as long as was to be tried; what was asked may have happened.
    #[error("the outcome is unknown: {0}")]
    OutcomeUnknown(Reason),
    /// The links to other nodes could not be made ready.
    #[error(transparent)]
    Links(Arc<LinkError>),
    /// It could not be done. Nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<LinkError> for ClusterError {
    fn from(error: LinkError) -> Self {
        Self::Links(Arc::new(error))
    }
}

impl From<CommitError> for ClusterError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::OutcomeUnknown(reason) => Self::OutcomeUnknown(reason),
            CommitError::Failed(error) => Self::Store(error),
            conflict => Self::Store(StoreError::unavailable(Reason::caused(conflict.to_string(), conflict))),
        }
    }
}
