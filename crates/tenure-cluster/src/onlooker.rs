//! [`Onlooker`]: sees a cluster without taking part: no session, no heartbeat, nothing written but what is asked for.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_store::{Env, Item, Key, Name, Range, Read, Store, StoreError, StoreExt as _, Version, Watch};

use crate::{
    ClusterError, Holder, Keys, Members, Observation, PastTerm, SessionId, Settings, Term, ask,
    election::{Candidate, Office, depose, observe},
    node::Node,
    session::{Beat, Identity},
};

/// Looks at a cluster. Clones are the same.
#[derive(Clone, Debug)]
pub struct Onlooker {
    node: Arc<Node>,
}

/// An election, as it was at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Its name.
    pub name: Name,
    /// The present term, or the last one if nobody leads.
    pub term: Term,
    /// Who leads, if anybody does.
    pub leader: Option<Holder>,
    /// Whoever led in this term, if its session has ended and nobody has taken the office since.
    pub ended: Option<Holder>,
    /// How long the leader's session lives without being renewed.
    pub ttl: Option<Duration>,
    /// When the leader's session was renewed last, by the wall clock of whoever wrote it, since 1970.
    pub last_seen: Option<Duration>,
    /// How many wait for it.
    pub waiting: usize,
    /// Changes whenever somebody takes the office or leaves it.
    pub version: Version,
    /// The last terms that are over, the newest last.
    pub history: Vec<PastTerm>,
}

/// Somebody who waits for an office.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The node.
    pub node: Name,
    /// Its session.
    pub session: SessionId,
    /// Those of greater priority are served first.
    pub priority: i32,
}

/// What is known of the sessions that exist.
type Sessions = BTreeMap<SessionId, (Duration, Duration)>;

impl Onlooker {
    /// Looks at the cluster of this name.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, cluster: Name) -> Self {
        let node = Node::new(store, Env::system(), Settings::of_cluster(cluster));
        Self { node: Arc::new(node) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.node.store
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Name {
        &self.node.settings.cluster
    }

    /// The time and dice.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.node.env
    }

