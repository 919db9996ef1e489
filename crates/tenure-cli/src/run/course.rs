//! [`Course`]: what became of a command so far, and by when the guardian must have done what it is for.

use std::time::Duration;

use tenure::store::{Env, Moment, Name};

use super::Ended;

/// How long after the guardian should have acted this process acts itself, and how long before the leadership ends it does so at the latest.
const WATCHDOG_TIME: Duration = Duration::from_millis(100);
const WATCHDOG_BEFORE: Duration = Duration::from_millis(200);

/// How long the start of a process may take: far longer than it does.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// What became of the command so far.
#[derive(Default)]
pub(super) struct Course {
    /// When the leadership ends, as far as is known.
    pub(super) until: Option<Moment>,
    /// Whether it has ended.
    pub(super) over: bool,
    /// Whether the command was ended because of that, or because it was near.
    pub(super) lost: bool,
    /// Whether somebody asked us to end.
    pub(super) stopped: bool,
    /// Whether an operator asked us to give leadership up, and to whom.
    pub(super) asked: Option<Option<Name>>,
    /// When the command must have been started; nothing, once it was.
    pub(super) start_by: Option<Moment>,
    /// When it must have ended, since it was asked to.
    pub(super) stop_by: Option<Moment>,
    /// Whether the guardian has not reported in time what it must have done.
    pub(super) doubted: bool,
    pub(super) code: u8,
}

impl Course {
    /// The course of a command that the guardian was told to start.
    pub(super) fn new(now: Moment, until: Option<Moment>) -> Self {
        Self { until, start_by: Some(now.after(START_PATIENCE)), ..Self::default() }
    }

    /// When the guardian has failed: it should have killed everything a moment before.
    pub(super) fn overdue(&self, grace: Duration) -> Option<Moment> {
        let late = self.stop_by.map(|at| at.after(WATCHDOG_TIME));
        let before = (grace / 5).min(WATCHDOG_BEFORE);
        let last = self.until.map(|until| Moment::ZERO.after(until.since_start().saturating_sub(before)));
        [self.start_by, late, last].into_iter().flatten().min()
    }

    /// How it ended, now that nothing is left.
    pub(super) fn ended(&self) -> Ended {
        match self {
            Self { stopped: true, code, .. } => Ended::Stopped(*code),
            Self { lost: true, .. } => Ended::Lost,
            Self { asked: Some(to), .. } => Ended::Asked(to.clone()),
            Self { code, .. } => Ended::Exited(*code),
        }
    }
}

/// Waits for this moment; for ever, if there is none.
pub(super) async fn sleep_until(env: &Env, moment: Option<Moment>) {
    let Some(moment) = moment else { return std::future::pending().await };
    loop {
        let left = moment - env.now();
        if left.is_zero() {
            return;
        }
        // In steps: the clock that the timer follows stands still while the machine is suspended, ours does not.
        env.sleep(left.min(Duration::from_secs(1))).await;
    }
}
