//! [`Remains`]: when all is quiet, the store has only what is documented to stay.

use std::collections::BTreeSet;

use tenure_cluster::Keys;
use tenure_store::{Bytes, Item, Key, Part, Range, Store, StoreExt as _, Tuple};

/// What may be left of servers that are at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Answers under idempotency keys are kept.
    AtRest,
    /// Their time is over.
    Swept,
    /// All servers are deleted.
    Deleted,
}

/// Looks what servers have left in a store.
#[derive(Clone, Debug)]
pub struct Remains {
    keys: Keys,
    /// All lists of the servers.
    lists: Vec<Key>,
}

impl Remains {
    /// Looks after these servers, given by kind and name.
    #[must_use]
    pub fn new(keys: Keys, servers: &[(&str, &str)]) -> Self {
        let list = |word: &str, (kind, id): &(&str, &str)| keys.area(word).text(*kind).text(*id).key();
        let lists = ["queue", "urgent", "effect"]
            .iter()
            .flat_map(|word| servers.iter().map(move |server| list(word, server)))
            .collect();
        Self { keys, lists }
    }

    /// Everything that should not be there.
    ///
    /// # Panics
    /// If the store fails: it is to be one without faults.
    pub async fn left(&self, store: &dyn Store, stage: Stage) -> Vec<String> {
        let found = self.all(store).await;
        let sessions: BTreeSet<Bytes> = found
            .iter()
            .filter(|(word, _, _)| word == "session")
            .filter_map(|(_, parts, _)| session(parts))
            .collect();
        let heads: BTreeSet<Vec<Part>> =
            found.iter().filter(|(word, ..)| word == "head").map(|(_, parts, _)| parts.clone()).collect();
        let count = |word: &str| found.iter().filter(|(its, ..)| its == word).count();
        let mut left = Vec::new();
        for (word, parts, key) in &found {
            let its_server = parts.get(..2).is_some_and(|server| heads.contains(server));
            let stays = match word.as_str() {
                // What belongs to the cluster has scenarios of its own.
                "session" | "beat" | "local" | "member" => true,
                "own" => session(parts).is_some_and(|its| sessions.contains(&its)) && !is_reply(parts),
                "consumers" => true,
                "head" => stage != Stage::Deleted,
                "state" => its_server,
                // Answers that are kept, or still to be given.
                "once" | "owed" => its_server && stage == Stage::AtRest,
                // Of answers that were given later, each in one.
                "piece" => its_server && stage == Stage::AtRest && count("piece") <= count("once"),
                "due" => is_sweep(parts) && stage == Stage::AtRest,
                _ => false,
            };
            if !stays {
                left.push(key.to_string());
            }
        }
        for list in &self.lists {
            let page = store.entries(list, 10).await.expect("the bare store has no faults");
            left.extend(page.items.iter().map(|entry| format!("{list} {:?}", entry.id)));
        }
        left
    }

    /// All keys of the cluster: the word of each, what follows it, and the key itself.
    async fn all(&self, store: &dyn Store) -> Vec<(String, Vec<Part>, Key)> {
        let (mut range, mut found): (Range, Vec<Item>) = (self.keys.all(), Vec::new());
        loop {
            let page = store.scan(&range, store.limits().page_items).await;
            let page = page.expect("the bare store has no faults");
            found.extend(page.items);
            match found.last() {
                Some(last) if page.more => range = range.after(&last.key),
                _ => break,
            }
        }
        let parts = |item: Item| {
            let mut parts =
                Tuple::decode(&item.key).map(Tuple::into_parts).unwrap_or_default().into_iter().skip(2);
            let word = match parts.next() {
                Some(Part::Text(word)) => word,
                other => format!("{other:?}"),
            };
            (word, parts.collect(), item.key)
        };
        found.into_iter().map(parts).collect()
    }
}

/// The session that a key begins with.
fn session(parts: &[Part]) -> Option<Bytes> {
    match parts.first() {
        Some(Part::Bytes(session)) => Some(session.clone()),
        _ => None,
    }
}

/// Whether it is an answer that nobody has read.
fn is_reply(parts: &[Part]) -> bool {
    matches!(parts.get(1), Some(Part::Text(word)) if word == "reply")
}

/// Whether a key of `due` says that something is to be swept.
fn is_sweep(parts: &[Part]) -> bool {
    matches!(parts.last(), Some(Part::Int(timer)) if u64::try_from(*timer) == Ok(0))
}
