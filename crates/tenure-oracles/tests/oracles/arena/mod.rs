//! What tests of elections need: a room for one, fresh databases, and candidates that are not ours.

pub(crate) mod mariadb;
pub(crate) mod postgres;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_singleton::{Mandate, Oracle, Singleton, SingletonBuilder};
use tenure_store::{Env, Moment};

/// A room in which at most one may be at a time. Clones are the same.
#[derive(Clone)]
pub(crate) struct Room {
    env: Env,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    inside: Option<String>,
    visits: Vec<Visit>,
    /// Who was met by whom.
    meetings: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) who: String,
    pub(crate) term: Option<u64>,
    pub(crate) left: Option<Moment>,
}

/// Leaves the room when it is dropped, as an aborted child is.
pub(crate) struct Inside {
    room: Room,
    visit: usize,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self { env: Env::system(), book: Arc::default() }
    }

    pub(crate) fn enter(&self, who: &str, term: Option<u64>) -> Inside {
        let mut book = self.book.lock();
        if let Some(met) = book.inside.replace(who.to_owned()) {
            book.meetings.push((who.to_owned(), met));
        }
        book.visits.push(Visit { who: who.to_owned(), term, left: None });
        Inside { room: self.clone(), visit: book.visits.len() - 1 }
    }

    pub(crate) fn visits(&self) -> Vec<Visit> {
        self.book.lock().visits.clone()
    }

    pub(crate) fn inside(&self) -> Option<String> {
        self.book.lock().inside.clone()
    }

    /// How often somebody else entered than who was there before.
    pub(crate) fn changes(&self) -> usize {
        self.book.lock().visits.windows(2).filter(|pair| pair[0].who != pair[1].who).count()
    }

    /// How often somebody entered whose name begins so.
    pub(crate) fn count(&self, who: &str) -> usize {
        self.book.lock().visits.iter().filter(|visit| visit.who.starts_with(who)).count()
    }

    /// How often somebody whose name begins with the second came after somebody whose name begins with the first.
    pub(crate) fn hand_overs(&self, from: &str, to: &str) -> usize {
        let book = self.book.lock();
        let pairs = book.visits.windows(2);
        pairs.filter(|pair| pair[0].who.starts_with(from) && pair[1].who.starts_with(to)).count()
    }

    /// Nobody met anybody, and each change of terms was a growth. Who comes back without anybody in between may still
    /// be in its term.
    pub(crate) fn judge(&self) {
        let book = self.book.lock();
        assert!(book.meetings.is_empty(), "two at a time: {:?}", book.meetings);
        let mut last = None;
        for (at, visit) in book.visits.iter().enumerate() {
            let Some(term) = visit.term else { continue };
            let back = at > 0 && book.visits[at - 1].who == visit.who;
            let grown = last.is_none_or(|last| term > last || back && term == last);
            assert!(grown, "term {term} of {} after {last:?}, in visit {at}", visit.who);
            last = Some(term);
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut book = self.room.book.lock();
        book.visits[self.visit].left = Some(self.room.env.now());
        book.inside = None;
    }
}

/// In a mixed election, each side takes over from the other so often, at least.
pub(crate) const HAND_OVERS: usize = 50;

/// How likely a visit is a long one, which must be kept by refreshes.
pub(crate) const LONG_VISITS: f64 = 0.04;

/// A node of ours whose child stays in the room for a random time, or for `long` now and then, and gives leadership up
/// after each visit.
pub(crate) fn wanderer(
    room: &Room,
    who: &str,
    oracle: impl Oracle,
    stay: Duration,
    long: Duration,
) -> Singleton {
    let (room, name) = (room.clone(), who.to_owned());
    let child = move |mandate: Mandate| {
        let (room, name) = (room.clone(), name.clone());
        async move {
            let inside = room.enter(&name, mandate.term());
            let env = Env::system();
            let stay = if env.chance(LONG_VISITS) { long } else { env.random_time(stay) };
            let _ = env.timeout(stay, mandate.cancelled()).await;
            drop(inside);
        }
    };
    SingletonBuilder::with_oracle(who, oracle, child)
        .policy(|policy| {
            policy.failures_max = 1;
            policy.cooldown = Duration::from_millis(10);
            policy.grace = Duration::from_millis(100);
        })
        .start()
        .unwrap()
}

/// A node of ours whose child stays in the room for as long as it may.
pub(crate) fn stayer(room: &Room, who: &str, oracle: impl Oracle) -> Singleton {
    let (room, name) = (room.clone(), who.to_owned());
    let child = move |mandate: Mandate| {
        let (room, name) = (room.clone(), name.clone());
        async move {
            let inside = room.enter(&name, mandate.term());
            mandate.cancelled().await;
            drop(inside);
        }
    };
    let grace = |policy: &mut tenure_singleton::Policy| policy.grace = Duration::from_millis(200);
    SingletonBuilder::with_oracle(who, oracle, child).policy(grace).start().unwrap()
}

/// How long many changes of leader may take: several times what they do on a machine that has nothing else to do.
pub(crate) const MANY_CHANGES: Duration = Duration::from_secs(300);

/// Waits until this holds.
pub(crate) async fn until(what: &str, most: Duration, mut holds: impl FnMut() -> bool) {
    let env = Env::system();
    let end = env.now().after(most);
    while !holds() {
        assert!(env.now() < end, "{what}: not within {most:?}");
        env.sleep(Duration::from_millis(5)).await;
    }
}
