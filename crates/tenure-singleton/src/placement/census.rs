//! [`Census`]: what all live nodes offer, run and were told to run. Only what has changed is read again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use tenure_cluster::{Ground, Member, MemberChanges, MemberState, SessionId};
use tenure_store::{Name, Range, StoreError};
use tokio::{sync::Notify, task::JoinHandle};

use super::{
    book::Book,
    capacity_of,
    record::{Offer, Post, Run, prefix},
    store,
};

/// All live nodes.
#[derive(Debug)]
pub(crate) struct Census {
    ground: Ground,
    /// `None` for a single look.
    changes: Option<MemberChanges>,
    pub(crate) nodes: BTreeMap<SessionId, Seen>,
    bell: Arc<Bell>,
}

/// What is known of one node.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) node: Name,
    pub(crate) capacity: u64,
    /// Whether it renews its session in time.
    pub(crate) ready: bool,
    pub(crate) offers: Book<Offer>,
    pub(crate) runs: Book<Run>,
    pub(crate) posts: Book<Post>,
    /// What must be read before it is relied on.
    stale: BTreeSet<Part>,
    _watchers: Vec<Watcher>,
}

/// A part of what is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Offers,
    Runs,
    Posts,
}

/// Which parts have changed, of which sessions.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<BTreeSet<(SessionId, Part)>>,
    rings: Notify,
}

/// A task that is ended with this.
#[derive(Debug)]
struct Watcher(JoinHandle<()>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Seen {
    fn new(ground: &Ground, member: &Member, watchers: Vec<Watcher>) -> Self {
        let (keys, session) = (ground.keys(), member.session);
        Self {
            node: member.node.clone(),
            // Its own node has refused to spread anything by a capacity that is none.
            capacity: capacity_of(&member.labels).unwrap_or(super::UNIT),
            ready: member.state == MemberState::Live,
            offers: Book::new(prefix::<Offer>(keys, session)),
            runs: Book::new(prefix::<Run>(keys, session)),
            posts: Book::new(prefix::<Post>(keys, session)),
            stale: [Part::Offers, Part::Runs, Part::Posts].into(),
            _watchers: watchers,
        }
    }
}

impl Census {
    /// A census that is kept up to date; nothing is read of any node yet.
    pub(crate) async fn open(ground: &Ground) -> Result<Self, StoreError> {
        let changes = ground.members().changes().await?;
        let (ground, bell) = (ground.clone(), Arc::default());
        let mut census = Self { ground, changes: Some(changes), nodes: BTreeMap::new(), bell };
        census.meet();
        Ok(census)
    }

    /// A census of this moment.
    pub(crate) async fn glance(ground: &Ground) -> Result<Self, StoreError> {
        let members = ground.members().list().await?;
        let here = members.iter().filter(|listed| listed.member.is_here());
        let nodes = here.map(|listed| (listed.member.session, Seen::new(ground, &listed.member, Vec::new())));
        let (nodes, ground) = (nodes.collect(), ground.clone());
        let mut census = Self { ground, changes: None, nodes, bell: Arc::default() };
        census.read().await?;
        Ok(census)
    }

    /// Takes in who is there.
    fn meet(&mut self) {
        let Some(changes) = &self.changes else { return };
        let here = || changes.members().values().filter(|member| member.is_here());
        let sessions: BTreeSet<SessionId> = here().map(|member| member.session).collect();
        self.nodes.retain(|session, _| sessions.contains(session));
        for member in here() {
            if let Some(seen) = self.nodes.get_mut(&member.session) {
                seen.ready = member.state == MemberState::Live;
                continue;
            }
            let watchers = vec![
                self.watch(member.session, Part::Offers, prefix::<Offer>),
                self.watch(member.session, Part::Runs, prefix::<Run>),
            ];
            self.nodes.insert(member.session, Seen::new(&self.ground, member, watchers));
        }
    }

    fn watch(
        &self,
        session: SessionId,
        part: Part,
        prefix: fn(&tenure_cluster::Keys, SessionId) -> tenure_store::Tuple,
    ) -> Watcher {
        let range: Range = prefix(self.ground.keys(), session).range();
        let (mut watch, bell) = (self.ground.store().watch(range), Arc::clone(&self.bell));
        Watcher(self.ground.env().spawn(async move {
            loop {
                watch.changed().await;
                bell.rung.lock().insert((session, part));
                bell.rings.notify_one();
            }
        }))
    }

    /// Returns when something has changed.
    ///
    /// # Errors
    /// When members can't be followed any more.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn changed(&mut self) -> Result<(), StoreError> {
        let Some(changes) = &mut self.changes else { return std::future::pending().await };
        tokio::select! {
            biased;
            () = self.bell.rings.notified() => return Ok(()),
            change = changes.next() => drop(change?),
        }
        self.meet();
        Ok(())
    }

    /// What was told to nodes may be something else than is known here.
    pub(crate) fn doubt_posts(&mut self) {
        self.nodes.values_mut().for_each(|seen| {
            seen.stale.insert(Part::Posts);
        });
    }

    /// Everything may be something else than is known here.
    pub(crate) fn doubt_all(&mut self) {
        self.nodes.values_mut().for_each(|seen| seen.stale.extend([Part::Offers, Part::Runs, Part::Posts]));
    }

    /// Reads what has changed.
    pub(crate) async fn read(&mut self) -> Result<(), StoreError> {
        for (session, part) in std::mem::take(&mut *self.bell.rung.lock()) {
            if let Some(seen) = self.nodes.get_mut(&session) {
                seen.stale.insert(part);
            }
        }
        // In this order: who runs something is at least as new as what it was told, what it offers as what it runs.
        let stale = |part: Part| move |seen: &&mut Seen| seen.stale.contains(&part);
        let posts = self.nodes.values_mut().filter(stale(Part::Posts)).map(|seen| &mut seen.posts).collect();
        read(&self.ground, posts).await?;
        let runs = self.nodes.values_mut().filter(stale(Part::Runs)).map(|seen| &mut seen.runs);
        read(&self.ground, runs.collect()).await?;
        let offers = self.nodes.values_mut().filter(stale(Part::Offers)).map(|seen| &mut seen.offers);
        read(&self.ground, offers.collect()).await?;
        self.nodes.values_mut().for_each(|seen| seen.stale.clear());
        Ok(())
    }
}

async fn read<R: super::record::Record>(ground: &Ground, books: Vec<&mut Book<R>>) -> Result<(), StoreError> {
    if books.is_empty() { Ok(()) } else { store::read(ground, books).await }
}
