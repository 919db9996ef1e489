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
struct Sent {
    /// Used once.
    name: String,
    order: Order,
    begun: Duration,
    told: Duration,
    outcome: Outcome,
    /// The place that its answer gave, if it was a call that was answered.
    place: Option<usize>,
}

/// Everything that was sent to one server.
#[derive(Debug, Default)]
pub struct Journal {
    sent: Vec<Sent>,
}

impl Journal {
    /// Remembers a message that is about to be sent. Its sender may never be told of it.
    pub fn begin(&mut self, name: String, order: Order, begun: Duration) {
        let (told, outcome) = (Duration::MAX, Outcome::Unknown);
        self.sent.push(Sent { name, order, begun, told, outcome, place: None });
    }

    /// Remembers what the sender of a message was told.
    ///
    /// # Panics
    /// If it was never begun.
    pub fn told(&mut self, name: &str, told: Duration, outcome: Outcome, place: Option<usize>) {
        let sent = self.sent.iter_mut().rev().find(|sent| sent.name == name).expect("it was begun");
        (sent.told, sent.outcome, sent.place) = (told, outcome, place);
    }

    /// How often this was told.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.sent.iter().filter(|sent| sent.outcome == outcome).count() as u64
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
            match sent.outcome {
                Outcome::Acknowledged if place.is_none() => {
                    return Err(format!("{} was acknowledged and is not there", sent.name));
                }
                Outcome::Refused if place.is_some() => {
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

    /// What was acknowledged before another was sent is before it.
    fn check_order(&self, places: &BTreeMap<&str, usize>) -> Result<(), String> {
        let kept: Vec<(&Sent, usize)> = self
            .sent
            .iter()
            .filter(|sent| sent.order == Order::Kept)
            .filter_map(|sent| places.get(sent.name.as_str()).map(|place| (sent, *place)))
            .collect();
        for (earlier, first) in kept.iter().filter(|(sent, _)| sent.outcome == Outcome::Acknowledged) {
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
