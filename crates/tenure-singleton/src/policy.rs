//! [`Policy`]: how a singleton treats its child.

use std::time::Duration;

use tenure_store::StoreError;

/// When a child that has ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Restart {
    /// Always, while leading: for work that never ends.
    Always,
    /// When it failed. A child that returns is done: leadership is given up, and this node does not stand again.
    OnFailure,
    /// Never: leadership is given up, and this node does not stand again.
    Never,
}

/// How a singleton treats its child. [`SingletonBuilder::start`](crate::SingletonBuilder::start) checks it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// When the child is started again. Default: always.
    pub restart: Restart,
    /// The first pause before it is started again; it doubles with each failure in a row. Default: 100 ms.
    pub backoff: Duration,
    /// The longest pause. Default: 30 s.
    pub backoff_most: Duration,
    /// After so many failures in a row leadership is given up. A child that ran for longer than [`Policy::steady`] starts a new row. Default: 5.
    pub failures_max: u32,
    /// A child that ran for so long had not failed to start. Default: 60 s.
    pub steady: Duration,
    /// For how long this node does not stand after it gave up. Default: 30 s.
    pub cooldown: Duration,
    /// How long a child has to end when it is asked to. With an oracle that grants for a limited time, the child is cancelled when only this is left. Default:
    /// a quarter of the ttl, or 3 s where that is not known.
    pub grace: Duration,
    /// How long to wait before the first claim. Default: not at all.
    pub claim_delay: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            restart: Restart::Always,
            backoff: Duration::from_millis(100),
            backoff_most: Duration::from_secs(30),
            failures_max: 5,
            steady: Duration::from_secs(60),
            cooldown: Duration::from_secs(30),
            grace: Duration::from_secs(3),
            claim_delay: Duration::ZERO,
        }
    }
}

impl Policy {
    /// Whether it can be kept.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the value, the rule and what to do.
    pub fn validate(&self) -> Result<(), StoreError> {
        let Self { backoff, backoff_most, failures_max, grace, .. } = self;
        let refuse = |words: String| Err(StoreError::invalid(words));
        if backoff.is_zero() {
            return refuse(
                "backoff is 0 s and must be more: a child that fails would be started in a loop".to_owned(),
            );
        }
        if backoff > backoff_most {
            return refuse(format!(
                "backoff {backoff:?} is more than backoff_most {backoff_most:?}: swap them"
            ));
        }
        if *failures_max == 0 {
            return refuse(
                "failures_max is 0 and must be at least 1: with 1, the first failure gives up".to_owned(),
            );
        }
        if grace.is_zero() {
            return refuse("grace is 0 s and must be more: a child needs time to end".to_owned());
        }
        Ok(())
    }

    /// The pause after so many failures in a row, from 1.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.backoff.saturating_mul(1 << doublings).min(self.backoff_most)
    }
}
