//! [`Keys`]: every key of a cluster. No other module knows how they are made.
//!
//! All start with `("tenure", cluster)`.
//!
//! | key | holds | written by | how many | gone when |
//! | --- | --- | --- | --- | --- |
//! | `("session", id)` | node, ttl: who it is, for good | the node, at joining | one a live session | the session ends |
//! | `("beat", id)` | how often the session was renewed | the node, at each renewal | one a live session | the session ends |
//! | `("local", place, id)` | the owner's process; `place` is a machine, its boot and a pid namespace | the node, at joining | one a live session | the session ends |
//! | `("own", id, ...)` | belongings of the session: its lane as a candidate, `"lane"`; the holder, if it is a lease, `"lease"`; what operators ask of it as a leader, `"ask"`; whatever is built on sessions adds its own | the node, and whoever answers it | bounded by who writes them | the session ends |
//! | `("member", node)` | the node's public record | the node, and whoever ends its session or suspects it | one a node | gone for as long as is set |
//! | `("changes")`, a list | what became of members, in order | the same commits | bounded by sweeping | swept |
//! | `("election", name)` | term, holder, the last terms | whoever wins, resigns or deposes | one an election | never: terms are not used twice |
//! | `("payload", name)` | what the leader of a term publishes | the leader, under guard | one an election | overwritten |
//! | `("candidate", name, rank, ticket, session)` | a candidate that waits | the candidate | one a waiting candidate | it wins or gives up |

use tenure_store::{Key, Name, Part, Range, StoreError, Tuple};

use crate::SessionId;

/// The first part of every key.
const ROOT: &str = "tenure";

/// Makes the keys of one cluster.
#[derive(Clone, Debug)]
pub struct Keys {
    root: Tuple,
}

impl Keys {
    /// The keys of the cluster of this name.
    #[must_use]
    pub fn new(cluster: &Name) -> Self {
        Self { root: Tuple::new().text(ROOT).name(cluster) }
    }

    /// All that the cluster has in the store: to delete it is to forget the cluster, terms and fencing tokens included.
    #[must_use]
    pub fn all(&self) -> Range {
        self.root.range()
    }

    fn part(&self, part: &str) -> Tuple {
        self.root.clone().text(part)
    }

