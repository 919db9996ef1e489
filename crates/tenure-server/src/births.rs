//! [`Births`]: first commits to servers, each of which happens exactly once.
//!
//! A commit to a server checks the version of its head, which never comes back, and leaves a mark in the head that tells
//! what became of it. The first one can only check that there is no head. That holds again when the server was deleted:
//! a copy that was under way for long would bring the server back, and a head that is gone tells nobody whether the
//! commit had happened. So first commits go through lanes of this node's session, a few side by side. A lane knows what
//! became of its last commit whatever became of the server, and goes with its session. That is one small write more, for
//! the first commit to a server only.

use parking_lot::Mutex;
use tenure_cluster::{Cause, Ground};
use tenure_store::{Commit, Conflict, LaneError, Receipt, Retry, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{keys, lane::OwnLane};

/// How many first commits are made at once: enough to share the store's flushes.
const LANES: u64 = 64;

/// The first commits of a node to servers.
#[derive(Debug)]
pub(crate) struct Births {
    ground: Ground,
    /// As many permits as there are free lanes.
    room: Semaphore,
    free: Mutex<Vec<(u64, OwnLane)>>,
}

/// Why a first commit gave no receipt, and the number of its lane.
pub(crate) struct Unborn {
    pub(crate) error: LaneError,
    pub(crate) lane: u64,
}

/// A lane that is used. Dropping it gives it back.
struct Taken<'a> {
    births: &'a Births,
    lane: Option<(u64, OwnLane)>,
    _room: SemaphorePermit<'a>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.births.free.lock().extend(self.lane.take());
    }
}

impl Births {
    pub(crate) fn new(ground: Ground) -> Self {
        let lanes = (0..LANES).rev().map(|number| (number, OwnLane::new(&ground, keys::birth_lane, number)));
        let free = Mutex::new(lanes.collect());
        Self { room: Semaphore::new(usize::try_from(LANES).expect("a few")), free, ground }
    }

    /// Makes a commit that checks that there is no head. After every error but [`LaneError::OutcomeUnknown`] it never
    /// happened, and never will.
    pub(crate) async fn make(&self, commit: Commit) -> Result<Receipt, Unborn> {
        let mut pauses = self.ground.retry().start(self.ground.env());
        let mut taken = self.take(None).await;
        let Some((number, lane)) = taken.as_mut().and_then(|taken| taken.lane.as_mut()) else {
            let error =
                StoreError::unavailable("too many servers are being made, and the store gives no answer");
            return Err(Unborn { error: error.into(), lane: 0 });
        };
        loop {
            let made = match lane.present().await {
                Ok(lane) => lane.commit(commit.clone()).await,
                Err(error) => Err(error),
            };
            match made {
                Ok(receipt) => return Ok(receipt),
                // Another session follows.
                Err(LaneError::Lost { .. } | LaneError::Conflict(Conflict::Contention))
                    if self.ground.session().ended() != Some(Cause::Left) && pauses.pause().await => {}
                Err(error) => return Err(Unborn { error, lane: *number }),
            }
        }
    }

    /// Returns when the last commit of this lane has happened, or can't any more; or when the node has left.
    pub(crate) async fn settle(&self, number: u64, retry: Retry) {
        let mut pauses = retry.start(self.ground.env());
        loop {
            let mut taken = self.take(Some(number)).await;
            let lane = taken.as_mut().and_then(|taken| taken.lane.as_mut());
            let unsettled = match lane.map(|(_, lane)| lane.last()) {
                Some(Some(lane)) => matches!(lane.settle().await, Err(LaneError::OutcomeUnknown(_))),
                Some(None) => false,
                // Whoever uses it settles it first, or tries to.
                None => true,
            };
            drop(taken);
            let has_left = self.ground.session().ended() == Some(Cause::Left);
            if !unsettled || has_left || !pauses.pause().await {
                return;
            }
        }
    }

    /// A free lane: any, or that of this number, if it is free. `None` when all are in use for as long as is to be tried.
    async fn take(&self, number: Option<u64>) -> Option<Taken<'_>> {
        let acquired =
            self.ground.env().timeout(self.ground.retry().within, self.room.acquire()).await.ok()?;
        let room = acquired.expect("it is never closed");
        let mut free = self.free.lock();
        let lane = match number {
            Some(number) => free.iter().position(|(of, _)| *of == number).map(|at| free.remove(at)),
            None => free.pop(),
        };
        Some(Taken { births: self, lane, _room: room })
    }
}
