//! [`Survey`]: what servers there are, for whoever looks at a cluster without taking part.

use std::{collections::BTreeSet, time::Duration};

use tenure_cluster::{Onlooker, SessionId};
use tenure_store::{Key, Name, Part, Range, Read, Store as _, StoreError, StoreExt as _, Tuple};

use crate::{
    DeadLetter, ServerError, Status,
    dead::DeadLetters,
    keys::{KindKeys, SHARDS, ServerKeys, id_of},
    operate,
};

/// How many servers are looked at by one read.
const AT_ONCE: usize = 32;

/// A kind of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindSeen {
    /// Its name.
    pub kind: Name,
    /// How many nodes handle its messages.
    pub consumers: u64,
    /// How many servers there are, counted no further than a page.
    pub servers: u64,
    /// Whether there are more.
    pub more: bool,
    /// How many of them have messages or effects, counted no further than a page.
    pub busy: u64,
    /// How many dead letters they have, counted no further than a page.
    pub dead_letters: u64,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerSeen {
    /// Its name.
    pub id: Name,
    /// How it is.
    pub status: Status,
    /// How many dead letters are kept, counted no further than a page.
    pub dead_letters: u64,
}

/// What waits for the servers of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// How many messages wait, of each server counted no further than a page.
    pub waiting: u64,
    /// How long the oldest of them waits, by the wall clock.
    pub oldest: Option<Duration>,
    /// Whether there are servers with work that were not looked at.
    pub more: bool,
}

