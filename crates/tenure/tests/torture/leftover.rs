//! What is left in the store: every key of the cluster, and which of them may be there.

use tenure::store::{Key, Part, Range, Store, StoreExt as _, Tuple};

use crate::log::SERVERS;

/// As many keys as are read at once.
const PAGE: usize = 1000;

/// When the store is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is nothing to do, and nodes are there.
    Idle,
    /// All nodes are gone.
    Gone,
}

/// Which keys should not be there, in words. What may be there is what the tables in `keys.rs` of `tenure-cluster` and `tenure-server` list as staying.
pub(crate) fn flaws(keys: &[Key], stage: Stage) -> Vec<String> {
    let may_stay = |key: &Key| {
        let found = Tuple::decode(key).ok()?;
        let [_, _, Part::Text(area), .., last] = found.parts() else { return None };
        Some(match area.as_str() {
            "head" | "state" | "once" | "consumers" | "member" | "changes" => true,
            // Timer 0 stands for sweeping, which is due when answers need not be kept any longer.
            "due" => *last == Part::Int(0_u64.into()),
            "session" | "beat" | "local" | "own" => stage == Stage::Idle,
            _ => false,
        })
    };
    let left = keys.iter().filter(|key| may_stay(key) != Some(true));
    left.map(|key| format!("left over: {:?}", Tuple::decode(key).map(Tuple::into_parts))).collect()
}

/// How many sessions there are.
pub(crate) fn sessions(keys: &[Key]) -> usize {
    let is_session = |key: &&Key| {
        let found = Tuple::decode(key).map(Tuple::into_parts);
        found.is_ok_and(|parts| parts.get(2) == Some(&Part::Text("session".to_owned())))
    };
    keys.iter().filter(is_session).count()
}

/// Every key of a cluster, and every list of its servers that is not empty.
pub(crate) async fn keys(store: &dyn Store, cluster: &str) -> Vec<Key> {
    let root = Tuple::new().text("tenure").text(cluster);
    let all = root.range();
    let (mut found, mut range): (Vec<Key>, Range) = (Vec::new(), all.clone());
    loop {
        let page = store.scan(&range, PAGE.min(store.limits().page_items)).await.unwrap();
        found.extend(page.items.iter().map(|item| item.key.clone()));
        match found.last() {
            Some(last) if page.more => range = all.after(last),
            _ => break,
        }
    }
    for area in ["queue", "urgent", "effect"] {
        for server in SERVERS {
            let list = root.clone().text(area).text("log").text(server).key();
            if !store.entries(&list, 1).await.unwrap().items.is_empty() {
                found.push(list);
            }
        }
    }
    found
}
