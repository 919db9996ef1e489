//! [`Subscription`]: what becomes of names, from a snapshot on, without a gap.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    Entry, Query,
    names::{Moved, Names},
};

/// How many events wait for a subscriber that is slow. One that has missed some gets all that is there instead.
const EVENTS_MAX: usize = 4096;

/// What became of names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// All that are there. It comes first, and again if not every event can be told: so much happened that not all could be kept, or this node was away until the log was shortened past what it
    /// knew. Then it counts in place of them.
    Snapshot {
        /// In the order of names.
        entries: Vec<Arc<Entry>>,
        /// As of this position of the log.
        position: u64,
    },
    /// A name was registered, or its labels have become such that it is meant.
    Joined {
        /// The registration.
        entry: Arc<Entry>,
        /// By this batch of the log.
        position: u64,
    },
    /// Something else is said about a name that was and is meant.
    Changed {
        /// The registration as it is now.
        entry: Arc<Entry>,
        /// By this batch of the log.
        position: u64,
    },
    /// A name is free, or its labels have become such that it is not meant.
    Left {
        /// The registration as it was.
        entry: Arc<Entry>,
        /// By this batch of the log.
        position: u64,
    },
}

/// What tells a subscription.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) query: Query,
    waiting: Mutex<Waiting>,
    told: Notify,
}

#[derive(Debug)]
struct Waiting {
    events: VecDeque<Event>,
    /// Whether what waits does not follow on what was given.
    behind: bool,
}

impl Waiting {
    fn start_anew(&mut self) {
        self.events.clear();
        self.behind = true;
    }
}

impl Listener {
    /// Has all that is there given next, since what led to it can't be told.
    pub(crate) fn start_anew(&self) {
        self.waiting.lock().start_anew();
        self.told.notify_one();
    }

    /// Takes down what is meant, and wakes whoever waits.
    pub(crate) fn hear(&self, moved: &[Moved], position: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.behind {
            return;
        }
        for moved in moved {
            let Some(event) = self.event(moved, position) else { continue };
            if waiting.events.len() == EVENTS_MAX {
                waiting.start_anew();
                break;
            }
            waiting.events.push_back(event);
        }
        self.told.notify_one();
    }

    fn event(&self, moved: &Moved, position: u64) -> Option<Event> {
        let meant = |entry: &Arc<Entry>| self.query.matches(entry).then(|| Arc::clone(entry));
        match moved {
            Moved::Joined(entry) => meant(entry).map(|entry| Event::Joined { entry, position }),
            Moved::Left(entry) => meant(entry).map(|entry| Event::Left { entry, position }),
            Moved::Changed(before, entry) => match (meant(before), meant(entry)) {
                (Some(_), Some(entry)) => Some(Event::Changed { entry, position }),
                (None, Some(entry)) => Some(Event::Joined { entry, position }),
                (Some(entry), None) => Some(Event::Left { entry, position }),
                (None, None) => None,
            },
        }
    }
}

/// What becomes of names. Dropping it ends it.
pub struct Subscription {
    names: Arc<Names>,
    listener: Arc<Listener>,
}

impl Subscription {
    pub(crate) fn new(names: Arc<Names>, query: Query) -> Self {
        let waiting = Mutex::new(Waiting { events: VecDeque::new(), behind: true });
        Self { names, listener: Arc::new(Listener { query, waiting, told: Notify::new() }) }
    }

    /// The next event: first all that is there, then every change in the order of the log. Between two snapshots, none is left out and none comes twice.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            self.listener.told.notified().await;
        }
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        let mut waiting = self.listener.waiting.lock();
        if !waiting.behind {
            return waiting.events.pop_front();
        }
        drop(waiting);
        // What is heard from then on follows on what is taken here, since names stand still meanwhile.
        Some(self.names.listen(&self.listener, |entries, position| {
            let mut waiting = self.listener.waiting.lock();
            waiting.events.clear();
            waiting.behind = false;
            Event::Snapshot { entries, position }
        }))
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("query", &self.listener.query).finish_non_exhaustive()
    }
}
