//! [`Oracle`]: whoever decides who leads.
//!
//! # What an oracle promises
//! - Of all who ask for one name, at most one holds an answer that is granted and still valid.
//! - A grant says for how long it is valid, from an instant *before* the question was sent, or says that only a signal ends it.
//! - What is not known is [`Answer::Unknown`]: neither a yes nor a no.
//! - A claim by the present holder is granted again. So a claim whose answer was lost is simply made again.
//! - [`abdicate`](Oracle::abdicate) gives up what this oracle itself holds, and never what somebody else has won since.
//!
//! # What it is asked, and when
//! | phase | asked | on granted | on denied | on unknown |
//! | --- | --- | --- | --- | --- |
//! | following | [`claim`](Oracle::claim), at once, after `retry_after`, and at each signal | leading | following | asked again, with growing pauses |
//! | leading | [`refresh`](Oracle::refresh), after `refresh_after`, and at each signal | leading, for longer | lost at once | asked again, soon, until the deadline; then lost |
//! | leading | [`asked`](Oracle::asked), once | - | - | - |
//! | leaving | [`abdicate`](Oracle::abdicate), once the work has stopped | - | - | - |
//!
//! ```
//! use std::time::Duration;
//! use tenure_singleton::{Answer, Grant, Oracle};
//!
//! /// Leads on the machine that an operator has marked by a file.
//! struct Marked(std::path::PathBuf);
//!
//! #[async_trait::async_trait]
//! impl Oracle for Marked {
//!     async fn claim(&mut self) -> Answer {
//!         match self.0.try_exists() {
//!             Ok(true) => Answer::Granted(Grant::lasting(Duration::from_secs(10))),
//!             Ok(false) => Answer::denied(Duration::from_secs(1)),
//!             Err(error) => Answer::unknown(error),
//!         }
//!     }
//!     async fn refresh(&mut self) -> Answer {
//!         self.claim().await
//!     }
//!     async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
//!         // The mark is the operator's.
//!         Answer::Denied { retry_after: None, holder: None }
//!     }
//! }
//! ```

mod election;
mod signals;
#[cfg(feature = "testkit")]
pub mod testkit;

use std::{fmt, future::Future, pin::Pin, time::Duration};

use async_trait::async_trait;
use tenure_store::{Check, Moment, Name};

pub use election::ElectionOracle;
pub use signals::{Signaller, SignalsOracle};

/// Whoever decides who leads: see the [module](self).
#[async_trait]
pub trait Oracle: Send + 'static {
    /// Asks to lead. It may wait until there is a chance; it is dropped when nobody wants the answer any more, and then
    /// [`abdicate`](Oracle::abdicate) follows.
    async fn claim(&mut self) -> Answer;

    /// Asks whether the leadership that was granted last goes on.
    async fn refresh(&mut self) -> Answer;

    /// Gives up whatever this oracle holds, in favour of `successor` where that can be done. The work has stopped by then. Denied is the usual
    /// answer: nothing is held any more. Unknown means that it may be held until its time is over.
    async fn abdicate(&mut self, successor: Option<&str>) -> Answer;

    /// Returns when something has happened that is worth another question; never, for an oracle that is only asked at intervals.
    ///
    /// # Cancel safety
    /// It must be cancel safe: it is dropped and called again at any time.
    async fn signal(&mut self) {
        std::future::pending::<()>().await;
    }

    /// A wait for an operator, who asks whoever leads to give up what is held now: never over, for an oracle through which nobody can ask. The work is
    /// stopped first, then [`abdicate`](Oracle::abdicate) follows, with the successor that was named.
    fn asked(&self) -> Asked {
        Box::pin(std::future::pending())
    }
}

/// Returns when a leader is asked to give up; with who is to lead after it, if somebody was named.
pub type Asked = Pin<Box<dyn Future<Output = Option<Name>> + Send>>;

/// What an oracle says.
#[derive(Clone, Debug)]
pub enum Answer {
    /// We lead.
    Granted(Grant),
    /// We don't.
    Denied {
        /// When to ask again, if not at a signal alone.
        retry_after: Option<Duration>,
        /// Who leads, if that is known.
        holder: Option<String>,
    },
    /// It could not be found out.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Answer {
    /// Denied, to be asked again after this.
    #[must_use]
    pub fn denied(retry_after: Duration) -> Self {
        Self::Denied { retry_after: Some(retry_after), holder: None }
    }

    /// Unknown, for this reason.
    #[must_use]
    pub fn unknown(reason: impl fmt::Display) -> Self {
        Self::Unknown { reason: reason.to_string() }
    }
}

/// A yes.
#[derive(Clone, Debug)]
pub struct Grant {
    /// For how long.
    pub validity: Validity,
    /// When to ask again; a third of the validity, if nothing is said.
    pub refresh_after: Option<Duration>,
    /// The fencing token, where there is one: greater than that of every grant to somebody else before.
    pub term: Option<u64>,
    /// What must hold for a commit to the cluster's store in the name of this grant, where the oracle is kept in it.
    pub guard: Option<Vec<Check>>,
}

/// How long a grant is worth something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// This long, from the instant in which the question was asked, by the clock of whoever keeps it. A twentieth of it is left as a margin for
    /// clocks of different speed.
    For(Duration),
    /// Until this moment of our own clock, with every margin taken off. For claims that wait.
    Until(Moment),
    /// Until a signal and an answer say otherwise.
    Unlimited,
}

impl Grant {
    /// Valid for this long from the instant of the question, without a fencing token.
    #[must_use]
    pub fn lasting(time: Duration) -> Self {
        Self { validity: Validity::For(time), refresh_after: None, term: None, guard: None }
    }

    /// With a fencing token.
    #[must_use]
    pub fn with_term(mut self, term: u64) -> Self {
        self.term = Some(term);
        self
    }
}
