//! [`Seat`]: wins a leadership from an oracle and keeps it. No question to the oracle is decided anywhere else.
//!
//! A [`Singleton`](crate::Singleton) has one and does the rest by itself. It is public for those who run something else than a future, such as a process.

use std::{fmt, time::Duration};

use tenure_store::{Env, Moment, Name, latest};

use crate::{
    Answer, Asked, Grant, Oracle, Validity,
    mandate::{Tenure, Terms},
};

/// Pauses after answers that are unknown: short at first, since most outages are.
const UNKNOWN_FIRST: Duration = Duration::from_millis(50);
const UNKNOWN_MOST: Duration = Duration::from_secs(5);

/// While leading, there is no time for long pauses.
const UNKNOWN_MOST_LEADING: Duration = Duration::from_millis(500);

/// An oracle, and what it granted.
pub struct Seat {
    name: Name,
    oracle: Box<dyn Oracle>,
    env: Env,
    tenure: latest::Sender<Tenure>,
    /// The fencing token of what was granted.
    term: Option<u64>,
    /// When to ask again.
    refresh: Option<Moment>,
    /// Whether the oracle may hold something for us.
    held: bool,
}

/// What a seat tells while it is waited for, or kept.
pub trait Told: Send {
    /// Somebody else leads.
    fn denied(&mut self, holder: Option<String>) {
        drop(holder);
    }

    /// It could not be found out.
    fn unknown(&mut self, reason: String) {
        drop(reason);
    }

    /// The oracle was asked whether it goes on, and said yes.
    fn refreshed(&mut self) {}

    /// It is valid until then; without a limit, if there is no such moment.
    fn extended(&mut self, until: Option<Moment>) {
        let _ = until;
    }
}

/// Tells nobody.
impl Told for () {}

impl Seat {
    /// The seat of this name, which nobody has won yet.
    #[must_use]
    pub fn new(name: Name, oracle: Box<dyn Oracle>, env: Env) -> Self {
        Self {
            name,
            oracle,
            env,
            tenure: latest::Sender::new(Tenure::Over),
            term: None,
            refresh: None,
            held: false,
        }
    }

    /// Waits until we lead.
    ///
    /// # Cancel safety
    /// Dropping the future may leave something granted: [`Seat::release`] gives it up.
    pub async fn win(&mut self, told: &mut impl Told) -> Terms {
        let mut pause = UNKNOWN_FIRST;
        loop {
            let asked = self.env.now();
            self.held = true;
            match self.oracle.claim().await {
                Answer::Granted(grant) => {
                    let (term, guard) = (grant.term, grant.guard.clone());
                    self.term = term;
                    // A new one each time: what was lost stays lost for whoever held it.
                    self.tenure = latest::Sender::new(Tenure::Over);
                    if self.extend(asked, &grant, told) {
                        let (name, env) = (self.name.clone(), self.env.clone());
                        return Terms { name, term, guard, env, tenure: self.tenure.subscribe() };
                    }
                    told.unknown("a grant was over before it was heard of".to_owned());
                    self.rest(Some(pause)).await;
                }
                Answer::Denied { retry_after, holder } => {
                    self.held = false;
                    pause = UNKNOWN_FIRST;
                    told.denied(holder);
                    // Not all at once, where several wait for one lease to end.
                    let retry = retry_after.map(|time| time + self.env.random_time(time / 10));
                    self.rest(retry).await;
                }
                Answer::Unknown { reason } => {
                    told.unknown(reason);
                    self.rest(Some(pause - self.env.random_time(pause / 2))).await;
                    pause = (pause * 2).min(UNKNOWN_MOST);
                }
            }
        }
    }

    /// A wait for an operator, who asks us to give up what was won.
    #[must_use]
    pub fn asked(&self) -> Asked {
        self.oracle.asked()
    }

    /// Waits for that long, or for a signal.
    async fn rest(&mut self, time: Option<Duration>) {
        tokio::select! {
            biased;
            () = self.oracle.signal() => {}
            () = sleep(&self.env, time) => {}
        }
    }

