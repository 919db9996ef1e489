//! [`Serve`]: durable servers on a node of a cluster.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_cluster::{Cause, Cluster, Ground};
use tenure_store::{
    Check, Commit, CommitError, Conflict, Name, Range, Store as _, StoreError, StoreExt as _,
};
use tokio::task::JoinHandle;

use crate::{
    Message, ReplyTo, Server, ServerError, ServerRef,
    births::Births,
    consumer::Consumer,
    consuming::Consuming,
    context::Timer,
    courier::{Courier, Told},
    error::of_commit,
    farewell::tell,
    flaws::Flaws,
    keys::{KindKeys, id_of},
    kind::Kind,
    mailroom::{Mailroom, ended},
    once::Late,
    parcel::pack,
    reply::Outcome,
    watchdog::Watchdog,
};

/// Durable servers, for whoever takes part in a cluster.
pub trait Serve {
    /// Handles messages of every server of this kind, together with all other nodes that do. Lasts until the node leaves, or the result is
    /// [stopped](Serving::stop). To serve a kind that is served already changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when [`Server::KIND`] is no [`Name`].
    fn serve_with<S: Server>(&self, server: S) -> Result<Serving, StoreError>;

    /// The same, with a server that needs nothing to be made.
    ///
    /// # Errors
    /// As [`Serve::serve_with`].
    fn serve<S: Server + Default>(&self) -> Result<Serving, StoreError> {
        self.serve_with(S::default())
    }

    /// The server of this name. It costs nothing to have one, and no node needs to serve it yet.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is no [`Name`].
    fn server<S: Server>(&self, id: &str) -> Result<ServerRef<S>, StoreError>;

    /// The names of servers of a kind, in order, behind `after`.
    ///
    /// # Errors
    /// Errors of the store.
    fn servers<S: Server>(
        &self,
        after: Option<&Name>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Name>, ServerError>> + Send;

    /// Answers a call of before, from wherever this is. Whoever has given up waiting hears nothing.
    ///
    /// # Errors
    /// [`ServerError::Invalid`] when it can't be stored; errors of the store.
    fn reply<R: Message>(
        &self,
        to: &ReplyTo<R>,
        reply: &R,
    ) -> impl Future<Output = Result<(), ServerError>> + Send;

    /// Takes a delayed message back. Returns whether it was not due yet.
    ///
    /// # Errors
    /// Errors of the store.
    fn cancel(&self, timer: &Timer) -> impl Future<Output = Result<bool, ServerError>> + Send;
}

/// What a node has for its servers, once.
pub(crate) struct Servers {
    pub(crate) ground: Ground,
    pub(crate) room: Arc<Mailroom>,
    pub(crate) courier: Courier,
    pub(crate) births: Arc<Births>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) told: Told,
    served: Arc<Mutex<BTreeMap<Name, Served>>>,
    tasks: Vec<JoinHandle<()>>,
    pub(crate) flaws: Flaws,
}

/// A kind that is served.
struct Served {
    /// A `Kind<S>`.
    kind: Arc<dyn Any + Send + Sync>,
    poke: Box<dyn Fn(&Name) + Send + Sync>,
    /// Lets all desks go when they are done.
    close: Box<dyn Fn() + Send + Sync>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        (self.close)();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.served.lock().clear();
    }
}

impl Servers {
    pub(crate) fn of(cluster: &Cluster) -> Arc<Self> {
        Self::with(cluster, Flaws::NONE)
    }

    pub(crate) fn with(cluster: &Cluster, flaws: Flaws) -> Arc<Self> {
        cluster.extension(|ground| Self::new(ground, flaws))
    }

    fn new(ground: Ground, flaws: Flaws) -> Self {
        let room = Arc::new(Mailroom::new(ground.clone()));
        let served: Arc<Mutex<BTreeMap<Name, Served>>> = Arc::default();
        let weak = Arc::downgrade(&served);
        let told: Told = Arc::new(move |kind: &Name, id: &Name| {
            if let Some(served) = weak.upgrade()
                && let Some(served) = served.lock().get(kind)
            {
                (served.poke)(id);
            }
        });
        let (courier, mut tasks) = Courier::start(&ground, &room, &told, flaws);
        tasks.push(ground.env().spawn(Arc::clone(&room).run()));
        tasks.push(ground.env().spawn(Arc::clone(&room).tidy()));
        tasks.push(ground.env().spawn(stop_with(ground.clone(), Arc::downgrade(&served))));
        let births = Arc::new(Births::new(ground.clone()));
        let watchdog = Arc::new(Watchdog::new(ground.env()));
        let consuming = Arc::new(Consuming::new(&ground));
        Self { ground, room, courier, births, watchdog, consuming, told, served, tasks, flaws }
    }

    /// Whether the node still takes part.
    pub(crate) fn admit(&self) -> Result<(), ServerError> {
        match self.ground.session().ended() {
            Some(Cause::Left) => Err(ServerError::Left),
            _ => Ok(()),
        }
    }

    /// The kind of `S`, if it is served here.
    pub(crate) fn kind<S: Server>(&self, name: &Name) -> Option<Arc<Kind<S>>> {
        let kind = Arc::clone(&self.served.lock().get(name)?.kind);
        kind.downcast().ok()
    }

