//! [`Doubt`]: a commit whose outcome was told as unknown, and that may land yet.
//!
//! Its callers know that nobody knows. But it may have recorded effects, which are this node's to do, however late it
//! lands. So it is made sure in the background that it has landed, or can't any more; then its server's effects are
//! looked up.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cause, Ground};
use tenure_store::{Check, Commit, Retry, Store as _, StoreError, StoreExt as _, Version, Versioned};

use super::{Desk, Request};
use crate::{Server, births::Births, head::Head, keys::ServerKeys};

/// Between tries: for as long as the store is away.
const RETRY: Retry =
    Retry { first: Duration::from_millis(100), most: Duration::from_secs(5), within: Duration::MAX };

/// What a commit was made on that may land yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doubt {
    /// No server; through this lane.
    First(u64),
    /// The head in this version.
    Next(Version),
}

impl Doubt {
    /// Returns when it has landed, or can't any more; or when the node has left, whose effects others do then.
    async fn settle(self, ground: &Ground, keys: &ServerKeys, births: &Births) {
        let version = match self {
            Self::First(lane) => return births.settle(lane, RETRY).await,
            Self::Next(version) => version,
        };
        let mut pauses = RETRY.start(ground.env());
        while ground.session().ended() != Some(Cause::Left) {
            if matches!(outdate(ground, keys, version).await, Ok(Some(_))) || !pauses.pause().await {
                return;
            }
        }
    }
}

impl<S: Server> Desk<S> {
    /// Looks for effects when a commit that may have recorded some can't land any more.
    pub(super) fn look_into(&mut self, doubt: Doubt) {
        // While it is open the desk stays.
        let Some(own) = self.own.upgrade() else { return };
        let (kind, keys) = (Arc::clone(&self.kind), Arc::clone(&self.keys));
        self.doubts += 1;
        self.kind.ground.env().spawn(async move {
            doubt.settle(&kind.ground, &keys, &kind.births).await;
            // It is there: it has the one that this is sent to.
            let _ = own.send(Request::Settled).await;
        });
    }
}

/// Changes the head if it is still in this version, so that no commit that checks that can land any more. Returns the
/// head when it is another, or there is none; `None` if it has just been changed, or may have been: look again.
pub(super) async fn outdate(
    ground: &Ground,
    keys: &ServerKeys,
    version: Version,
) -> Result<Option<Option<Versioned>>, StoreError> {
    let found = ground.store().get(&keys.head).await?;
    let Some(found) = found.as_ref().filter(|found| found.version == version) else {
        return Ok(Some(found));
    };
    // As it is stored: a migrated state is not yet.
    let mut head = Head::decode(&keys.head, &found.value)?;
    head.mark(ground.env().random_u64());
    let commit =
        Commit::new().check(Check::Version(keys.head.clone(), version)).set(keys.head.clone(), head.encode());
    // Whatever comes of it, the head tells.
    if ground.store().commit(commit).await.is_err() {
        return Ok(None);
    }
    Ok(Some(ground.store().get(&keys.head).await?))
}
