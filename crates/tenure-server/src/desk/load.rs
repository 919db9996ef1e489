//! [`Memory`]: a server's state in memory, and how it gets there.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_cluster::Ground;
use tenure_store::{
    Check, Entry, EntryId, Item as Pair, Key, Name, Page, Range, Read, Store, StoreError, Version,
};

use super::item::{Load, Loaded};
use crate::{
    RawParts, Server, ServerError, Stored,
    head::Head,
    keys::{self, LATER, ServerKeys},
    kind::Kind,
    parcel::Bundle,
    reply,
};

/// How many entries of a queue are read at once: each may hold a thousand messages.
const ENTRIES_MAX: usize = 128;

/// How often a state that changes while it is read is read again.
const TRIES_MAX: usize = 50;

/// A state, and the head that it belongs to.
pub(crate) struct Memory<S: Server> {
    pub(crate) head: Head,
    /// The version of the head; `None` if there is no such server yet.
    pub(crate) version: Option<Version>,
    pub(crate) state: Stored<S::State>,
}

impl<S: Server> Memory<S> {
    /// That the head is still this one.
    pub(crate) fn check(&self, keys: &ServerKeys) -> Check {
        match self.version {
            Some(version) => Check::Version(keys.head.clone(), version),
            None => Check::Absent(keys.head.clone()),
        }
    }

    /// Reads a server's state.
    pub(crate) async fn load(ground: &Ground, id: &Name, keys: &ServerKeys) -> Result<Self, ServerError> {
        let (store, limits) = (ground.store(), ground.store().limits());
        let root = keys.state();
        let mut tries = 0;
        let (head, items) = loop {
            let (mut range, mut items, mut first): (Range, Vec<Pair>, Option<Option<Version>>) =
                (root.range(), Vec::new(), None);
            let whole = loop {
                let reads = vec![
                    Read::Key(keys.head.clone()),
                    Read::Range { range: range.clone(), limit: limits.page_items },
                ];
                let snapshot = store.read(reads).await?;
                let version = snapshot.key(0).map(|found| found.version);
                if *first.get_or_insert(version) != version {
                    break None;
                }
                let page = snapshot.range(1);
                items.extend(page.items.iter().cloned());
                match page.items.last() {
                    Some(last) if page.more => range = range.after(&last.key),
                    _ => break Some(snapshot.key(0).cloned()),
                }
            };
            tries += 1;
            match whole {
                Some(head) => break (head, items),
                None if tries < TRIES_MAX => {}
                None => {
                    let words =
                        format!("the state of server {id} changed at every try to read it: try again");
                    return Err(StoreError::unavailable(words).into());
                }
            }
        };
        metrics::counter!("tenure_server_loads_total", "kind" => S::KIND).increment(1);
        let chunk = limits.value_bytes;
        let Some(found) = head else {
            let state = Stored::new(root, chunk, S::init(id))?;
            return Ok(Self { head: Head::new(S::SCHEMA), version: None, state });
        };
        let mut head = Head::decode(&keys.head, &found.value)?;
        let state = match head.schema {
            schema if schema == S::SCHEMA => Stored::load(root, chunk, items)?,
            schema if schema < S::SCHEMA => {
                let migrate = |from: u32, parts: &mut RawParts<'_>| {
                    S::migrate(from, parts).map_err(|failure| failure.to_string().into())
                };
                Stored::load_migrated(root, chunk, items, schema, migrate)?
            }
            found => return Err(ServerError::Newer { server: id.clone(), found, known: S::SCHEMA }),
        };
        head.schema = S::SCHEMA;
        Ok(Self { head, version: Some(found.version), state })
    }
}

/// What the store has for a desk, as of one instant.
pub(crate) struct View {
    pub(crate) version: Option<Version>,
    pub(crate) queue: Load,
    pub(crate) urgent: Load,
    pub(crate) full: bool,
    pub(crate) effects: bool,
}

