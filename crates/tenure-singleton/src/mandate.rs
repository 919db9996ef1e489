//! [`Mandate`]: what the work of a leader holds.

use std::{sync::Arc, time::Duration};

use tenure_store::{Check, Commit, Env, Moment, Name, latest};

/// The right to do a singleton's work, for as long as it lasts. Clones are the same.
///
/// # What it promises
/// While [`remaining`](Mandate::remaining) is above zero, nobody else has it, if the oracle keeps its word.
///
/// # What the work must do
/// End when it is [`cancelled`](Mandate::cancelled): there is as much time left as the singleton's grace says, and then the work is aborted at its next
/// `.await`. Work that blocks a thread can't be aborted: it must look at `remaining` itself.
#[derive(Clone, Debug)]
pub struct Mandate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Name,
    term: Option<u64>,
    guard: Option<Vec<Check>>,
    env: Env,
    tenure: latest::Receiver<Tenure>,
    cancelled: latest::Receiver<bool>,
}

/// How long a mandate lasts, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenure {
    Until(Moment),
    Unlimited,
    Over,
}

impl Tenure {
    /// How much is left of it at that moment. A time without end is told as the longest there is.
    pub(crate) fn left(self, now: Moment) -> Duration {
        match self {
            Tenure::Until(end) => end - now,
            Tenure::Unlimited => Duration::MAX,
            Tenure::Over => Duration::ZERO,
        }
    }
}

/// What was won, and on which terms: what a [`Mandate`] is made of.
#[derive(Clone, Debug)]
pub struct Terms {
    pub(crate) name: Name,
    pub(crate) term: Option<u64>,
    pub(crate) guard: Option<Vec<Check>>,
    pub(crate) env: Env,
    pub(crate) tenure: latest::Receiver<Tenure>,
}

impl Terms {
    /// The fencing token, if the oracle has one.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        self.term
    }

    /// For how long it holds for certain; zero once it is lost, and [`Duration::MAX`] where only a signal ends it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.tenure.borrow().left(self.env.now())
    }
}

impl Mandate {
    pub(crate) fn new(terms: Terms, cancelled: latest::Receiver<bool>) -> Self {
        let Terms { name, term, guard, env, tenure } = terms;
        Self(Arc::new(Inner { name, term, guard, env, tenure, cancelled }))
    }

    /// The singleton.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// The fencing token, if the oracle has one: greater than that of every leader before.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        self.0.term
    }

    /// For how long it holds for certain; zero once it is lost, and [`Duration::MAX`] where only a signal ends it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.tenure.borrow().left(self.0.env.now())
    }

    /// What must hold for a commit in its name, if the oracle is kept in the cluster's store: add it to any commit there.
    #[must_use]
    pub fn guard(&self) -> Option<&[Check]> {
        self.0.guard.as_deref()
    }

    /// This commit, applied only if the mandate is current when it is; `None` if the oracle can't guard anything.
    #[must_use]
    pub fn guarded(&self, commit: Commit) -> Option<Commit> {
        let checks = self.0.guard.clone()?;
        Some(Commit { checks, writes: Vec::new() }.and(commit))
    }

    /// Returns when the work is to end: the mandate is about to be lost, or is to be given up.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn cancelled(&self) {
        let mut cancelled = self.0.cancelled.clone();
        // Whoever could cancel it is gone: then nobody supervises this work any more, and it must end as well.
        let _ = cancelled.wait_for(|cancelled| *cancelled).await;
    }

    /// Whether the work is to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.cancelled.borrow()
    }
}