    fn serve<S: Server>(self: &Arc<Self>, server: S) -> Result<Serving, StoreError> {
        let name: Name = S::KIND.parse()?;
        let mut served = self.served.lock();
        served.entry(name.clone()).or_insert_with(|| {
            let kind = Arc::new(Kind::new(server, name.clone(), self));
            let env = self.ground.env();
            let tasks = vec![
                env.spawn(Consumer::new(Arc::clone(&kind)).run()),
                env.spawn(Arc::clone(&kind).keep_tidy()),
            ];
            let (poked, closed) = (Arc::clone(&kind), Arc::clone(&kind));
            let poke = Box::new(move |id: &Name| poked.poke(id));
            Served { kind, poke, close: Box::new(move || closed.close()), tasks }
        });
        drop(served);
        Ok(Serving { servers: Arc::downgrade(self), kind: name })
    }
}

/// Stops serving when the node has left.
async fn stop_with(ground: Ground, served: Weak<Mutex<BTreeMap<Name, Served>>>) {
    let mut sessions = ground.sessions();
    loop {
        let session = sessions.borrow_and_update().clone();
        ended(&session).await;
        if session.ended() == Some(Cause::Left) {
            break;
        }
        if sessions.changed().await.is_err() {
            break;
        }
    }
    if let Some(served) = served.upgrade() {
        let served = std::mem::take(&mut *served.lock());
        drop(served);
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("served", &self.served.lock().keys()).finish_non_exhaustive()
    }
}

/// From now on, the servers of this node make these mistakes. To be called before anything else is asked of them.
#[cfg(feature = "flaws")]
pub fn plant(cluster: &Cluster, flaws: Flaws) {
    Servers::with(cluster, flaws);
}

/// A kind that this node serves. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Serving {
    servers: Weak<Servers>,
    kind: Name,
}

impl Serving {
    /// Takes no more messages of this kind on this node, and lets other nodes know. What is being done is finished.
    ///
    /// # Errors
    /// Errors of the store: then others learn of it when this node leaves.
    pub async fn stop(self) -> Result<(), ServerError> {
        let Some(servers) = self.servers.upgrade() else { return Ok(()) };
        drop(servers.served.lock().remove(&self.kind));
        let keys = KindKeys::new(servers.ground.keys(), &self.kind);
        let news = Bytes::copy_from_slice(&servers.ground.env().random_u64().to_be_bytes());
        let gone =
            Commit::new().delete(keys.consumer(servers.ground.session().id())).set(keys.consumers(), news);
        Ok(servers.consuming.say(gone).await?)
    }
}

impl Serve for Cluster {
    fn serve_with<S: Server>(&self, server: S) -> Result<Serving, StoreError> {
        Servers::of(self).serve(server)
    }

    fn server<S: Server>(&self, id: &str) -> Result<ServerRef<S>, StoreError> {
        ServerRef::new(Servers::of(self), S::KIND.parse()?, id.parse()?)
    }

    async fn servers<S: Server>(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, ServerError> {
        let servers = Servers::of(self);
        let (keys, store) = (servers.ground.keys(), servers.ground.store());
        let kind: Name = S::KIND.parse()?;
        let all = KindKeys::new(keys, &kind).heads();
        let range: Range = match after {
            Some(after) => all.after(&crate::keys::ServerKeys::new(keys, &kind, after).head),
            None => all,
        };
        let page = store.scan(&range, limit.clamp(1, store.limits().page_items)).await?;
        Ok(page.items.iter().map(|item| id_of(&item.key)).collect::<Result<_, _>>()?)
    }

    async fn reply<R: Message>(&self, to: &ReplyTo<R>, reply: &R) -> Result<(), ServerError> {
        let servers = Servers::of(self);
        let (keys, store) = (servers.ground.keys(), servers.ground.store());
        let (session, body) = (to.address.session(), pack(reply)?);
        let mut kept = match to.place.key {
            Some(_) => Some(Late::new(keys, &to.place, &body, store.limits().value_bytes)?),
            None => None,
        };
        let answers = [(to.address.slot, Outcome::Reply(body))];
        let mut heard = Some(tell(
            Commit::new().check(Check::Present(keys.session(session))).delete(to.owed(keys)?),
            &servers.ground,
            session,
            &answers,
        ));
        let mut pauses = servers.ground.retry().start(servers.ground.env());
        while heard.is_some() || kept.is_some() {
            let mut commit = heard.clone().unwrap_or_default();
            commit.checks.extend(kept.iter().map(|kept| kept.check.clone()));
            commit.writes.extend(kept.iter().flat_map(|kept| kept.writes.iter().cloned()));
            // It is the same however often it is made.
            match store.commit(commit).await {
                Ok(_) => return Ok(()),
                // The caller has gone, or an answer is there, or none is kept any more.
                Err(CommitError::Conflict(Conflict::Check { key, .. })) => {
                    match kept.as_ref().is_some_and(|kept| kept.has(&key)) {
                        true => kept = None,
                        false => heard = None,
                    }
                }
                Err(error) => {
                    let error = of_commit(&error);
                    let passes = match &error {
                        ServerError::Store(error) => error.is_transient(),
                        error => matches!(error, ServerError::OutcomeUnknown(_)),
                    };
                    if !passes || !pauses.pause().await {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    async fn cancel(&self, timer: &Timer) -> Result<bool, ServerError> {
        let servers = Servers::of(self);
        let (keys, store) = (timer.keys(servers.ground.keys())?, servers.ground.store());
        let place = keys.timer(timer.timer, timer.at_ms);
        let commit = Commit::new()
            .check(Check::Present(place.clone()))
            .delete(place)
            .delete(keys.due(timer.at_ms, timer.timer));
        match store.commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Conflict(Conflict::Check { .. })) => Ok(false),
            Err(error) => Err(of_commit(&error)),
        }
    }
}
