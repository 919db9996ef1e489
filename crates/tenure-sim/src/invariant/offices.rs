//! [`Offices`]: terms count up by one, each has one holder, and what is done in a term's name is done in that term.

use std::collections::{BTreeMap, BTreeSet};

use tenure_cluster::{Keys, SessionId};
use tenure_store::{Commit, Key, Name, Write};

use crate::ledger::Auditor;

/// What a leader writes in its term's name: the term and the session, under a key with this prefix.
pub const WORK: &str = "work/";

/// Follows one election through all commits.
#[derive(Debug)]
pub struct Offices {
    office: Key,
    session_prefix: Vec<u8>,
    sessions: BTreeSet<Vec<u8>>,
    term: u64,
    holder: [u8; 16],
    holders: BTreeMap<u64, [u8; 16]>,
}

/// What a leader writes.
#[must_use]
pub fn work(term: u64, session: SessionId) -> Vec<u8> {
    [&term.to_be_bytes()[..], &session.to_bytes()].concat()
}

impl Offices {
    /// Follows this election of this cluster.
    #[must_use]
    pub fn new(cluster: &Name, election: &Name) -> Self {
        let sessions = tenure_store::Tuple::new().text("tenure").name(cluster).text("session").key();
        Self {
            office: Keys::new(cluster).election(election),
            session_prefix: sessions.as_bytes().to_vec(),
            sessions: BTreeSet::new(),
            term: 0,
            holder: [0; 16],
            holders: BTreeMap::new(),
        }
    }

    fn office_changes(&mut self, value: &[u8]) -> Result<(), String> {
        let (term, holder) = (&value[1..9], &value[9..25]);
        let term = u64::from_be_bytes(term.try_into().expect("eight bytes"));
        let holder: [u8; 16] = holder.try_into().expect("sixteen bytes");
        let vacated = term == self.term && holder == [0; 16];
        let passed_on = term == self.term + 1 && holder != [0; 16];
        if !vacated && !passed_on {
            return Err(format!(
                "term {term} of {holder:x?} follows term {} of {:x?}",
                self.term, self.holder
            ));
        }
        if holder != [0; 16] && self.holders.insert(term, holder).is_some() {
            return Err(format!("term {term} has two holders"));
        }
        (self.term, self.holder) = (term, holder);
        Ok(())
    }

    fn work_is_done(&self, value: &[u8]) -> Result<(), String> {
        let current = work(self.term, SessionId::from_bytes(self.holder));
        if value != current {
            return Err(format!("work of {value:x?} in term {} of {:x?}", self.term, self.holder));
        }
        let key = tenure_store::Tuple::new().bytes(self.holder.to_vec()).key();
        let session = [&self.session_prefix[..], key.as_bytes()].concat();
        if !self.sessions.contains(&session) {
            return Err(format!(
                "work in term {} though the session of {:x?} has ended",
                self.term, self.holder
            ));
        }
        Ok(())
    }
}

impl Auditor for Offices {
    fn took_effect(&mut self, commit: &Commit) -> Result<(), String> {
        // Work first: its checks spoke of the state before this commit.
        for write in &commit.writes {
            if let Write::Set(key, value) = write
                && key.as_bytes().starts_with(WORK.as_bytes())
            {
                self.work_is_done(value)?;
            }
        }
        for write in &commit.writes {
            match write {
                Write::Set(key, value) if *key == self.office => self.office_changes(value)?,
                Write::Set(key, _)
                    if key.as_bytes().starts_with(&self.session_prefix)
                        && !self.sessions.insert(key.as_bytes().to_vec()) =>
                {
                    return Err(format!("session {key} began twice"));
                }
                Write::Delete(key) => {
                    self.sessions.remove(key.as_bytes());
                }
                _ => {}
            }
        }
        Ok(())
    }
}