    /// The keys of the cluster.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.node.keys
    }

    /// Who is there.
    #[must_use]
    pub fn members(&self) -> Members {
        Members::new(Arc::clone(&self.node))
    }

    /// Who leads an election, from now on.
    #[must_use]
    pub fn observe(&self, election: &Name) -> Observation {
        Observation::new(Arc::clone(&self.node), election.clone())
    }

    /// What its leader has published in its term.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub async fn payload(&self, election: &Name) -> Result<Option<Bytes>, StoreError> {
        Ok(observe::read(&self.node, election).await?.0.payload)
    }

    /// Is woken when an office changes hands, or a session ends that may hold one.
    #[must_use]
    pub fn watch_elections(&self) -> [Watch; 2] {
        [self.node.keys.elections(), self.node.keys.sessions()].map(|range| self.node.store.watch(range))
    }

    /// All elections that ever had a leader, in the order of their names, behind `after`, up to `limit`.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub async fn elections(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Seen>, StoreError> {
        let keys = &self.node.keys;
        let all = keys.elections();
        let mut range = after.map_or_else(|| all.clone(), |after| all.after(&keys.election(after)));
        let mut offices: Vec<Item> = Vec::new();
        while offices.len() < limit {
            let most = (limit - offices.len()).min(self.node.store.limits().page_items);
            let page = self.node.store.scan(&range, most).await?;
            offices.extend(page.items);
            match offices.last() {
                Some(last) if page.more => range = range.after(&last.key),
                _ => break,
            }
        }
        let offices = offices.iter().map(|item| {
            Ok((Keys::name_of(&item.key)?, item.version, Office::decode(&item.key, &item.value)?))
        });
        let offices = offices.collect::<Result<Vec<_>, StoreError>>()?;
        let sessions =
            self.sessions(offices.iter().filter_map(|(_, _, office)| office.holder.as_ref())).await?;
        let waiting = self.waiting_by_election(&offices).await?;
        let seen = offices.into_iter().map(|(name, version, office)| {
            let waiting = waiting.get(&name).copied().unwrap_or(0);
            see(name, version, office, &sessions, waiting)
        });
        Ok(seen.collect())
    }

    /// One election, and who waits for it, the first first; `None` if it never had a leader and nobody waits.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub async fn election(&self, name: &Name) -> Result<Option<(Seen, Vec<Waiting>)>, StoreError> {
        let keys = &self.node.keys;
        let office_key = keys.election(name);
        let candidates = self.node.scan(&keys.candidates(name)).await?;
        let candidates = candidates.iter().map(|item| {
            let Candidate { node, session, .. } = Candidate::decode(&item.key, &item.value)?;
            Ok(Waiting { node, session, priority: Keys::place_of(&item.key)?.priority })
        });
        let candidates = candidates.collect::<Result<Vec<_>, StoreError>>()?;
        let Some(found) = self.node.store.get(&office_key).await? else { return Ok(None) };
        let office = Office::decode(&office_key, &found.value)?;
        let sessions = self.sessions(office.holder.iter()).await?;
        let seen = see(name.clone(), found.version, office, &sessions, candidates.len());
        Ok(Some((seen, candidates)))
    }

    /// Takes an office from whoever holds it; see [`Election::depose`](crate::Election::depose).
    ///
    /// # Errors
    /// As there.
    pub async fn depose(&self, election: &Name) -> Result<Option<Holder>, ClusterError> {
        depose(&self.node, election).await
    }

    /// Asks a leader to give its office up: to a node that waits for it, or to whoever waits first. Returns whom it has asked, and in which term; `None` if
    /// nobody leads. Singletons, participants and `tenure run` do as they are asked; other leaders if they [listen](crate::Election::asked).
    ///
    /// # Errors
    /// Errors of the store. It may be asked again.
    pub async fn ask(
        &self,
        election: &Name,
        to: Option<Name>,
    ) -> Result<Option<(Holder, Term)>, ClusterError> {
        ask::ask(&self.node, election, to).await
    }

    /// How long the sessions of these holders live, and when they were renewed last. Many are read by one scan, few by their keys.
    async fn sessions(&self, holders: impl Iterator<Item = &Holder>) -> Result<Sessions, StoreError> {
        /// Two questions for each are within what every store takes (`Limits::PORTABLE`).
        const FEW: usize = 32;
        let keys = &self.node.keys;
        let wanted: Vec<SessionId> = holders.map(|holder| holder.session).collect();
        let (mut identities, mut beats) = (Vec::new(), Vec::new());
        if wanted.len() > FEW {
            identities = self.node.scan(&keys.sessions()).await?;
            beats = self.node.scan(&keys.all_beats()).await?;
        } else if !wanted.is_empty() {
            let both = wanted.iter().flat_map(|session| [keys.session(*session), keys.beat(*session)]);
            let both: Vec<Key> = both.collect();
            let found = self.node.store.read(both.iter().cloned().map(Read::Key).collect()).await?;
            for (index, key) in both.into_iter().enumerate() {
                if let Some(found) = found.key(index) {
                    let item = Item { key, version: found.version, value: found.value.clone() };
                    if index % 2 == 0 { identities.push(item) } else { beats.push(item) }
                }
            }
        }
        let ttls = identities
            .iter()
            .map(|item| Ok((Keys::session_of(&item.key)?, Identity::decode(&item.key, &item.value)?.ttl)));
        let ttls = ttls.collect::<Result<BTreeMap<_, _>, StoreError>>()?;
        let mut sessions = Sessions::new();
        for item in &beats {
            let session = Keys::session_of(&item.key)?;
            if let Some(ttl) = ttls.get(&session) {
                sessions.insert(session, (*ttl, Beat::decode(&item.key, &item.value)?.at));
            }
        }
        Ok(sessions)
    }

    /// How many wait for each of these.
    async fn waiting_by_election<T>(
        &self,
        offices: &[(Name, Version, T)],
    ) -> Result<BTreeMap<Name, usize>, StoreError> {
        let (Some((first, ..)), Some((last, ..))) = (offices.first(), offices.last()) else {
            return Ok(BTreeMap::new());
        };
        let keys = &self.node.keys;
        let (first, last) = (keys.candidates(first), keys.candidates(last));
        let end = last.end().unwrap_or_else(|| last.start().clone());
        let between = Range::Between { start: first.start().clone(), end };
        let mut waiting = BTreeMap::new();
        for item in self.node.scan(&between).await? {
            *waiting.entry(Keys::awaited_by(&item.key)?).or_default() += 1;
        }
        Ok(waiting)
    }
}

/// An office whose holder has no session is vacant.
fn see(name: Name, version: Version, office: Office, sessions: &Sessions, waiting: usize) -> Seen {
    let Office { term, holder, history } = office;
    let alive = holder.as_ref().and_then(|holder| sessions.get(&holder.session)).copied();
    let (leader, ended) = if alive.is_some() { (holder, None) } else { (None, holder) };
    Seen {
        name,
        term: Term(term),
        leader,
        ended,
        ttl: alive.map(|(ttl, _)| ttl),
        last_seen: alive.map(|(_, at)| at),
        waiting,
        version,
        history,
    }
}
