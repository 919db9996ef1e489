//! [`OwnLane`]: a lane of whatever session this node has.

use std::sync::Arc;

use tenure_cluster::{Ground, Keys, SessionId};
use tenure_store::{Check, Conflict, Key, Lane, LaneError};

/// A lane among the belongings of this node's session. When another session follows, so does another lane.
#[derive(Debug)]
pub(crate) struct OwnLane {
    ground: Ground,
    key: fn(&Keys, SessionId, u64) -> Key,
    number: u64,
    lane: Option<(SessionId, Lane)>,
}

impl OwnLane {
    pub(crate) fn new(ground: &Ground, key: fn(&Keys, SessionId, u64) -> Key, number: u64) -> Self {
        Self { ground: ground.clone(), key, number, lane: None }
    }

    /// The lane of the present session.
    ///
    /// # Errors
    /// Those of opening it; [`LaneError::Lost`] when that session has ended.
    pub(crate) async fn present(&mut self) -> Result<&mut Lane, LaneError> {
        let session = self.ground.session().id();
        let lane = match self.lane.take() {
            Some((owner, lane)) if owner == session => lane,
            _ => {
                let key = (self.key)(self.ground.keys(), session, self.number);
                let (store, env) = (Arc::clone(self.ground.store()), self.ground.env().clone());
                // A lane that was opened after its session had ended would stay for ever.
                let present = vec![Check::Present(self.ground.keys().session(session))];
                match Lane::open_if(store, env, key.clone(), self.ground.retry(), present).await {
                    Err(LaneError::Conflict(Conflict::Check { .. })) => return Err(LaneError::Lost { key }),
                    opened => opened?,
                }
            }
        };
        Ok(&mut self.lane.insert((session, lane)).1)
    }

    /// The lane that was used last, if there is one: of whichever session.
    pub(crate) fn last(&mut self) -> Option<&mut Lane> {
        self.lane.as_mut().map(|(_, lane)| lane)
    }
}
