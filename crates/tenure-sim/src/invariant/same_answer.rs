//! [`SameAnswer`]: under one idempotency key there is one answer, and of several that are given later, the first one counts.

use std::{collections::BTreeMap, time::Duration};

use super::History;

/// An answer that a caller has heard.
#[derive(Clone, Debug)]
struct Heard {
    answer: String,
    begun: Duration,
    told: Duration,
}

/// An answer that was given later, by whoever has the caller's address.
#[derive(Clone, Debug)]
struct Given {
    answer: String,
    begun: Duration,
    /// When its giver was told that it is given.
    told: Duration,
}

/// Answers to calls, by the names of these.
///
/// - All that was heard under one idempotency key is the same, unless the server was deleted in between.
/// - What was heard of an answer that came later was given by somebody, and not after another was given.
#[derive(Clone, Debug, Default)]
pub struct SameAnswer {
    heard: BTreeMap<String, Vec<Heard>>,
    given: BTreeMap<String, Vec<Given>>,
}

impl SameAnswer {
    /// A caller has heard this.
    pub fn hears(&mut self, name: &str, answer: &str, begun: Duration, told: Duration) {
        let heard = Heard { answer: answer.to_owned(), begun, told };
        self.heard.entry(name.to_owned()).or_default().push(heard);
    }

    /// Somebody begins to give this answer. Returns the number of that.
    pub fn gives(&mut self, name: &str, answer: &str, begun: Duration) -> usize {
        let all = self.given.entry(name.to_owned()).or_default();
        all.push(Given { answer: answer.to_owned(), begun, told: Duration::MAX });
        all.len() - 1
    }

    /// It was told that it is given.
    pub fn gave(&mut self, name: &str, number: usize, told: Duration) {
        if let Some(given) = self.given.get_mut(name).and_then(|all| all.get_mut(number)) {
            given.told = told;
        }
    }

    /// Whether somebody has begun to answer this call.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// How many calls have heard an answer more than once, and how many one that was given later.
    #[must_use]
    pub fn counts(&self) -> [u64; 2] {
        let again = self.heard.values().filter(|all| all.len() > 1).count();
        let later = self.heard.keys().filter(|name| self.given.contains_key(*name)).count();
        [again as u64, later as u64]
    }

    /// Compares all that was heard from a server with this history.
    ///
    /// # Errors
    /// The first thing that does not agree.
    pub fn check(&self, is_own: impl Fn(&str) -> bool, history: &History) -> Result<(), String> {
        for (name, all) in self.heard.iter().filter(|(name, _)| is_own(name)) {
            for (at, one) in all.iter().enumerate() {
                let differs = |other: &&Heard| {
                    let (from, to) = (one.begun.min(other.begun), one.told.max(other.told));
                    other.answer != one.answer && !history.was_deleted(from, to)
                };
                if let Some(other) = all[at..].iter().find(differs) {
                    return Err(format!("{name} was answered with {one:?}, and with {other:?}"));
                }
                self.check_first(name, one, history)?;
            }
        }
        Ok(())
    }

    /// Whether an answer that was given later could be the first.
    fn check_first(&self, name: &str, heard: &Heard, history: &History) -> Result<(), String> {
        let Some(given) = self.given.get(name) else { return Ok(()) };
        let Some(own) = given.iter().find(|given| given.answer == heard.answer) else {
            return Err(format!("{name} heard {heard:?}, which nobody gave"));
        };
        let is_before =
            |first: &&Given| first.told < own.begun && !history.was_deleted(first.begun, heard.told);
        match given.iter().find(is_before) {
            Some(first) => Err(format!("{name} heard {heard:?}, and {first:?} was given before")),
            None => Ok(()),
        }
    }
}