    /// The key that exists as long as the session does.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Key {
        self.part("session").bytes(id.to_bytes().to_vec()).key()
    }

    /// The sessions of all nodes and leases.
    pub(crate) fn sessions(&self) -> Range {
        self.part("session").range()
    }

    pub(crate) fn beat(&self, id: SessionId) -> Key {
        self.part("beat").bytes(id.to_bytes().to_vec()).key()
    }

    /// The beats of all nodes.
    pub(crate) fn beats(&self) -> Range {
        Range::Between { start: self.part("beat").key(), end: self.beat(SessionId::FIRST_LEASE) }
    }

    /// The beats of all nodes and leases.
    pub(crate) fn all_beats(&self) -> Range {
        self.part("beat").range()
    }

    /// The beats of all leases.
    pub(crate) fn lease_beats(&self) -> Range {
        self.part("beat").range().after(&self.beat(SessionId::FIRST_LEASE))
    }

    /// Whose lease a session is, if it is one.
    pub(crate) fn lease(&self, id: SessionId) -> Key {
        self.belongings(id).text("lease").key()
    }

    /// The name that a key of [`Keys::election`] ends with.
    pub(crate) fn name_of(key: &Key) -> Result<Name, StoreError> {
        match Tuple::decode(key)?.parts().last() {
            Some(Part::Text(name)) => name.parse(),
            _ => Err(StoreError::corrupt(format!("key {key} names no election"))),
        }
    }

    /// The session that a key of [`Keys::beat`] or [`Keys::local`] belongs to.
    pub(crate) fn session_of(key: &Key) -> Result<SessionId, StoreError> {
        match Tuple::decode(key)?.parts().last() {
            Some(Part::Bytes(bytes)) => bytes[..].try_into().map(SessionId::from_bytes).ok(),
            _ => None,
        }
        .ok_or_else(|| StoreError::corrupt(format!("key {key} names no session")))
    }

    pub(crate) fn local(&self, place: &str, id: SessionId) -> Key {
        self.part("local").text(place).bytes(id.to_bytes().to_vec()).key()
    }

    pub(crate) fn locals(&self, place: &str) -> Range {
        self.part("local").text(place).range()
    }

    /// What belongs to a session: every key and list that extends this goes in the commit that ends the session. Whoever writes one for another
    /// checks that the session exists, so that nothing comes later.
    #[must_use]
    pub fn belongings(&self, id: SessionId) -> Tuple {
        self.part("own").bytes(id.to_bytes().to_vec())
    }

    /// What a leader with this session is asked.
    pub(crate) fn ask(&self, id: SessionId, election: &Name) -> Key {
        self.belongings(id).text("ask").name(election).key()
    }

    pub(crate) fn lane(&self, id: SessionId) -> Key {
        self.belongings(id).text("lane").key()
    }

    /// Where something that is built on this cluster keeps its keys. Each has a word of its own, and none of those in the table above.
    #[must_use]
    pub fn area(&self, word: &str) -> Tuple {
        self.part(word)
    }

    pub(crate) fn member(&self, node: &Name) -> Key {
        self.part("member").name(node).key()
    }

    pub(crate) fn members(&self) -> Range {
        self.part("member").range()
    }

    pub(crate) fn changes(&self) -> Key {
        self.part("changes").key()
    }

    /// The key whose value says who holds the election.
    #[must_use]
    pub fn election(&self, name: &Name) -> Key {
        self.part("election").name(name).key()
    }

    pub(crate) fn elections(&self) -> Range {
        self.part("election").range()
    }

    pub(crate) fn payload(&self, name: &Name) -> Key {
        self.part("payload").name(name).key()
    }

    pub(crate) fn candidates(&self, election: &Name) -> Range {
        self.part("candidate").name(election).range()
    }

    /// Where a candidate stands in the queue of an election: those of greater priority first, then those of smaller tickets.
    pub(crate) fn candidate(&self, election: &Name, place: &Place) -> Key {
        let rank = -i64::from(place.priority);
        let id = place.session.to_bytes().to_vec();
        self.part("candidate").name(election).int(rank).int(place.ticket).bytes(id).key()
    }

    /// The election that a key of [`Keys::candidate`] is of.
    pub(crate) fn awaited_by(key: &Key) -> Result<Name, StoreError> {
        match Tuple::decode(key)?.parts() {
            [.., Part::Text(name), Part::Int(_), Part::Int(_), Part::Bytes(_)] => name.parse(),
            _ => Err(StoreError::corrupt(format!("key {key} names no candidate"))),
        }
    }

    /// The place that a key of [`Keys::candidate`] stands for.
    pub(crate) fn place_of(key: &Key) -> Result<Place, StoreError> {
        let place = || {
            let tuple = Tuple::decode(key).ok()?;
            let [.., Part::Int(rank), Part::Int(ticket), Part::Bytes(id)] = tuple.parts() else {
                return None;
            };
            Some(Place {
                priority: i32::try_from(-i64::try_from(*rank).ok()?).ok()?,
                ticket: u64::try_from(*ticket).ok()?,
                session: SessionId::from_bytes(id[..].try_into().ok()?),
            })
        };
        place().ok_or_else(|| StoreError::corrupt(format!("key {key} names no candidate")))
    }
}

/// A candidate's place in the queue of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Whoever has more is served first.
    pub(crate) priority: i32,
    /// Counts arrivals of one priority: greater than that of everyone who was there before.
    pub(crate) ticket: u64,
    pub(crate) session: SessionId,
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    #[test]
    fn candidates_sort_by_priority_then_arrival() {
        let keys = Keys::new(&"c".parse().unwrap());
        let (env, name) = (Env::system(), "e".parse().unwrap());
        let place = |priority, ticket| Place { priority, ticket, session: SessionId::random(&env) };
        let places = [place(9, 7), place(1, 1), place(0, 2), place(0, 300), place(-5, 1), place(i32::MIN, 0)];
        let sorted: Vec<Key> = places.iter().map(|place| keys.candidate(&name, place)).collect();
        assert!(sorted.is_sorted());
        for (key, place) in sorted.iter().zip(places) {
            assert_eq!(Keys::place_of(key).unwrap(), place);
            assert_eq!(Keys::awaited_by(key).unwrap(), name);
            assert!(keys.candidates(&name).contains(key));
        }
    }

    #[test]
    fn sessions_are_found_in_their_keys() {
        let keys = Keys::new(&"c".parse().unwrap());
        let id = SessionId::random(&Env::system());
        assert_eq!(Keys::session_of(&keys.beat(id)).unwrap(), id);
        assert_eq!(Keys::session_of(&keys.local("here", id)).unwrap(), id);
        assert!(Keys::session_of(&keys.changes()).is_err());
    }

    #[test]
    fn keys_of_the_longest_names_fit_every_store() {
        let name: Name = "x".repeat(Name::BYTES_MAX).parse().unwrap();
        let keys = Keys::new(&name);
        let place =
            Place { priority: i32::MIN, ticket: u64::MAX, session: SessionId::random(&Env::system()) };
        assert!(keys.candidate(&name, &place).len() <= tenure_store::Limits::KEY_BYTES_MAX);
    }
}
