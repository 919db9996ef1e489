//! [`Lock`]: a row, as it was read.

use std::time::Duration;

use mysql_async::{FromRowError, Row};

use crate::mysql::Failure;

/// How a lock stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockState {
    /// Who holds it, or held it last.
    pub owner: String,
    /// Which owner this is: each has a greater number than those before.
    pub term: u64,
    /// For how long it is held for certain, unless it is renewed; zero, if it may be over.
    pub left: Duration,
    /// Whether it can be taken over.
    pub expired: bool,
}

/// A row, as it was read.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) owner: String,
    pub(super) term: u64,
    /// `term_duration`: how often it was renewed in this term.
    pub(super) renewals: u64,
    /// `duration`, as it is written.
    pub(super) millis: i64,
    pub(super) duration: Duration,
    /// Since the last renewal, by the server's clock.
    age: Duration,
    /// The part of a second at which that was.
    fraction: Duration,
    /// Whether others may take it over.
    pub(super) expired: bool,
}

impl Lock {
    pub(super) fn read(row: Row) -> Result<Self, Failure> {
        type Columns = (String, u64, u64, i64, i64, u32, bool);
        let columns: Result<Columns, FromRowError> = mysql_async::from_row_opt(row);
        let (owner, term, renewals, millis, age, fraction, expired) =
            columns.map_err(|error| Failure::new(format!("read a lock of SOFARegistry: {error}")))?;
        Ok(Self {
            owner,
            term,
            renewals,
            millis,
            duration: Duration::from_millis(u64::try_from(millis).unwrap_or(0)),
            // A renewal in the future is one that was just made.
            age: Duration::from_micros(u64::try_from(age).unwrap_or(0)),
            fraction: Duration::from_micros(fraction.into()),
            expired,
        })
    }

    /// For how long nobody can take it over, for certain.
    pub(super) fn left(&self) -> Duration {
        if self.expired { Duration::ZERO } else { self.duration.saturating_sub(self.age) }
    }

    /// How long until somebody can: from the first whole second that is more than the duration, in whole seconds,
    /// after the renewal.
    pub(super) fn until_taken(&self) -> Duration {
        let whole = Duration::from_secs(self.duration.as_secs() + 1);
        let second = Duration::from_secs(1);
        let rest =
            if self.fraction.is_zero() { Duration::ZERO } else { second.saturating_sub(self.fraction) };
        (whole + rest).saturating_sub(self.age)
    }

    /// How many seconds before now a renewal must be for the lock to have expired, whatever parts of seconds are cut
    /// off.
    pub(super) fn back_seconds(&self) -> u64 {
        self.duration.as_secs() + 2
    }

    pub(super) fn state(&self) -> LockState {
        let Self { owner, term, expired, .. } = self;
        LockState { owner: owner.clone(), term: *term, left: self.left(), expired: *expired }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule in the server's words: whether it can be taken over at a time, all in milliseconds.
    fn can_be_taken(renewed: u64, now: u64, duration: u64) -> bool {
        let whole_now = now / 1000 * 1000;
        let seconds = whole_now.saturating_sub(renewed) / 1000;
        seconds * 1000 > duration
    }

    fn lock(renewed: u64, now: u64, duration: u64) -> Lock {
        Lock {
            owner: "o".into(),
            term: 1,
            renewals: 0,
            millis: i64::try_from(duration).unwrap(),
            duration: Duration::from_millis(duration),
            age: Duration::from_millis(now - renewed),
            fraction: Duration::from_millis(renewed % 1000),
            expired: can_be_taken(renewed, now, duration),
        }
    }

    #[test]
    fn nobody_takes_a_lock_over_while_it_is_granted_and_somebody_can_when_we_say_so() {
        for duration in [1000, 1001, 1500, 1999, 2000, 20_000] {
            for renewed in (50_000..51_000).step_by(37).chain([50_000, 50_001, 50_999]) {
                for now in (renewed..renewed + duration + 3000).step_by(113) {
                    let lock = lock(renewed, now, duration);
                    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
                    let end = now + millis(lock.left());
                    assert!(end == now || !can_be_taken(renewed, end - 1, duration), "{lock:?}");
                    let taken = now + millis(lock.until_taken());
                    assert!(can_be_taken(renewed, taken, duration), "{lock:?}");
                    assert!(taken == now || !can_be_taken(renewed, taken - 1, duration), "{lock:?}");
                    let back = now - lock.back_seconds() * 1000;
                    assert!(can_be_taken(back, now, duration), "{lock:?}");
                }
            }
        }
    }
}
