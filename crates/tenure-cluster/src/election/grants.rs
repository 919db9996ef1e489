//! [`Grants`]: which leaderships are held in this process, so that two of its tasks never hold one office.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tenure_store::{Check, Key, Name, Version, latest};

use super::Term;
use crate::{Hold, Keys};

/// A leadership that was won: the office in one version, held by one session.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// Tells grants of one office in this process apart.
    pub(crate) id: u64,
    pub(crate) election: Name,
    pub(crate) term: Term,
    /// How often the session had been renewed when the term began.
    pub(crate) renewals: u64,
    /// The version of the office, which changes with its holder and not before.
    pub(crate) version: Version,
    pub(crate) hold: Hold,
}

impl Grant {
    /// What must hold for a commit that is made in this term's name.
    pub(crate) fn guard(&self, keys: &Keys) -> Vec<Check> {
        vec![
            Check::Version(self.office(keys), self.version),
            Check::Present(keys.session(self.hold.session().id())),
        ]
    }

    pub(crate) fn office(&self, keys: &Keys) -> Key {
        keys.election(&self.election)
    }
}

/// The leaderships that are held in this process.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    live: Mutex<Live>,
    /// Counts what was given back: whoever waits for an office in the same process looks again.
    given_back: latest::Sender<u64>,
}

#[derive(Debug, Default)]
struct Live {
    last: u64,
    ids: BTreeMap<Name, u64>,
}

impl Grants {
    /// A new id for this office, unless there is a live one.
    pub(crate) fn enter(&self, election: &Name) -> Option<u64> {
        let mut live = self.live.lock();
        if live.ids.contains_key(election) {
            return None;
        }
        live.last += 1;
        let id = live.last;
        live.ids.insert(election.clone(), id);
        Some(id)
    }

    /// The id of the live grant of this office, if there is one.
    pub(crate) fn live(&self, election: &Name) -> Option<u64> {
        self.live.lock().ids.get(election).copied()
    }

    pub(crate) fn contains(&self, election: &Name) -> bool {
        self.live(election).is_some()
    }

    /// Forgets a grant. Others of the same office stay.
    pub(crate) fn leave(&self, grant: &Grant) {
        let mut live = self.live.lock();
        if live.ids.get(&grant.election) == Some(&grant.id) {
            live.ids.remove(&grant.election);
            drop(live);
            self.given_back.send_modify(|count| *count += 1);
        }
    }

    /// Changes whenever a grant is forgotten.
    pub(crate) fn given_back(&self) -> latest::Receiver<u64> {
        self.given_back.subscribe()
    }
}
