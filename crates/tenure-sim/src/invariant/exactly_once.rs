//! [`ExactlyOnce`]: what was acknowledged happened once, what was refused never did.

use std::collections::BTreeMap;

use tenure_store::LaneError;

/// How a commit ended, as its maker was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Acknowledged,
    /// It did not happen, and never will.
    Refused,
    /// It may have happened, and may happen yet.
    Unknown,
}

impl<T> From<&Result<T, LaneError>> for Outcome {
    fn from(result: &Result<T, LaneError>) -> Self {
        match result {
            Ok(_) => Self::Acknowledged,
            Err(LaneError::OutcomeUnknown(_)) => Self::Unknown,
            Err(_) => Self::Refused,
        }
    }
}

/// Every commit has a name of its own, which it appends to a list. When all is calm, the list must agree with what was told.
#[derive(Debug, Default)]
pub struct ExactlyOnce {
    told: BTreeMap<String, Outcome>,
}

impl ExactlyOnce {
    /// Remembers what a maker was told of a commit.
    pub fn told(&mut self, name: String, outcome: Outcome) {
        let before = self.told.insert(name, outcome);
        assert_eq!(before, None, "a name is used once");
    }

    /// How often this was told.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.told.values().filter(|told| **told == outcome).count() as u64
    }

    /// Compares with the names that are there.
    ///
    /// # Errors
    /// The first thing that does not agree.
    pub fn check(&self, there: &[String]) -> Result<(), String> {
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for name in there {
            *times.entry(name).or_default() += 1;
        }
        for (name, outcome) in &self.told {
            let times = times.remove(name.as_str()).unwrap_or(0);
            let fits = match outcome {
                Outcome::Acknowledged => times == 1,
                Outcome::Refused => times == 0,
                Outcome::Unknown => times <= 1,
            };
            if !fits {
                return Err(format!("{name} was told as {outcome:?} and is there {times} times"));
            }
        }
        match times.keys().next() {
            Some(name) => Err(format!("{name} is there and was never told of")),
            None => Ok(()),
        }
    }
}
