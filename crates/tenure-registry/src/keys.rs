//! [`RegistryKeys`]: every key of a registry. No other module knows how they are made.
//!
//! All start with `("tenure", cluster)`.
//!
//! | key | holds | written by | how many | gone when |
//! | --- | --- | --- | --- | --- |
//! | `("registry", name, "log", position)` | one batch of changes | the leader, under guard | bounded by the number of names | its changes are in pages |
//! | `("registry", name, "page", first)` | the names from `first` up to the next page, as of a position | the leader, under guard | as many as the names fill | it is empty, but for the first |
//! | `("registry", name, "base")` | up to which position the log was removed | the leader, under guard | one a registry | never |
//! | `("registry", name, "floors")` | for each session that asked for something, the least number of a request that it still waits for, as of the base or later | the leader, under guard | one a registry, as long as there are sessions | never |
//! | `("registry", name, "post")`, a list | requests of nodes that have no link to the leader | those nodes | as many as wait | answered |
//!
//! Belongings of a node's session: `("own", session, "registry", name, request)`, answers to such requests.
//!
//! The leader's key is the field `leader` of the elector's state: [`Elector::leader_key`](crate::Elector::leader_key).

use tenure_cluster::{Keys, SessionId};
use tenure_store::{Key, Name, Part, Range, StoreError, Tuple};

/// Makes the keys of one registry.
#[derive(Clone, Debug)]
pub(crate) struct RegistryKeys {
    keys: Keys,
    registry: Name,
    pub(crate) base: Key,
    pub(crate) floors: Key,
    pub(crate) post: Key,
    /// Who leads: a field of the elector's state.
    pub(crate) leader: Key,
}

impl RegistryKeys {
    pub(crate) fn new(keys: &Keys, registry: &Name, leader: Key) -> Self {
        let of = |word: &str| keys.area("registry").name(registry).text(word);
        Self {
            base: of("base").key(),
            floors: of("floors").key(),
            post: of("post").key(),
            leader,
            keys: keys.clone(),
            registry: registry.clone(),
        }
    }

    fn of(&self, word: &str) -> Tuple {
        self.keys.area("registry").name(&self.registry).text(word)
    }

    /// The whole log.
    pub(crate) fn log(&self) -> Range {
        self.of("log").range()
    }

    /// The log behind a position.
    pub(crate) fn log_after(&self, position: u64) -> Range {
        self.log().after(&self.batch(position))
    }

    /// The log up to a position, which is part of it.
    pub(crate) fn log_through(&self, position: u64) -> Range {
        Range::Between { start: self.of("log").key(), end: self.batch(position + 1) }
    }

    pub(crate) fn batch(&self, position: u64) -> Key {
        self.of("log").int(position).key()
    }

    /// The position that a key of the log stands for.
    pub(crate) fn position_of(key: &Key) -> Result<u64, StoreError> {
        match Tuple::decode(key)?.parts().last() {
            Some(Part::Int(position)) => u64::try_from(*position).ok(),
            _ => None,
        }
        .ok_or_else(|| StoreError::corrupt(format!("key {key} is no place in a log of names")))
    }

    pub(crate) fn pages(&self) -> Range {
        self.of("page").range()
    }

    /// The page that begins with this name; the first begins with none.
    pub(crate) fn page(&self, first: &str) -> Key {
        self.of("page").text(first).key()
    }

    /// The name that a page begins with.
    pub(crate) fn first_of(key: &Key) -> Result<String, StoreError> {
        match Tuple::decode(key)?.into_parts().pop() {
            Some(Part::Text(first)) => Ok(first),
            _ => Err(StoreError::corrupt(format!("key {key} is no page of names"))),
        }
    }

    /// That a session exists.
    pub(crate) fn session(&self, session: SessionId) -> Key {
        self.keys.session(session)
    }

    /// Where a session gets the answer to a request that it posted.
    pub(crate) fn answer(&self, session: SessionId, request: u64) -> Key {
        self.answers_of(session).int(request).key()
    }

    /// All answers of a session.
    pub(crate) fn answers(&self, session: SessionId) -> Range {
        self.answers_of(session).range()
    }

    fn answers_of(&self, session: SessionId) -> Tuple {
        self.keys.belongings(session).text("registry").name(&self.registry)
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::Limits;

    use super::*;

    fn keys(name: &str) -> RegistryKeys {
        let name: Name = name.parse().unwrap();
        RegistryKeys::new(&Keys::new(&name), &name, Key::from("leader"))
    }

    #[test]
    fn the_log_is_in_the_order_of_positions() {
        let keys = keys("r");
        let batches: Vec<Key> = [1, 2, 255, 256, 70_000].into_iter().map(|at| keys.batch(at)).collect();
        assert!(batches.is_sorted());
        assert_eq!(RegistryKeys::position_of(&batches[4]).unwrap(), 70_000);
        assert!(keys.log_after(255).contains(&batches[3]) && !keys.log_after(255).contains(&batches[2]));
        assert!(keys.log_through(255).contains(&batches[2]) && !keys.log_through(255).contains(&batches[3]));
        assert!(RegistryKeys::position_of(&keys.base).is_err());
    }

    #[test]
    fn keys_of_the_longest_names_fit_every_store() {
        let long = "x".repeat(Name::BYTES_MAX);
        let page = keys(&long).page(&long);
        assert!(page.len() <= Limits::KEY_BYTES_MAX);
        assert_eq!(RegistryKeys::first_of(&page).unwrap(), long);
    }
}