    /// Keeps what was won until it is lost.
    ///
    /// # Cancel safety
    /// Dropping the future stops the keeping; called again, it goes on.
    pub async fn keep(&mut self, told: &mut impl Told) {
        let mut pause = UNKNOWN_FIRST;
        loop {
            let now = self.env.now();
            let left = self.tenure.borrow().left(now);
            if left.is_zero() {
                break;
            }
            let next = self.refresh.map_or(Duration::MAX, |at| at - now);
            let wait = Some(next.min(left)).filter(|wait| *wait != Duration::MAX);
            self.rest(wait).await;
            let asked = self.env.now();
            let left = self.tenure.borrow().left(asked);
            if left.is_zero() {
                break;
            }
            // Unlimited time allows for an unlimited wait.
            let answer = if left == Duration::MAX {
                self.oracle.refresh().await
            } else {
                let answer = self.env.timeout(left, self.oracle.refresh()).await;
                answer.unwrap_or_else(|elapsed| Answer::unknown(format!("refresh: {elapsed}")))
            };
            match answer {
                // Another term is another's, or ours after another's: what was granted is over.
                Answer::Granted(grant) if grant.term != self.term => {
                    told.denied(None);
                    break;
                }
                Answer::Granted(grant) => {
                    pause = UNKNOWN_FIRST;
                    told.refreshed();
                    self.extend(asked, &grant, told);
                }
                Answer::Denied { holder, .. } => {
                    told.denied(holder);
                    break;
                }
                Answer::Unknown { reason } => {
                    told.unknown(reason);
                    self.refresh = Some(self.env.now().after(pause - self.env.random_time(pause / 2)));
                    pause = (pause * 2).min(UNKNOWN_MOST_LEADING);
                }
            }
        }
        self.tenure.send_replace(Tenure::Over);
    }

    /// Takes a grant that was asked for at that moment; returns whether it is still worth something.
    fn extend(&mut self, asked: Moment, grant: &Grant, told: &mut impl Told) -> bool {
        let now = self.env.now();
        let tenure = match grant.validity {
            Validity::For(time) => Tenure::Until(asked.after(time - time / 20)),
            Validity::Until(end) => Tenure::Until(end),
            Validity::Unlimited => Tenure::Unlimited,
        };
        let left = tenure.left(now);
        self.refresh = match grant.refresh_after {
            Some(time) => Some(now.after(time)),
            None if left == Duration::MAX => None,
            None => Some(now.after(left / 3)),
        };
        if self.tenure.send_if_modified(|present| std::mem::replace(present, tenure) != tenure) {
            told.extended(match tenure {
                Tenure::Until(end) => Some(end),
                Tenure::Unlimited | Tenure::Over => None,
            });
        }
        !left.is_zero()
    }

    /// Gives up whatever is held or may be held, in favour of `successor` where the oracle can do that. The work must have stopped. Returns whether there was
    /// something.
    ///
    /// # Errors
    /// Why it is uncertain; then it lasts until its time is over.
    pub async fn release(&mut self, successor: Option<&str>, patience: Duration) -> Result<bool, String> {
        self.tenure.send_replace(Tenure::Over);
        if !std::mem::take(&mut self.held) {
            return Ok(false);
        }
        match self.env.timeout(patience, self.oracle.abdicate(successor)).await {
            Ok(Answer::Unknown { reason }) => Err(reason),
            Ok(_) => Ok(true),
            Err(elapsed) => Err(elapsed.to_string()),
        }
    }
}

/// Waits for that long; for ever, if it is nothing.
pub(crate) async fn sleep(env: &Env, time: Option<Duration>) {
    let Some(time) = time else { return std::future::pending().await };
    let end = env.now().after(time);
    loop {
        let left = end - env.now();
        if left.is_zero() {
            return;
        }
        // In steps: the clock that the timer follows stands still while the machine is suspended, ours does not.
        env.sleep(left.min(STEP)).await;
    }
}

/// The longest sleep after which the clock is looked at again.
const STEP: Duration = Duration::from_secs(1);

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("name", &self.name).field("term", &self.term).finish_non_exhaustive()
    }
}
