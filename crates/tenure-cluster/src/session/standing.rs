//! [`Session`] and [`Hold`]: how long a session can be trusted, and what hangs on it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_store::{Env, Moment, latest};

use super::SessionId;
use crate::{Cause, Settings};

/// One incarnation of a node. Clones are the same session.
#[derive(Clone)]
pub struct Session(Arc<Shared>);

struct Shared {
    id: SessionId,
    env: Env,
    ttl: Duration,
    /// Until when it can be trusted, in nanoseconds of the boot-time clock. Apart from `standing`, since renewals wake nobody.
    until: AtomicU64,
    /// How often it was renewed.
    renewals: AtomicU64,
    standing: latest::Sender<Standing>,
}

/// What those who hang on a session are told.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// How often its deadline passed.
    lapses: u64,
    /// Whether it has, without a renewal since.
    lapsed: bool,
    /// Why it ended, if it has.
    ended: Option<Cause>,
}

impl Session {
    /// A session whose first keys were sent to the store at that moment.
    pub(crate) fn new(id: SessionId, env: Env, ttl: Duration, sent: Moment) -> Self {
        let until = AtomicU64::new(nanos(sent.after(ttl - Settings::margin(ttl))));
        let standing = latest::Sender::new(Standing::default());
        Self(Arc::new(Shared { id, env, ttl, until, renewals: AtomicU64::new(0), standing }))
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.0.id
    }

    /// How long it lives without being renewed.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// How often it was renewed.
    #[must_use]
    pub fn renewals(&self) -> u64 {
        self.0.renewals.load(Ordering::SeqCst)
    }

    /// For how long nobody else can have ended it; zero when that can't be said any more.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let standing = *self.0.standing.borrow();
        if standing.lapsed || standing.ended.is_some() { Duration::ZERO } else { self.time_left() }
    }

    /// The end of that time, as far as is known now, since the machine was started.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_nanos(self.0.until.load(Ordering::SeqCst))
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Cause> {
        self.0.standing.borrow().ended
    }

    /// Returns when the session can't be trusted any more: its deadline has passed, or it has ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn lost(&self) {
        self.hold().lost().await;
    }

    /// Returns when the session can be trusted, or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn valid_or_ended(&self) {
        let mut standing = self.0.standing.subscribe();
        // The sender lives as long as this session does.
        let _ = standing.wait_for(|standing| !standing.lapsed || standing.ended.is_some()).await;
    }

    /// Whatever hangs on the session from now on, until it lapses or ends for the first time.
    #[must_use]
    pub fn hold(&self) -> Hold {
        Hold { session: self.clone(), lapses: self.0.standing.borrow().lapses }
    }

    fn time_left(&self) -> Duration {
        self.deadline().saturating_sub(self.0.env.now().since_start())
    }

    /// A renewal that was sent at that moment has succeeded. Returns whether the session had lapsed before.
    pub(crate) fn extend(&self, sent: Moment, renewals: u64) -> bool {
        // What passed while nobody could tell was a loss all the same.
        let lapsed = self.lapse_if_due();
        let until = nanos(sent.after(self.0.ttl - Settings::margin(self.0.ttl)));
        self.0.until.fetch_max(until, Ordering::SeqCst);
        self.0.renewals.fetch_max(renewals, Ordering::SeqCst);
        let was = lapsed || self.0.standing.borrow().lapsed;
        if !self.time_left().is_zero() {
            self.0.standing.send_if_modified(|standing| std::mem::take(&mut standing.lapsed));
        }
        was
    }

    /// Tells all that hangs on the session if its deadline has passed. Returns whether that was new.
    pub(crate) fn lapse_if_due(&self) -> bool {
        self.0.standing.send_if_modified(|standing| {
            let due = !standing.lapsed && standing.ended.is_none() && self.time_left().is_zero();
            if due {
                (standing.lapsed, standing.lapses) = (true, standing.lapses + 1);
            }
            due
        })
    }

    /// Tells all that hangs on the session that it has ended.
    pub(crate) fn end(&self, cause: Cause) {
        self.0.standing.send_if_modified(|standing| {
            let new = standing.ended.is_none();
            standing.ended.get_or_insert(cause);
            new
        });
    }

    /// Lapses whenever the deadline passes, until the session has ended.
    pub(crate) async fn watch_deadline(self) {
        while self.ended().is_none() {
            let left = self.time_left();
            if left.is_zero() {
                self.lapse_if_due();
                self.valid_or_ended().await;
            } else {
                // In short steps: the clock that the timer follows stands still while the machine is suspended, ours does not.
                self.0.env.sleep(left.min(STEP)).await;
            }
        }
    }
}

/// The longest sleep after which the deadline is looked at again.
const STEP: Duration = Duration::from_secs(1);

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.0.id).field("remaining", &self.remaining()).finish()
    }
}

/// Something that hangs on a session: worth nothing once the session has lapsed or ended, even if it goes on later.
#[derive(Clone, Debug)]
pub struct Hold {
    session: Session,
    lapses: u64,
}

impl Hold {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// For how long it holds for certain.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let standing = *self.session.0.standing.borrow();
        let broken = standing.lapses != self.lapses || standing.ended.is_some();
        if broken { Duration::ZERO } else { self.session.time_left() }
    }

    /// Whether this holds as long as the other, and no longer.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.session.0, &other.session.0) && self.lapses == other.lapses
    }

    /// Returns when it does not hold any more.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn lost(&self) {
        let mut standing = self.session.0.standing.subscribe();
        let broken = |standing: &Standing| standing.lapses != self.lapses || standing.ended.is_some();
        // The sender lives as long as the session that this holds on to.
        let _ = standing.wait_for(broken).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> (Env, Session) {
        let env = Env::simulated(1);
        let session = Session::new(SessionId::random(&env), env.clone(), Duration::from_secs(10), env.now());
        tokio::spawn(session.clone().watch_deadline());
        (env, session)
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_counts_from_before_the_renewal() {
        let (env, session) = session();
        assert_eq!(session.remaining(), Duration::from_millis(9500));
        let sent = env.now();
        env.sleep(Duration::from_secs(3)).await;
        session.extend(sent, 1);
        assert_eq!(session.remaining(), Duration::from_millis(6500));
        assert_eq!(session.renewals(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_lapsed_stays_lost_though_the_session_goes_on() {
        let (env, session) = session();
        let hold = session.hold();
        hold.lost().await;
        assert_eq!(env.now().since_start(), Duration::from_millis(9500));
        assert_eq!((hold.remaining(), session.remaining()), (Duration::ZERO, Duration::ZERO));
        assert!(session.extend(env.now(), 1));
        assert_eq!(session.remaining(), Duration::from_millis(9500));
        assert_eq!(hold.remaining(), Duration::ZERO);
        hold.lost().await;
        session.valid_or_ended().await;
        let again = session.hold();
        assert!(!again.remaining().is_zero());
        session.end(Cause::Expired);
        again.lost().await;
        assert_eq!((session.remaining(), session.ended()), (Duration::ZERO, Some(Cause::Expired)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_came_too_late_is_a_lapse_though_no_timer_ran() {
        let env = Env::simulated(1);
        let session = Session::new(SessionId::random(&env), env.clone(), Duration::from_secs(10), env.now());
        let hold = session.hold();
        env.sleep(Duration::from_secs(60)).await;
        assert!(session.extend(env.now(), 1));
        assert_eq!(hold.remaining(), Duration::ZERO);
        assert!(!session.remaining().is_zero());
    }
}
