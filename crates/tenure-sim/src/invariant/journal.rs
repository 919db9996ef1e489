//! [`Journal`]: what was sent to a server, as its senders were told, against the state that came of it.

use std::{collections::BTreeMap, time::Duration};

use super::Outcome;

/// How a message may be ordered with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It comes behind all that was acknowledged before it was sent.
    Kept,
    /// It may come at any time.
    Free,
}

/// One message, as its sender knows it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Used once, but for a call that is repeated under its idempotency key.
    pub(super) name: String,
    pub(super) order: Order,
    pub(super) begun: Duration,
    pub(super) told: Duration,
    /// What its sender was told.
    outcome: Outcome,
    /// How many others may have cancelled it, or thrown it away; and whether one has.
    doubts: u64,
    is_gone: bool,
    /// The place that its answer gave, if it was a call that was answered.
    pub(super) place: Option<usize>,
}

impl Sent {
    /// What is known of it.
    pub(super) fn outcome(&self) -> Outcome {
        match self.outcome {
            _ if self.is_gone => Outcome::Refused,
            Outcome::Acknowledged if self.doubts > 0 => Outcome::Unknown,
            told => told,
        }
    }
}

/// Everything that was sent to one server.
#[derive(Debug, Default)]
pub struct Journal {
    pub(super) sent: Vec<Sent>,
}

impl Journal {
    /// Remembers a message that is about to be sent, and returns the number of that. Its sender may never be told of it.
    pub fn begin(&mut self, name: &str, order: Order, begun: Duration) -> usize {
        let (told, outcome) = (Duration::MAX, Outcome::Unknown);
        let (name, place, doubts, is_gone) = (name.to_owned(), None, 0, false);
        self.sent.push(Sent { name, order, begun, told, outcome, doubts, is_gone, place });
        self.sent.len() - 1
    }

    /// Remembers what the sender of a message was told.
    ///
    /// # Panics
    /// If it was never begun.
    pub fn told(&mut self, number: usize, told: Duration, outcome: Outcome, place: Option<usize>) {
        let sent = &mut self.sent[number];
        (sent.told, sent.outcome, sent.place) = (told, outcome, place);
    }

    /// Somebody begins to take a message back. It may never be told what came of it.
    pub fn doubt(&mut self, name: &str) {
        self.sent.iter_mut().filter(|sent| sent.name == name).for_each(|sent| sent.doubts += 1);
    }

    /// It was told whether the message is gone.
    pub fn resolve(&mut self, name: &str, is_gone: bool) {
        for sent in self.sent.iter_mut().filter(|sent| sent.name == name) {
            (sent.doubts, sent.is_gone) = (sent.doubts - 1, sent.is_gone || is_gone);
        }
    }

    /// The names of all that was sent.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sent.iter().map(|sent| sent.name.as_str())
    }

    /// How often this was told.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.sent.iter().filter(|sent| sent.outcome() == outcome).count() as u64
    }

    /// Compares with the names that the state has, in its order.
    ///
    /// # Errors
    /// The first thing that does not agree.
    pub fn check(&self, there: &[String]) -> Result<(), String> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, name) in there.iter().enumerate() {
            if places.insert(name, place).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        for sent in &self.sent {
            let place = places.get(sent.name.as_str());
            match sent.outcome() {
                Outcome::Acknowledged if place.is_none() => {
                    return Err(format!("{} was acknowledged and is not there", sent.name));
                }
                Outcome::Refused if place.is_some() && self.all_refused(&sent.name) => {
                    return Err(format!("{} was refused and is there", sent.name));
                }
                _ => {}
            }
            if let (Some(told), Some(place)) = (sent.place, place)
                && told != *place
            {
                return Err(format!("{} is at {place}, and its sender was told {told}", sent.name));
            }
        }
        if let Some(name) = there.iter().find(|name| !self.sent.iter().any(|sent| sent.name == **name)) {
            return Err(format!("{name} is there and was never sent"));
        }
        self.check_order(&places)
    }

    /// Whether every time that this was sent, it was refused.
    pub(super) fn all_refused(&self, name: &str) -> bool {
        let mut same = self.sent.iter().filter(|sent| sent.name == name);
        same.all(|sent| sent.outcome() == Outcome::Refused)
    }

    /// What was acknowledged before another was sent is before it.
    pub(super) fn check_order(&self, places: &BTreeMap<&str, usize>) -> Result<(), String> {
        let kept: Vec<(&Sent, usize)> = self
            .sent
            .iter()
            .filter(|sent| sent.order == Order::Kept)
            .filter_map(|sent| places.get(sent.name.as_str()).map(|place| (sent, *place)))
            .collect();
        for (earlier, first) in kept.iter().filter(|(sent, _)| sent.outcome() == Outcome::Acknowledged) {
            let later = kept.iter().find(|(later, second)| earlier.told < later.begun && second < first);
            if let Some((later, second)) = later {
                return Err(format!(
                    "{} was acknowledged at {:?} and is at {first}; {}, sent at {:?}, is before it, at {second}",
                    earlier.name, earlier.told, later.name, later.begun
                ));
            }
        }
        Ok(())
    }
}
