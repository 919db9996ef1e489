//! [`Timely`]: a delayed message comes once, not before its time, and not if it was taken back in time.

use std::{collections::BTreeMap, time::Duration};

use super::{Deed, History, Life};

/// Delayed messages of senders, as they know them, and timers of servers. That a sender's comes once is the journal's to tell.
#[derive(Clone, Debug, Default)]
pub struct Timely {
    due: BTreeMap<String, Duration>,
}

impl Timely {
    /// A message is due then, by a clock that all have.
    pub fn is_due(&mut self, name: &str, at: Duration) {
        self.due.insert(name.to_owned(), at);
    }

    /// Looks through the lives of a server.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, history: &History) -> Result<(), String> {
        for line in history.lines() {
            let at = Duration::from_millis(line.at_ms);
            if let Some(due) = self.due.get(&line.name).filter(|due| at < **due) {
                return Err(format!("{} is due at {due:?} and came at {at:?}", line.name));
            }
        }
        history.lives.iter().try_for_each(check_timers)
    }
}

/// The timers that a server has set for itself. They end with its life.
fn check_timers(life: &Life) -> Result<(), String> {
    let mut fired: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut disarmed: Vec<&str> = Vec::new();
    for line in &life.lines {
        match &line.deed {
            Deed::Fired => fired.entry(&line.name).or_default().push(line.at_ms),
            Deed::Disarmed(name) => disarmed.push(name),
            _ => {}
        }
    }
    for line in &life.lines {
        let Deed::Armed(due) = line.deed else { continue };
        let name = line.name.as_str();
        match fired.remove(name).unwrap_or_default()[..] {
            [] if life.ended.is_some() || disarmed.contains(&name) => {}
            [] => return Err(format!("{name} was armed and never came")),
            [at] if at < due => return Err(format!("{name} was due at {due} and came at {at}")),
            [_] => {}
            ref all => return Err(format!("{name} came {} times", all.len())),
        }
    }
    match fired.keys().next() {
        Some(name) => Err(format!("{name} came, and was not armed in this life")),
        None => Ok(()),
    }
}