impl View {
    pub(crate) async fn read<S: Server>(kind: &Kind<S>, keys: &ServerKeys) -> Result<Self, ServerError> {
        let store = kind.ground.store();
        let limit = ENTRIES_MAX.min(store.limits().page_items);
        let list = |list: &Key, limit| Read::List { list: list.clone(), after: None, limit };
        let reads = vec![
            Read::Key(keys.head.clone()),
            list(&keys.queue, limit),
            list(&keys.urgent, limit),
            Read::Key(keys.full.clone()),
            list(&keys.effects, 1),
        ];
        let snapshot = store.read(reads).await?;
        let mut queue = load(&**store, keys, &keys.queue, snapshot.list(1)).await?;
        let head = snapshot.key(0).map(|found| Head::decode(&keys.head, &found.value)).transpose()?;
        if let Some(in_hand) = head.and_then(|head| head.in_hand) {
            put_first(&**store, keys, &mut queue, &in_hand).await?;
        }
        Ok(Self {
            version: snapshot.key(0).map(|found| found.version),
            queue,
            urgent: load(&**store, keys, &keys.urgent, snapshot.list(2)).await?,
            full: snapshot.key(3).is_some(),
            effects: !snapshot.list(4).items.is_empty(),
        })
    }
}

async fn load(
    store: &dyn Store,
    keys: &ServerKeys,
    list: &Key,
    page: &Page<Entry>,
) -> Result<Load, ServerError> {
    let mut entries = Vec::with_capacity(page.items.len());
    for entry in &page.items {
        let mut loaded = Loaded::new(entry.id.clone(), Bundle::decode(list, &entry.value)?);
        if let Some((number, _)) = loaded.pieces {
            let Some(whole) = pieces(store, &keys.pieces(number)).await? else {
                // Somebody has taken it meanwhile, with its pieces.
                return Ok(Load { entries, more: true });
            };
            match Bundle::decode(list, &whole)? {
                Bundle::Here(parcels) => loaded.parcels = parcels,
                Bundle::InPieces { .. } => {
                    return Err(StoreError::corrupt(format!(
                        "pieces of an entry of {list} are pieces again"
                    ))
                    .into());
                }
            }
        }
        entries.push(loaded);
    }
    Ok(Load { entries, more: page.more })
}

/// Puts the entry that is in hand before all others, wherever it is.
async fn put_first(
    store: &dyn Store,
    keys: &ServerKeys,
    queue: &mut Load,
    in_hand: &EntryId,
) -> Result<(), ServerError> {
    let mut more = queue.more;
    let mut after = queue.entries.last().map(|entry| entry.id.clone());
    while !queue.entries.iter().any(|entry| entry.id == *in_hand) {
        if !more {
            let words = format!("entry {in_hand:?} is in hand and not in the queue {}", keys.queue);
            return Err(StoreError::corrupt(words).into());
        }
        let list = Read::List { list: keys.queue.clone(), after: after.clone(), limit: ENTRIES_MAX };
        let found = store.read(vec![list]).await?;
        let rest = load(store, keys, &keys.queue, found.list(0)).await?;
        after = rest.entries.last().map(|entry| entry.id.clone()).or(after);
        more = rest.more && !rest.entries.is_empty();
        // Those in between are read again when it is their turn.
        queue.entries.extend(rest.entries.into_iter().filter(|entry| entry.id == *in_hand));
        queue.more = true;
    }
    if let Some(at) = queue.entries.iter().position(|entry| entry.id == *in_hand) {
        queue.entries[..=at].rotate_right(1);
    }
    Ok(())
}

/// What is there in pieces; `None` if it is not all there.
pub(crate) async fn pieces(store: &dyn Store, range: &Range) -> Result<Option<Bytes>, StoreError> {
    let (mut found, mut next, mut count) = (BTreeMap::new(), Some(range.clone()), None);
    while let Some(range) = next.take() {
        let limit = store.limits().page_items;
        let answer = store.read(vec![Read::Range { range: range.clone(), limit }]).await?;
        let page = answer.range(0);
        for item in &page.items {
            let (_, number) = keys::numbers_of(&item.key)?;
            if number == LATER {
                continue;
            }
            let (of, piece) = reply::piece(&item.key, &item.value)?;
            found.insert(number, piece);
            count = Some(of);
        }
        if page.more {
            next = page.items.last().map(|last| range.after(&last.key));
        }
    }
    if Some(found.len() as u64) != count {
        return Ok(None);
    }
    Ok(Some(found.into_values().collect::<Vec<_>>().concat().into()))
}