/// What servers there are.
pub trait Survey {
    /// Kinds that have servers, messages or consumers, by name, behind `after`, up to `limit`.
    ///
    /// # Errors
    /// Errors of the store.
    fn kinds(
        &self,
        after: Option<&Name>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<KindSeen>, StoreError>> + Send;

    /// What waits for those servers of a kind that have work: for up to `limit` of them.
    ///
    /// # Errors
    /// Errors of the store.
    fn backlog(&self, kind: &Name, limit: usize) -> impl Future<Output = Result<Backlog, StoreError>> + Send;

    /// Servers of a kind, by name, behind `after`, up to `limit`.
    ///
    /// # Errors
    /// Errors of the store.
    fn servers(
        &self,
        kind: &Name,
        after: Option<&Name>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<ServerSeen>, StoreError>> + Send;

    /// One server; `None` if there is no such.
    ///
    /// # Errors
    /// Errors of the store.
    fn server(
        &self,
        kind: &Name,
        id: &Name,
    ) -> impl Future<Output = Result<Option<ServerSeen>, StoreError>> + Send;

    /// Where a field of a server's state is stored; see [`ServerRef::field_key`](crate::ServerRef::field_key).
    fn field_key(&self, kind: &Name, id: &Name, field: &str) -> Key;

    /// Dead letters of a server behind `after`, in the order in which they died.
    ///
    /// # Errors
    /// Errors of the store.
    fn dead_letters(
        &self,
        kind: &Name,
        id: &Name,
        after: Option<u64>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, ServerError>> + Send;
}

impl Survey for Onlooker {
    async fn kinds(&self, after: Option<&Name>, most: usize) -> Result<Vec<KindSeen>, StoreError> {
        let mut names = BTreeSet::new();
        for word in ["head", "work", "consumers"] {
            names.extend(names_below(self, word, after, most).await?);
        }
        let members = self.members().list().await?;
        let sessions: Vec<_> = members
            .iter()
            .filter(|listed| listed.member.is_here())
            .map(|listed| listed.member.session)
            .collect();
        let limit = self.store().limits().page_items;
        let mut kinds = Vec::new();
        for kind in names.into_iter().take(most) {
            let keys = KindKeys::new(self.keys(), &kind);
            let ranges = [keys.heads(), keys.works(), keys.deads()];
            let reads = ranges.into_iter().map(|range| Read::Range { range, limit });
            let found = self.store().read(reads.collect()).await?;
            let count = |index: usize| found.range(index).items.len() as u64;
            kinds.push(KindSeen {
                consumers: consumers(self, &keys, &sessions).await?,
                servers: count(0),
                more: found.range(0).more,
                busy: count(1),
                dead_letters: count(2),
                kind,
            });
        }
        Ok(kinds)
    }

    async fn backlog(&self, kind: &Name, limit: usize) -> Result<Backlog, StoreError> {
        let range = KindKeys::new(self.keys(), kind).works();
        let limit = limit.clamp(1, self.store().limits().page_items);
        let page = self.store().scan(&range, limit).await?;
        let ids = page.items.iter().map(|item| id_of(&item.key)).collect::<Result<Vec<Name>, _>>()?;
        let mut backlog = Backlog { more: page.more, ..Backlog::default() };
        for some in ids.chunks(AT_ONCE) {
            for ServerSeen { status, .. } in look(self, kind, some).await? {
                backlog.waiting += status.waiting;
                backlog.oldest = backlog.oldest.max(status.oldest);
            }
        }
        Ok(backlog)
    }

    async fn servers(
        &self,
        kind: &Name,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<ServerSeen>, StoreError> {
        let mut after = after.cloned();
        let mut seen = Vec::new();
        while seen.len() < limit {
            let ids = ids_behind(self, kind, after.as_ref(), limit - seen.len()).await?;
            let Some(last) = ids.last() else { break };
            after = Some(last.clone());
            for some in ids.chunks(AT_ONCE) {
                seen.extend(look(self, kind, some).await?);
            }
        }
        Ok(seen)
    }

    async fn server(&self, kind: &Name, id: &Name) -> Result<Option<ServerSeen>, StoreError> {
        Ok(look(self, kind, std::slice::from_ref(id)).await?.pop())
    }

    fn field_key(&self, kind: &Name, id: &Name, field: &str) -> Key {
        ServerKeys::new(self.keys(), kind, id).state().text(field).key()
    }

    async fn dead_letters(
        &self,
        kind: &Name,
        id: &Name,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, ServerError> {
        let keys = ServerKeys::new(self.keys(), kind, id);
        DeadLetters { store: &**self.store(), keys: &keys }.list(after, limit).await
    }
}

/// How many of these sessions consume for a kind.
async fn consumers(onlooker: &Onlooker, keys: &KindKeys, sessions: &[SessionId]) -> Result<u64, StoreError> {
    let mut count = 0;
    // A large fleet is more than one read may ask for.
    for some in sessions.chunks(onlooker.store().limits().read_questions) {
        let reads = some.iter().map(|session| Read::Key(keys.consumer(*session))).collect();
        let found = onlooker.store().read(reads).await?;
        count += (0..some.len()).filter(|index| found.key(*index).is_some()).count() as u64;
    }
    Ok(count)
}

/// The next servers of a kind, by name, up to `limit`. Some may not exist; there are none only if none is left.
async fn ids_behind(
    onlooker: &Onlooker,
    kind: &Name,
    after: Option<&Name>,
    limit: usize,
) -> Result<Vec<Name>, StoreError> {
    let keys = KindKeys::new(onlooker.keys(), kind);
    let limit = limit.min(onlooker.store().limits().page_items);
    let behind = |all: Range, start: Tuple| match after {
        Some(after) => all.after(&start.name(after).key()),
        None => all,
    };
    // Those that have messages and were never run have no head yet.
    let works = (0..SHARDS).map(|shard| behind(keys.work(shard).range(), keys.work(shard)));
    let heads = behind(keys.heads(), onlooker.keys().area("head").name(kind));
    let reads = std::iter::once(heads).chain(works).map(|range| Read::Range { range, limit });
    let reads: Vec<Read> = reads.collect();
    let count = reads.len();
    let found = onlooker.store().read(reads).await?;
    let mut ids = BTreeSet::new();
    // Behind the end of a page that has more, others may be missing.
    let mut known: Option<Name> = None;
    for page in (0..count).map(|index| found.range(index)) {
        let names = page.items.iter().map(|item| id_of(&item.key)).collect::<Result<Vec<Name>, _>>()?;
        if let (true, Some(last)) = (page.more, names.last()) {
            known = Some(known.map_or_else(|| last.clone(), |known| known.min(last.clone())));
        }
        ids.extend(names);
    }
    let ids = ids.into_iter().take_while(|id| known.as_ref().is_none_or(|known| id <= known));
    Ok(ids.take(limit).collect())
}

/// Those of these servers that exist.
async fn look(onlooker: &Onlooker, kind: &Name, ids: &[Name]) -> Result<Vec<ServerSeen>, StoreError> {
    let store = onlooker.store();
    let limit = store.limits().page_items;
    let keys: Vec<ServerKeys> = ids.iter().map(|id| ServerKeys::new(onlooker.keys(), kind, id)).collect();
    let reads = keys.iter().flat_map(|keys| {
        let dead = Read::Range { range: keys.deads(), limit };
        operate::reads(keys, limit).into_iter().chain([dead])
    });
    let found = store.read(reads.collect()).await?;
    let now = onlooker.env().unix_time();
    let mut seen = Vec::new();
    for (index, (id, keys)) in ids.iter().zip(&keys).enumerate() {
        let dead_letters = found.range(3 * index + 2).items.len() as u64;
        if let Some(status) = operate::status(keys, &found, 3 * index, 0, now)? {
            seen.push(ServerSeen { id: id.clone(), status, dead_letters });
        }
    }
    Ok(seen)
}

/// The names that follow a word in keys, behind `after`, up to `limit`: one read for each, however many keys begin with it.
async fn names_below(
    onlooker: &Onlooker,
    word: &str,
    after: Option<&Name>,
    limit: usize,
) -> Result<Vec<Name>, StoreError> {
    let area = onlooker.keys().area(word);
    let depth = Tuple::decode(&area.key())?.parts().len();
    let (mut range, mut names) = (area.range(), Vec::new());
    if let Some(after) = after {
        range = behind(&range, &area.clone().name(after));
    }
    while names.len() < limit {
        let page = onlooker.store().scan(&range, 1).await?;
        let Some(item) = page.items.first() else { return Ok(names) };
        let name = name_at(&item.key, depth)?;
        range = behind(&range, &area.clone().name(&name));
        names.push(name);
    }
    Ok(names)
}

/// What is left of a range behind all keys that begin with `part`, and the key that is `part`.
fn behind(range: &Range, part: &Tuple) -> Range {
    let start = part.range().end().unwrap_or_else(|| part.key());
    Range::Between { start, end: range.end().unwrap_or_else(|| part.key()) }
}

fn name_at(key: &Key, depth: usize) -> Result<Name, StoreError> {
    match Tuple::decode(key)?.parts().get(depth) {
        Some(Part::Text(name)) => name.parse(),
        _ => Err(StoreError::corrupt(format!("key {key} names no kind"))),
    }
}
