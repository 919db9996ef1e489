//! [`Done`]: what was recorded with a commit is done to the world; what was not is not.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_server::EffectId;

use super::{Deed, History};

/// A run of a callback: the message, and a number that the run has drawn.
type Ran = (String, u64);

/// What was done to the world. Everything is named by its message and the run of the callback that wanted it.
///
/// - An effect is done at least once if its run counts, and never tried if it does not. All tries have one id, which no other effect has.
/// - What is to be done after a commit is done at most once, and never if its run does not count.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// The ids under which each was tried, and when first.
    tried: BTreeMap<Ran, (BTreeSet<EffectId>, Duration)>,
    done: BTreeMap<Ran, u64>,
    after: BTreeMap<Ran, (u64, Duration)>,
}

impl Done {
    /// An effect is begun.
    pub fn tries(&mut self, name: &str, run: u64, id: EffectId, now: Duration) {
        self.tried.entry((name.to_owned(), run)).or_insert_with(|| (BTreeSet::new(), now)).0.insert(id);
    }

    /// It has succeeded.
    pub fn does(&mut self, name: &str, run: u64) {
        *self.done.entry((name.to_owned(), run)).or_default() += 1;
    }

    /// What was to be done after a commit is done.
    pub fn follows(&mut self, name: &str, run: u64, now: Duration) {
        self.after.entry((name.to_owned(), run)).or_insert((0, now)).0 += 1;
    }

    /// How many effects were done, how many of them again, and how much was done after commits.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        let again = self.done.values().filter(|times| **times > 1).count();
        [self.done.len() as u64, again as u64, self.after.len() as u64]
    }

    /// Compares with what servers have written.
    ///
    /// # Errors
    /// The first thing that does not agree.
    pub fn check(&self, servers: &[History]) -> Result<(), String> {
        let caused = servers.iter().flat_map(History::lines).filter(|line| line.deed == Deed::Caused);
        let counts: BTreeSet<Ran> = caused.map(|line| (line.name.clone(), line.run)).collect();
        // What a deletion has written besides can't be seen.
        let is_hidden = |now: Duration| servers.iter().any(|server| server.was_deleted(Duration::ZERO, now));
        let mut ids = BTreeSet::new();
        for (ran, (its, now)) in &self.tried {
            if its.len() != 1 || !its.iter().all(|id| ids.insert(*id)) {
                return Err(format!("the effect of {ran:?} has the ids {its:?}, not one of its own"));
            }
            if !counts.contains(ran) && !is_hidden(*now) {
                return Err(format!("the effect of {ran:?} was tried, and that run does not count"));
            }
        }
        if let Some(ran) = counts.iter().find(|ran| !self.done.contains_key(*ran)) {
            return Err(format!("the effect of {ran:?} was recorded and never done"));
        }
        for (ran, (times, now)) in &self.after {
            if *times > 1 {
                return Err(format!("what follows {ran:?} was done {times} times"));
            }
            if !counts.contains(ran) && !is_hidden(*now) {
                return Err(format!("what follows {ran:?} was done, and that run does not count"));
            }
        }
        Ok(())
    }
}
