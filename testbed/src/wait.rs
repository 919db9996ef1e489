//! Waiting with a bound, in real time: servers are not simulated.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How often a condition is looked at. Short beside any start of a server, long beside the cost of looking.
const TICK: Duration = Duration::from_millis(10);

/// The time, to bound waits. The one place here that reads a clock.
#[expect(
    clippy::disallowed_methods,
    reason = "real servers run in real time, and nothing of it is simulated"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits until `done` gives a value, at most for `limit`. It is asked at least once.
pub(crate) fn until<T>(limit: Duration, mut done: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = now();
    loop {
        if let Some(value) = done() {
            return Some(value);
        }
        if begun.elapsed() > limit {
            return None;
        }
        thread::sleep(TICK);
    }
}
