//! [`Consuming`]: what a node says of the kinds that it consumes.

use tenure_cluster::Ground;
use tenure_store::{Commit, LaneError};
use tokio::sync::Mutex;

use crate::{keys, lane::OwnLane};

/// Says which kinds a node consumes, one after the other and each exactly once: what was said before it ceased to
/// consume must not come late.
#[derive(Debug)]
pub(crate) struct Consuming(Mutex<OwnLane>);

impl Consuming {
    pub(crate) fn new(ground: &Ground) -> Self {
        Self(Mutex::new(OwnLane::new(ground, keys::consuming_lane, 0)))
    }

    pub(crate) async fn say(&self, commit: Commit) -> Result<(), LaneError> {
        self.0.lock().await.present().await?.commit(commit).await.map(|_| ())
    }
}
