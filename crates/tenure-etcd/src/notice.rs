//! [`Notice`]: wakes watches when etcd tells of a change, and now and then when it does not.
//!
//! One watch of etcd's over everything under the prefix serves all watches of this process. It is open while there are any, goes on behind
//! the last revision it saw when its stream breaks, and from now on when that revision was compacted away; then all are woken.
//!
//! **A watch of etcd's is not trusted.** Some versions lose events after a compaction, and a member that was cut off tells nothing. Revisions have
//! no gaps: each is either one that the watch told of, or somebody else's, or one that got lost. A slow look asks for the revision of the cluster; when
//! there are revisions that the watch did not tell of within the time between two looks, all watches are woken. In a cluster that only this
//! store writes to, that means a loss; where others write too, it happens at every look.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_store::{Env, WatchHub};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

use crate::{
    cluster::Cluster,
    error::{Failure, Meaning, chain},
    layout::Layout,
    messages::{WatchCreateRequest, WatchRequest, WatchResponse, revision},
    rounds::Rounds,
};

/// The pause before a broken stream is opened again, doubled each time up to [`PAUSE_MAX`] until it has told something.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause before a broken stream is opened again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a stream stays open at most when nobody watches any more.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// What wakes the watches of a store in this process. Its tasks end with it.
#[derive(Debug)]
pub(crate) struct Notice {
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    revisions: Arc<Rounds<i64>>,
    layout: Layout,
    hub: WatchHub,
    env: Env,
    reread: Duration,
    /// One for each task: that there is a watch.
    attend: [Notify; 2],
    sight: Mutex<Sight>,
}

/// What the watch has told of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sight {
    /// The last revision that is accounted for.
    seen: i64,
    /// Whether one before it is not.
    gap: bool,
    /// The revision of the cluster at the last look.
    looked: i64,
}

impl Notice {
    pub(crate) fn start(
        cluster: &Arc<Cluster>,
        revisions: &Arc<Rounds<i64>>,
        layout: &Layout,
        hub: &WatchHub,
        env: &Env,
        reread: Duration,
    ) -> Self {
        let shared = Arc::new(Shared {
            cluster: Arc::clone(cluster),
            revisions: Arc::clone(revisions),
            layout: layout.clone(),
            hub: hub.clone(),
            env: env.clone(),
            reread,
            attend: [Notify::new(), Notify::new()],
            sight: Mutex::default(),
        });
        let follower = tokio::spawn(Arc::clone(&shared).follow());
        let looker = tokio::spawn(Arc::clone(&shared).look());
        Self { shared, tasks: [follower, looker] }
    }

