//! [`Tasks`]: all that runs by itself for the links of one node, and how it ends.

use std::future::Future;

use tenure_store::Env;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks of the links of one node, the same for all clones. They watch the token, and end soon after it was cancelled.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    env: Env,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    pub(super) fn new(env: Env) -> Self {
        Self { env, tracker: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// Starts a task. All tasks of this module are started here.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.env.spawn(self.tracker.track_future(task)));
    }

    /// What tasks watch.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Tells all tasks to end.
    pub(super) fn end(&self) {
        self.stop.cancel();
        self.tracker.close();
    }

    /// Waits until all have ended.
    pub(super) async fn ended(&self) {
        self.tracker.wait().await;
    }
}
