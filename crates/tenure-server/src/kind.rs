//! [`Kind`]: all servers of one kind, on a node that serves them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_cluster::Ground;
use tenure_store::{Check, Commit, CommitError, Conflict, Name, Store as _};
use tokio::sync::Notify;

use crate::{
    Server,
    births::Births,
    consuming::Consuming,
    courier::{Courier, Told},
    desk::{Desk, DeskRef},
    flaws::Flaws,
    keys::{ServerKeys, shard_of},
    mailroom::Mailroom,
    servers::Servers,
    watchdog::Watchdog,
};

/// Between two rounds of the janitor.
const ROUND: Duration = Duration::from_secs(1);

/// After so many rounds without use, a desk goes.
const ROUNDS_IDLE: u64 = 60;

/// How many servers are marked as without work in one commit: four operations each.
const CLEANED_MAX: usize = 20;

/// All servers of a kind.
pub(crate) struct Kind<S: Server> {
    pub(crate) server: S,
    pub(crate) name: Name,
    pub(crate) ground: Ground,
    pub(crate) room: Arc<Mailroom>,
    pub(crate) courier: Courier,
    pub(crate) told: Told,
    pub(crate) births: Arc<Births>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) flaws: Flaws,
    desks: Mutex<BTreeMap<Name, DeskRef<S>>>,
    /// Servers that were seen without work, though they are marked as having some.
    idle: Mutex<BTreeSet<Name>>,
    /// Counts rounds of the janitor.
    round: AtomicU64,
    /// Told when the janitor has something to do.
    used: Notify,
    /// Which shards this node looks after, as bits.
    own: AtomicU64,
}

impl<S: Server> Kind<S> {
    pub(crate) fn new(server: S, name: Name, servers: &Servers) -> Self {
        Self {
            server,
            name,
            ground: servers.ground.clone(),
            room: Arc::clone(&servers.room),
            courier: servers.courier.clone(),
            told: Arc::clone(&servers.told),
            births: Arc::clone(&servers.births),
            watchdog: Arc::clone(&servers.watchdog),
            consuming: Arc::clone(&servers.consuming),
            flaws: servers.flaws,
            desks: Mutex::default(),
            idle: Mutex::default(),
            round: AtomicU64::new(0),
            used: Notify::new(),
            own: AtomicU64::new(0),
        }
    }

    /// The desk of a server.
    pub(crate) fn desk(self: &Arc<Self>, id: &Name) -> DeskRef<S> {
        let mut desks = self.desks.lock();
        if let Some(desk) = desks.get(id)
            && !desk.requests.is_closed()
        {
            desk.shared.used.store(self.round.load(Ordering::Relaxed), Ordering::Relaxed);
            return desk.clone();
        }
        let desk = Desk::start(self, id.clone());
        desk.shared.used.store(self.round.load(Ordering::Relaxed), Ordering::Relaxed);
        desks.insert(id.clone(), desk.clone());
        drop(desks);
        self.used.notify_one();
        desk
    }

    /// Lets all desks go when they are done.
    pub(crate) fn close(&self) {
        self.desks.lock().clear();
    }

    /// There may be something for a server of a shard of ours.
    pub(crate) fn poke(self: &Arc<Self>, id: &Name) {
        if self.owns(shard_of(id)) {
            self.desk(id).poke();
        }
    }

    fn owns(&self, shard: u64) -> bool {
        self.own.load(Ordering::SeqCst) >> shard & 1 == 1
    }

    pub(crate) fn set_own(&self, shards: &BTreeSet<u64>) {
        let bits = shards.iter().fold(0, |bits, shard| bits | 1 << shard);
        self.own.store(bits, Ordering::SeqCst);
    }

    /// A server was seen without work.
    pub(crate) fn report_idle(&self, id: &Name) {
        self.idle.lock().insert(id.clone());
        self.used.notify_one();
    }

    /// Lets desks go that nobody uses, and removes marks of work that is done. Runs until its task is ended.
    pub(crate) async fn keep_tidy(self: Arc<Self>) {
        loop {
            if self.desks.lock().is_empty() && self.idle.lock().is_empty() {
                self.used.notified().await;
            }
            self.ground.env().sleep(ROUND).await;
            self.round.fetch_add(1, Ordering::Relaxed);
            self.evict();
            self.revive();
            if let Err(error) = self.clean().await {
                tracing::debug!(kind = S::KIND, %error, "marks of work that is done could not be removed: it is tried again");
            }
        }
    }

    /// Starts desks again that ended with something in hand: no mistake of ours should keep a server locked.
    fn revive(self: &Arc<Self>) {
        let ended: Vec<Name> = {
            let desks = self.desks.lock();
            let is_ended =
                |desk: &DeskRef<S>| desk.requests.is_closed() && desk.shared.busy.load(Ordering::SeqCst);
            desks.iter().filter(|(_, desk)| is_ended(desk)).map(|(id, _)| id.clone()).collect()
        };
        for id in ended {
            tracing::error!(kind = S::KIND, server = %id, "the task of a server has ended: it is started again");
            self.desk(&id).poke();
        }
    }

    fn evict(&self) {
        let round = self.round.load(Ordering::Relaxed);
        let mut desks = self.desks.lock();
        let is_idle = |desk: &DeskRef<S>| !desk.shared.busy.load(Ordering::SeqCst);
        desks.retain(|_, desk| {
            !is_idle(desk) || desk.shared.used.load(Ordering::Relaxed) + ROUNDS_IDLE > round
        });
        let surplus = desks.len().saturating_sub(S::POLICY.cached_max);
        if surplus > 0 {
            let mut idle: Vec<(u64, Name)> = desks
                .iter()
                .filter(|(_, desk)| is_idle(desk))
                .map(|(id, desk)| (desk.shared.used.load(Ordering::Relaxed), id.clone()))
                .collect();
            idle.sort_unstable();
            for (_, id) in idle.into_iter().take(surplus) {
                desks.remove(&id);
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "a gauge is approximate")]
        metrics::gauge!("tenure_server_cached", "kind" => S::KIND).set(desks.len() as f64);
    }

    /// Removes the marks of servers that have no work, if they still have none.
    async fn clean(&self) -> Result<(), CommitError> {
        let mut some: Vec<ServerKeys> = {
            let mut idle = self.idle.lock();
            std::mem::take(&mut *idle)
                .into_iter()
                .map(|id| ServerKeys::new(self.ground.keys(), &self.name, &id))
                .collect()
        };
        while !some.is_empty() {
            let rest = some.split_off(some.len().min(CLEANED_MAX));
            let mut batch = std::mem::replace(&mut some, rest);
            while !batch.is_empty() {
                let commit = batch.iter().fold(Commit::new(), |commit, keys| {
                    let lists =
                        [&keys.queue, &keys.urgent, &keys.effects].map(|list| Check::Empty(list.clone()));
                    lists.into_iter().fold(commit, Commit::check).delete(keys.work.clone())
                });
                match self.ground.store().commit(commit).await {
                    Ok(_) => batch.clear(),
                    Err(CommitError::Conflict(Conflict::Check { key, .. })) => {
                        // That one has work again.
                        batch.retain(|keys| ![&keys.queue, &keys.urgent, &keys.effects].contains(&&key));
                    }
                    Err(CommitError::Conflict(_)) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
