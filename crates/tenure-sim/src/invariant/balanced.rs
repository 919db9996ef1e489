//! [`Balanced`]: what one server gives, another takes, in the commit that says so: the total is exact.

use std::{collections::BTreeMap, time::Duration};

use super::{Deed, History, Line};

/// What servers have given each other.
///
/// - Between servers that stay, each one takes exactly what the other has given, in the same order; what was given later comes in any.
/// - A server that is deleted may miss what was given to it before that, and takes nothing twice, nor anything that nobody gave.
/// - What they have is what they took less what they gave, and together nothing.
#[derive(Clone, Debug, Default)]
pub struct Balanced {
    servers: BTreeMap<String, (History, Option<i64>)>,
}

impl Balanced {
    /// A server, with what it has in the end, if it was never deleted.
    pub fn add(&mut self, id: &str, history: History, has: Option<i64>) {
        self.servers.insert(id.to_owned(), (history, has));
    }

    /// Compares all with each other.
    ///
    /// # Errors
    /// The first thing that does not agree.
    pub fn check(&self) -> Result<(), String> {
        for (id, (history, has)) in &self.servers {
            let own: i64 = history.lines().map(change).sum();
            if let Some(has) = has.filter(|has| *has != own) {
                return Err(format!("{id} has {has}, and by its lines {own}"));
            }
            for other in self.servers.keys() {
                for later in [false, true] {
                    self.check_way(id, other, later)?;
                }
            }
        }
        match self.servers.values().filter_map(|(_, has)| *has).sum::<i64>() {
            0 => Ok(()),
            sum => Err(format!("together they have {sum}, and began with nothing")),
        }
    }

    /// What went from one to another.
    fn check_way(&self, from: &str, to: &str, later: bool) -> Result<(), String> {
        let ((giver, _), (taker, stays)) = (&self.servers[from], &self.servers[to]);
        let is_given = |line: &&Line| matches!(&line.deed, Deed::Gave { to: its, later: when, .. } if its == to && *when == later);
        let is_taken = |line: &&Line| matches!(&line.deed, Deed::Took { from: its, later: when, .. } if its == from && *when == later);
        let mut given: Vec<&Line> = giver.lines().filter(is_given).collect();
        let mut taken: Vec<&Line> = taker.lines().filter(is_taken).collect();
        if stays.is_none() {
            let is_there = |line: &&Line| taken.iter().any(|taken| taken.name == line.name);
            let lost = given.iter().find(|line| {
                let sent = Duration::from_millis(line.at_ms);
                !is_there(line) && !taker.was_deleted(sent, Duration::MAX)
            });
            if let Some(lost) = lost {
                return Err(format!("{} was given by {from} and not taken by {to}", lost.name));
            }
            given.retain(is_there);
        }
        if later {
            given.sort_by(|one, other| one.name.cmp(&other.name));
            taken.sort_by(|one, other| one.name.cmp(&other.name));
        }
        let same = given.len() == taken.len()
            && given
                .iter()
                .zip(&taken)
                .all(|(gave, took)| gave.name == took.name && change(gave) == -change(took));
        if same {
            return Ok(());
        }
        let names = |lines: &[&Line]| lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>();
        Err(format!("{from} gave {:?} to {to}, which took {:?}", names(&given), names(&taken)))
    }
}

fn change(line: &Line) -> i64 {
    match &line.deed {
        Deed::Gave { amount, .. } => -amount,
        Deed::Took { amount, .. } => *amount,
        _ => 0,
    }
}
