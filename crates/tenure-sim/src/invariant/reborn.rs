//! [`Reborn`]: a server that is deleted and made again has nothing of the one before, and loses nothing that was sent to it since.

use std::{collections::BTreeMap, time::Duration};

use super::{History, Journal, Outcome, journal::Sent, lives::Life};

/// What was sent to a server, against all of its lives.
///
/// - **Once**: a message is in one life, one time. A call that was repeated under its idempotency key may be in several lives, since the answer goes with the server.
/// - **Nothing is lost**: what was acknowledged is there, unless a deletion took effect since it was sent; a call that was answered, unless that was before its answer came.
/// - **Nothing survives**: what was acknowledged before a deletion took effect is in no later life, and no answer is of a life that was over when it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Reborn<'a> {
    journal: &'a Journal,
    history: &'a History,
}

impl<'a> Reborn<'a> {
    /// What was sent to the server that has this history.
    #[must_use]
    pub fn new(journal: &'a Journal, history: &'a History) -> Self {
        Self { journal, history }
    }

    /// Compares them.
    ///
    /// # Errors
    /// The first thing that does not agree.
    pub fn check(&self) -> Result<(), String> {
        let mut places: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
        for (at, life) in self.history.lives.iter().enumerate() {
            for (place, line) in life.sent().enumerate() {
                places.entry(&line.name).or_default().push((at, place));
            }
        }
        let mut sent: BTreeMap<&str, Vec<&Sent>> = BTreeMap::new();
        for message in &self.journal.sent {
            sent.entry(&message.name).or_default().push(message);
        }
        for (name, all) in &sent {
            let found = places.get(name).map_or(&[][..], Vec::as_slice);
            self.check_once(name, all, found)?;
            for message in all {
                self.check_kept(message, found)?;
            }
            for (at, _) in found {
                self.check_gone(name, all, &self.history.lives[*at])?;
            }
        }
        if let Some(name) = places.keys().find(|name| !sent.contains_key(*name)) {
            return Err(format!("{name} is there and was never sent"));
        }
        self.check_order()
    }

    fn check_once(&self, name: &str, all: &[&Sent], found: &[(usize, usize)]) -> Result<(), String> {
        if self.journal.all_refused(name) && !found.is_empty() {
            return Err(format!("{name} was refused and is there"));
        }
        for two in found.windows(2) {
            let same_life = two[0].0 == two[1].0;
            if same_life || all.len() < 2 {
                return Err(format!("{name} is there twice: {found:?}"));
            }
        }
        Ok(())
    }

    fn check_kept(&self, message: &Sent, found: &[(usize, usize)]) -> Result<(), String> {
        let Sent { name, begun, told, place, .. } = message;
        if message.outcome() != Outcome::Acknowledged {
            return Ok(());
        }
        let until = if place.is_some() { *told } else { Duration::MAX };
        let is_over = |at: usize| self.history.lives[at].ended.is_some_and(|ended| ended < *begun);
        let fits = found.iter().any(|(at, its)| place.is_none_or(|place| place == *its && !is_over(*at)));
        if fits || self.history.was_deleted(*begun, until) {
            return Ok(());
        }
        Err(match (found, place) {
            ([], _) => format!("{name} was acknowledged and is not there, though nothing was deleted since"),
            (_, place) => format!("{name} was answered with {place:?} and is at {found:?}, which was over"),
        })
    }

    /// Whether a life may have this message: it was not acknowledged before a deletion that was before this life.
    fn check_gone(&self, name: &str, all: &[&Sent], life: &Life) -> Result<(), String> {
        let before = |message: &&Sent| {
            message.outcome() == Outcome::Acknowledged && self.history.was_deleted(message.told, life.began)
        };
        // In the instant in which it was acknowledged, a deletion may be before or after it.
        let strictly = |message: &&Sent| !self.history.deletions.contains(&message.told);
        if all.iter().all(|message| before(message) && strictly(message)) {
            return Err(format!("{name} was acknowledged before a deletion and is in a later life"));
        }
        Ok(())
    }

    /// One life after another, the order is one that senders could have seen.
    fn check_order(&self) -> Result<(), String> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let all = self.history.lives.iter().flat_map(Life::sent).enumerate();
        for (place, line) in all {
            places.insert(&line.name, place);
        }
        for (at, message) in self.journal.sent.iter().enumerate() {
            let is_repeated = |(other, sent): (usize, &Sent)| other != at && sent.name == message.name;
            if self.journal.sent.iter().enumerate().any(is_repeated) {
                places.remove(message.name.as_str());
            }
        }
        self.journal.check_order(&places)
    }
}
