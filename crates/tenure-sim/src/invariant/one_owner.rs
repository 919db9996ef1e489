//! [`OneOwner`]: at no instant is a name live twice.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tenure_cluster::SessionId;
use tenure_registry::Registration;

/// All registrations that anybody holds. A process that stands still believes what it would believe if it went on at that instant; one that was killed believes nothing.
#[derive(Clone, Debug, Default)]
pub struct OneOwner {
    held: Arc<Mutex<Vec<Held>>>,
    /// Registrations that were live when their process was killed, by session and number.
    died_with: Arc<Mutex<BTreeSet<(SessionId, u64)>>>,
}

#[derive(Debug)]
struct Held {
    process: u64,
    name: String,
    session: SessionId,
    registration: Weak<Registration>,
}

impl Held {
    /// Its session and number, while its owner believes that the name is its own.
    fn live(&self) -> Option<(SessionId, u64)> {
        // The last one to let go of it would take it back: on one thread, this is never the last.
        let registration = self.registration.upgrade()?;
        (!registration.remaining().is_zero()).then(|| (self.session, registration.number()))
    }
}

impl OneOwner {
    /// This process holds this registration, which was made in this session, for as long as it lives.
    pub fn holds(&self, process: u64, session: SessionId, registration: &Arc<Registration>) {
        let mut held = self.held.lock();
        held.retain(|held| held.registration.strong_count() > 0);
        let name = registration.name().to_owned();
        held.push(Held { process, name, session, registration: Arc::downgrade(registration) });
    }

    /// This process was killed.
    pub fn died(&self, process: u64) {
        let (dead, living) =
            std::mem::take(&mut *self.held.lock()).into_iter().partition(|held| held.process == process);
        *self.held.lock() = living;
        let dead: Vec<Held> = dead;
        self.died_with.lock().extend(dead.iter().filter_map(Held::live));
    }

    /// Whether a registration was live when its process was killed, which can't tell any more: what it had lost before stays lost.
    #[must_use]
    pub fn died_with(&self, session: SessionId, number: u64) -> bool {
        self.died_with.lock().contains(&(session, number))
    }

    /// Those who believe that a name is theirs, by session and number.
    #[must_use]
    pub fn live(&self, name: &str) -> Vec<(SessionId, u64)> {
        self.held.lock().iter().filter(|held| held.name == name).filter_map(Held::live).collect()
    }

    /// Looks at these names at this instant.
    ///
    /// # Errors
    /// Who believes that the same name is theirs, if they are two.
    pub fn check<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        for name in names {
            let live = self.live(name);
            if live.len() > 1 {
                return Err(format!("{name} is live more than once: {live:?}"));
            }
        }
        Ok(())
    }

    /// A name is given to somebody at this instant: nobody else may believe that it is theirs.
    ///
    /// # Errors
    /// Who does.
    pub fn given(&self, name: &str, session: SessionId, number: u64) -> Result<(), String> {
        match self.live(name).into_iter().find(|live| *live != (session, number)) {
            Some(live) => {
                Err(format!("{name} is given to {:?} and still live for {live:?}", (session, number)))
            }
            None => Ok(()),
        }
    }

    /// A name is taken from somebody at this instant, who must not believe any more that it has it.
    ///
    /// # Errors
    /// When it does.
    pub fn freed(&self, name: &str, session: SessionId, number: u64) -> Result<(), String> {
        if self.live(name).contains(&(session, number)) {
            return Err(format!("{name} is taken from {:?}, for whom it is live", (session, number)));
        }
        Ok(())
    }
}
