//! [`Settled`]: when all is calm, every member has the names that are held, and no others, and all follow one leader.

use std::collections::BTreeMap;

use tenure_cluster::SessionId;
use tenure_registry::{Led, Page, Status};

/// What there is at rest.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    held: BTreeMap<String, (SessionId, u64)>,
}

impl Settled {
    /// This name is held so: it was acknowledged, is not given up, and its owner's session lives.
    ///
    /// # Errors
    /// When it is held otherwise, too.
    pub fn holds(&mut self, name: &str, session: SessionId, number: u64) -> Result<(), String> {
        match self.held.insert(name.to_owned(), (session, number)) {
            Some(other) => Err(format!("{name} is held by {other:?} and by {:?}", (session, number))),
            None => Ok(()),
        }
    }

    /// Compares with what a member has.
    ///
    /// # Errors
    /// What is different.
    pub fn check(&self, member: &str, page: &Page, status: &Status, led: &Led) -> Result<(), String> {
        let leader = status.leader.as_ref().map(|leader| leader.session);
        let named = led.leader.as_ref().map(|leader| leader.token.into());
        if status.epoch != led.epoch || leader != named || leader.is_none() {
            return Err(format!("{member} follows {leader:?} in epoch {}, and {led:?} leads", status.epoch));
        }
        for (name, held) in &self.held {
            let found = page.entries.iter().find(|entry| entry.name() == name);
            if found.map(|entry| (entry.owner().session, entry.number())) != Some(*held) {
                return Err(format!("{name} is held by {held:?}, and for {member} it is {found:?}"));
            }
        }
        match page.entries.iter().find(|entry| !self.held.contains_key(entry.name())) {
            Some(left) => Err(format!("nobody holds {left:?}, which {member} has")),
            None => Ok(()),
        }
    }
}