    /// Tells that a watch was made.
    pub(crate) fn attend(&self) {
        self.shared.attend.iter().for_each(Notify::notify_one);
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    /// Follows what etcd tells, while anybody watches.
    async fn follow(self: Arc<Self>) {
        // Where to go on; 0 is from now on.
        let (mut next, mut pause) = (0, PAUSE_MIN);
        loop {
            if self.hub.count() == 0 {
                next = 0;
                self.attend[0].notified().await;
                continue;
            }
            let before = next;
            match self.follow_stream(&mut next).await {
                Ok(()) => pause = PAUSE_MIN,
                Err(failure) => {
                    if next != before {
                        pause = PAUSE_MIN;
                    }
                    tracing::debug!(error = %failure.reason, "the watch of etcd broke, it is opened again");
                    self.env.sleep(pause - self.env.random_time(pause / 2)).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Follows one stream until it breaks or nobody watches any more.
    async fn follow_stream(&self, next: &mut i64) -> Result<(), Failure> {
        let (key, range_end) = self.layout.all();
        let create = WatchCreateRequest { key, range_end, start_revision: *next, fragment: true };
        // Held open behind the creation, and dropped with this future: the stream ends only when both of its directions do.
        let (sending, requests) = mpsc::channel(1);
        let _ = sending.try_send(WatchRequest { create: Some(create) });
        let (member, mut stream) = self.cluster.stream("watch", ReceiverStream::new(requests)).await?;
        while self.hub.count() > 0 {
            // To see now and then whether anybody watches.
            let Ok(told) = self.env.timeout(self.reread.min(IDLE_MAX), stream.message()).await else {
                continue;
            };
            let told =
                told.and_then(|told| told.ok_or_else(|| tonic::Status::unavailable("the stream ended")));
            match told {
                Err(status) => {
                    self.cluster.leave(member);
                    return Err(Failure::answered("watch", self.cluster.name(member), status));
                }
                Ok(told) if told.canceled => return self.canceled(told, member, next).await,
                Ok(told) => self.tell(&told, next),
            }
        }
        Ok(())
    }

    fn tell(&self, told: &WatchResponse, next: &mut i64) {
        if told.created && *next == 0 {
            let now = revision(told.header.as_ref());
            *next = now + 1;
            self.sight.lock().begin(now);
            // What changed while the watch was being made was not told of.
            self.hub.wake_all();
        }
        let changed = told.events.iter().filter_map(|event| event.kv.as_ref());
        for kv in changed.clone() {
            // The other events of the revision may be in the next piece.
            *next = (*next).max(kv.mod_revision + i64::from(!told.fragment));
        }
        self.sight.lock().account(changed.clone().map(|kv| kv.mod_revision));
        self.hub.wake(changed.map(|kv| self.layout.to_range(&kv.key)));
    }

    async fn canceled(&self, told: WatchResponse, member: usize, next: &mut i64) -> Result<(), Failure> {
        if told.compact_revision != 0 {
            tracing::debug!(revision = *next, "what the watch of etcd had to tell was compacted away");
            *next = 0;
            return Ok(());
        }
        let status = tonic::Status::unavailable(told.cancel_reason);
        let failure = Failure::answered("watch", self.cluster.name(member), status);
        if failure.meaning == Meaning::Login {
            // Its outcome shows when the watch is made again.
            let _ = self.cluster.log_in().await;
        }
        Err(failure)
    }

    /// Looks for itself, while anybody watches.
    async fn look(self: Arc<Self>) {
        loop {
            if self.hub.count() == 0 {
                self.attend[1].notified().await;
                continue;
            }
            self.env.sleep(self.reread).await;
            match self.revisions.join().await {
                Ok(revision) => {
                    if self.sight.lock().look(revision) {
                        self.hub.wake_all();
                    }
                }
                Err(error) => {
                    tracing::debug!(error = chain(&error), "the revision of etcd could not be asked for");
                }
            }
        }
    }
}

impl Sight {
    /// A watch tells of everything from here on.
    fn begin(&mut self, revision: i64) {
        self.seen = self.seen.max(revision);
    }

    /// The watch told of these, in order.
    fn account(&mut self, revisions: impl Iterator<Item = i64>) {
        for revision in revisions {
            self.gap |= revision > self.seen + 1;
            self.seen = self.seen.max(revision);
        }
    }

    /// Whether there were changes that the watch did not tell of, though it had from the last look to this one. They count as told of
    /// from now on.
    fn look(&mut self, revision: i64) -> bool {
        let missing = self.gap || self.seen < self.looked;
        *self = Self { seen: self.seen.max(self.looked), gap: false, looked: self.looked.max(revision) };
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_tells_of_everything_is_left_alone() {
        let mut sight = Sight::default();
        sight.begin(10);
        assert!(!sight.look(10));
        sight.account([11, 11, 12].into_iter());
        // 13 and 14 are under way.
        assert!(!sight.look(14));
        sight.account([13, 14].into_iter());
        assert!(!sight.look(14) && !sight.look(14));
    }

    #[test]
    fn what_was_not_told_of_is_noticed_once() {
        let mut sight = Sight::default();
        sight.begin(10);
        assert!(!sight.look(12));
        assert!(sight.look(12), "11 and 12 did not come");
        assert!(!sight.look(12));
        sight.account([13].into_iter());
        assert!(!sight.look(13));
    }

    #[test]
    fn a_loss_in_the_middle_is_noticed() {
        let mut sight = Sight::default();
        sight.begin(10);
        sight.account([11, 13].into_iter());
        assert!(sight.look(13));
        assert!(!sight.look(13));
    }

    #[test]
    fn without_any_watch_every_change_is_noticed() {
        let mut sight = Sight::default();
        assert!(!sight.look(10));
        assert!(sight.look(11) && sight.look(12) && sight.look(12) && !sight.look(12));
    }
}
