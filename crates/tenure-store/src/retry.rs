//! [`Retry`]: how long, and how patiently, something is tried again.

use std::time::Duration;

use crate::{Env, Moment};

/// Pauses that double from `first` up to `most`, each shortened by a random part of up to a half so that rivals don't
/// keep step, until `within` has passed since the first try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The first pause. More than zero, so that the number of tries is bounded too.
    pub first: Duration,
    /// The longest pause.
    pub most: Duration,
    /// How long to go on.
    pub within: Duration,
}

/// A lost answer on a local network is settled within a few milliseconds; a database that restarts is back within ten seconds
/// as a rule. A request that has waited longer than that is better answered with an error.
impl Default for Retry {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(2),
            most: Duration::from_millis(500),
            within: Duration::from_secs(10),
        }
    }
}

impl Retry {
    /// The pauses of one request, from now on.
    #[must_use]
    pub fn start(self, env: &Env) -> Pauses {
        Pauses {
            env: env.clone(),
            next: self.first.max(Duration::from_micros(1)),
            most: self.most,
            until: env.now().after(self.within),
        }
    }
}

/// The pauses between the tries of one request; see [`Retry::start`].
#[derive(Debug)]
pub struct Pauses {
    env: Env,
    next: Duration,
    most: Duration,
    until: Moment,
}

impl Pauses {
    /// Waits before the next try. Returns `false`, without waiting, when there is to be none.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; the next pause is longer all the same.
    pub async fn pause(&mut self) -> bool {
        let left = self.until - self.env.now();
        if left.is_zero() {
            return false;
        }
        let time = self.next - self.env.random_time(self.next / 2);
        self.next = (self.next * 2).min(self.most);
        self.env.sleep(time.min(left)).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end() {
        let env = Env::simulated(3);
        let retry = Retry {
            first: Duration::from_millis(10),
            most: Duration::from_millis(100),
            within: Duration::from_secs(1),
        };
        let start = env.now();
        let mut pauses = retry.start(&env);
        let mut tries = 0;
        while pauses.pause().await {
            tries += 1;
        }
        assert_eq!(env.now() - start, Duration::from_secs(1));
        // At most: 3 pauses up to 40 ms, then pauses of 50 to 100 ms.
        assert!((12..=23).contains(&tries), "{tries}");
    }
}
