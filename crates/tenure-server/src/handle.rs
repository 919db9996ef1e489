//! [`ServerRef`]: the way to a server, from any node.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_store::{Check, Commit, Name, Reason, Store as _, StoreError, StoreExt as _};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::{
    DeadLetter, Server, ServerError, Timer,
    courier::{Sending, Way},
    dead::DeadLetters,
    desk::{Body, Item, Local, Memory, Request, Told},
    error::of_commit,
    head::Head,
    keys::{SWEEP, ServerKeys, numbers_of},
    mailroom::Waiting,
    once::IDEMPOTENCY_KEY_BYTES_MAX,
    parcel::{Bundle, Parcel, Sort, millis, pack, unpack},
    reply::Outcome,
    servers::Servers,
};

/// How long a call waits for its answer if nothing else is said.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How a call is made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallOptions {
    /// How long to wait for the answer.
    pub timeout: Duration,
    /// Makes a repeated call return the first answer, for as long as [`Policy::answers_kept`](crate::Policy) says: up to 128 bytes, for each
    /// call another.
    pub idempotency_key: Option<String>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self { timeout: CALL_TIMEOUT, idempotency_key: None }
    }
}

impl CallOptions {
    /// Waits so long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Repeats are told by this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// How many messages were ever applied.
    pub applied: u64,
    /// How many messages wait, counted no further than a page.
    pub waiting: u64,
    /// How long the oldest of them waits, by the wall clock.
    pub oldest: Option<Duration>,
    /// Whether locked work is being done.
    pub is_locked: bool,
    /// Why it is stopped, if it is.
    pub stopped: Option<String>,
    /// How many dead letters there ever were.
    pub died: u64,
    /// The schema of its state.
    pub schema: u32,
}

/// The way to a server of kind `S`. Clones are the same.
pub struct ServerRef<S> {
    servers: Arc<Servers>,
    kind: Name,
    id: Name,
    keys: Arc<ServerKeys>,
    server: PhantomData<fn() -> S>,
}

impl<S> Clone for ServerRef<S> {
    fn clone(&self) -> Self {
        Self {
            servers: Arc::clone(&self.servers),
            kind: self.kind.clone(),
            id: self.id.clone(),
            keys: Arc::clone(&self.keys),
            server: PhantomData,
        }
    }
}

impl<S: Server> fmt::Debug for ServerRef<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerRef({}, {})", S::KIND, self.id)
    }
}

impl<S: Server> ServerRef<S> {
    pub(crate) fn new(servers: Arc<Servers>, kind: Name, id: Name) -> Result<Self, StoreError> {
        let keys = Arc::new(ServerKeys::new(servers.ground.keys(), &kind, &id));
        Ok(Self { servers, kind, id, keys, server: PhantomData })
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &Name {
        &self.id
    }

    /// Asks, and waits for the answer, up to five seconds.
    ///
    /// # Errors
    /// See [`ServerError`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer; what was sent is carried out all the same.
    pub async fn call(&self, call: S::Call) -> Result<S::Reply, ServerError> {
        self.call_with(call, CallOptions::default()).await
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// See [`ServerError`]. [`ServerError::Invalid`] when the idempotency key is empty or too long.
    ///
    /// # Cancel safety
    /// As [`ServerRef::call`].
    pub async fn call_with(&self, call: S::Call, options: CallOptions) -> Result<S::Reply, ServerError> {
        self.ask(call, options, false).await
    }

    /// Asks past the queue, though the server may be locked or stopped.
    ///
    /// # Errors
    /// See [`ServerError`].
    ///
    /// # Cancel safety
    /// As [`ServerRef::call`].
    pub async fn priority_call(&self, call: S::Call, options: CallOptions) -> Result<S::Reply, ServerError> {
        self.ask(call, options, true).await
    }

    /// Sends, and returns when it is durable.
    ///
    /// # Errors
    /// See [`ServerError`]. After [`ServerError::OutcomeUnknown`] it may have been sent.
    ///
    /// # Cancel safety
    /// Dropping the future may leave it sent or not.
    pub async fn cast(&self, cast: S::Cast) -> Result<(), ServerError> {
        self.tell(cast, false).await
    }

    /// Sends past the queue, though the server may be locked or stopped, and returns when it is durable.
    ///
    /// # Errors
    /// As [`ServerRef::cast`].
    ///
    /// # Cancel safety
    /// As [`ServerRef::cast`].
    pub async fn priority_cast(&self, cast: S::Cast) -> Result<(), ServerError> {
        self.tell(cast, true).await
    }

    /// Sends without waiting. What one task sends keeps its order. It is lost if the process ends before it is durable; if it can't be sent, that is logged and counted.
    ///
    /// # Errors
    /// [`ServerError::Full`] when too much waits to be sent from this node; [`ServerError::Invalid`] and [`ServerError::TooLarge`].
    pub fn cast_nowait(&self, cast: S::Cast) -> Result<(), ServerError> {
        if let Some(kind) = self.servers.kind::<S>(&self.kind) {
            let item = self.local(Body::Cast(Arc::new(cast)), Local::Cast(None), false, None);
            return kind.desk(&self.id).requests.try_send(Request::Handle(item)).map_err(|_| {
                ServerError::Full { server: self.id.clone(), limit: crate::desk::WAITING_MAX as u64 }
            });
        }
        let parcel = self.parcel(Sort::Cast, pack(&cast)?, None, None)?;
        self.servers.courier.send_soon(self.sending(Way::Queue, vec![parcel]))
    }

    /// Sends all of these, next to each other, or none; returns when they are durable.
    ///
    /// # Errors
    /// As [`ServerRef::cast`]; [`ServerError::TooLarge`] when they don't fit one commit together.
    ///
    /// # Cancel safety
    /// Dropping the future may leave all of them sent, or none.
    pub async fn cast_all(&self, casts: impl IntoIterator<Item = S::Cast>) -> Result<(), ServerError> {
        let parcels = casts.into_iter().map(|cast| self.parcel(Sort::Cast, pack(&cast)?, None, None));
        let parcels = parcels.collect::<Result<Vec<_>, _>>()?;
        self.admit(parcels.iter().map(Parcel::weight).sum())?;
        if parcels.is_empty() {
            return Ok(());
        }
        self.servers.courier.send(self.sending(Way::Queue, parcels)).await
    }

    /// Sends so much later; returns when that is durable. It can be [cancelled](crate::Serve::cancel) until then.
    ///
    /// # Errors
    /// As [`ServerRef::cast`].
    ///
    /// # Cancel safety
    /// As [`ServerRef::cast`].
    pub async fn cast_after(&self, delay: Duration, cast: S::Cast) -> Result<Timer, ServerError> {
        let env = self.servers.ground.env();
        let timer = Timer::new::<S>(env, self.id.as_str(), env.unix_time() + delay)?;
        let parcel = self.parcel(Sort::Cast, pack(&cast)?, None, None)?;
        crate::context::admit_delayed(parcel.weight(), self.servers.ground.store().limits().value_bytes)?;
        let way = Way::Later { at_ms: timer.at_ms, timer: timer.timer };
        self.servers.courier.send(self.sending(way, vec![parcel])).await?;
        Ok(timer)
    }

    /// Shows the state to `look`, as it is after all that was acknowledged before. It costs one read, and takes the state from memory where it is known.
    ///
    /// # Errors
    /// Errors of the store, and [`ServerError::Newer`].
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&S::State) -> T + Send + 'static,
    ) -> Result<T, ServerError> {
        match self.servers.kind::<S>(&self.kind) {
            Some(kind) => {
                let (told, answer) = oneshot::channel();
                let look = Box::new(move |state: Result<&S::State, ServerError>| {
                    // Whoever asked may have given up.
                    let _ = told.send(state.map(look));
                });
                let desk = kind.desk(&self.id);
                desk.requests.send(Request::Look(look)).await.map_err(|_| ServerError::Left)?;
                answer.await.map_err(|_| ServerError::Left)?
            }
            None => {
                let memory = Memory::<S>::load(&self.servers.ground, &self.id, &self.keys).await?;
                Ok(look(memory.state.get()))
            }
        }
    }

    /// What is known of it; `None` if there is no such server.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn status(&self) -> Result<Option<Status>, ServerError> {
        let ground = &self.servers.ground;
        let limit = ground.store().limits().page_items;
        let list = tenure_store::Read::List { list: self.keys.queue.clone(), after: None, limit };
        let found = ground.store().read(vec![tenure_store::Read::Key(self.keys.head.clone()), list]).await?;
        let head = found.key(0).map(|found| Head::decode(&self.keys.head, &found.value)).transpose()?;
        let entries = &found.list(1).items;
        if head.is_none() && entries.is_empty() {
            return Ok(None);
        }
        let head = head.unwrap_or_else(|| Head::new(S::SCHEMA));
        let (mut waiting, mut sent) = (0, None);
        for entry in entries {
            match Bundle::decode(&self.keys.queue, &entry.value)? {
                Bundle::Here(parcels) => {
                    waiting += parcels.len() as u64;
                    let skip = if sent.is_none() { usize::try_from(head.cursor).unwrap_or(0) } else { 0 };
                    sent = sent.or(parcels.get(skip).map(|parcel| parcel.sent_ms));
                }
                Bundle::InPieces { .. } => waiting += 1,
            }
        }
        let now = ground.env().unix_time();
        Ok(Some(Status {
            applied: head.applied,
            waiting: waiting - head.cursor.min(waiting),
            oldest: sent.map(|sent| now.saturating_sub(Duration::from_millis(sent))),
            is_locked: head.claim.is_some(),
            stopped: head.stopped,
            died: head.died,
            schema: head.schema,
        }))
    }

    /// The dead letters behind `after`, in the order in which they died.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn dead_letters(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, ServerError> {
        self.dead().list(after, limit).await
    }

    /// Puts a dead letter back into the queue, with all its attempts before it. Nobody waits for its answer any more. Returns whether there was such a letter.
    ///
    /// # Errors
    /// Errors of the store. After [`ServerError::OutcomeUnknown`], look whether it is still there.
    pub async fn replay(&self, number: u64) -> Result<bool, ServerError> {
        self.bury(number, true).await
    }

    /// Removes a dead letter. Returns whether there was such a letter.
    ///
    /// # Errors
    /// As [`ServerRef::replay`].
    pub async fn drop_dead_letter(&self, number: u64) -> Result<bool, ServerError> {
        self.bury(number, false).await
    }

    /// Takes the claim from whoever does locked work, if anybody does: its result is refused, and the work is done again. Returns whether there was a claim. Nobody needs
    /// this when a worker dies; it is for one that does not get on.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn unlock(&self) -> Result<bool, ServerError> {
        self.change(|head| match head.claim.take() {
            Some(claim) => {
                // Its own session would take it for its own: no session has this token's claim.
                head.claim = Some(crate::head::Claim { token: claim.token ^ 1, session: nobody() });
                true
            }
            None => false,
        })
        .await
    }

    /// Takes no more messages from the queue, until [`ServerRef::start`]. Returns whether it was not stopped.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn stop(&self, why: &str) -> Result<bool, ServerError> {
        self.change(|head| head.stopped.replace(why.to_owned()).is_none()).await
    }

    /// Takes messages again. Returns whether it was stopped.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn start(&self) -> Result<bool, ServerError> {
        self.change(|head| head.stopped.take().is_some()).await
    }

    /// Deletes everything that the server has; those who wait in its queue are told. A later message makes a new one. Returns whether there was anything.
    ///
    /// # Errors
    /// Errors of the store. It may be asked for again.
    pub async fn delete(&self) -> Result<bool, ServerError> {
        let (ground, store) = (&self.servers.ground, self.servers.ground.store());
        let mut pauses = ground.retry().start(ground.env());
        loop {
            let commit = self.deletion().await?;
            let Some(commit) = commit else { return Ok(false) };
            match store.commit(commit).await {
                Ok(_) => return Ok(true),
                Err(error) => {
                    let error = of_commit(&error);
                    let passes = !matches!(&error, ServerError::Store(error) if !error.is_transient());
                    if !passes || !pauses.pause().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The commit that deletes everything, and tells whoever waits.
    async fn deletion(&self) -> Result<Option<Commit>, ServerError> {
        let (ground, store) = (&self.servers.ground, self.servers.ground.store());
        let found = store.get(&self.keys.head).await?;
        let queued = store.entries(&self.keys.queue, 100.min(store.limits().page_items)).await?;
        let timers = crate::dead::scan(&**store, &self.keys.timers()).await?;
        if found.is_none() && queued.items.is_empty() && timers.is_empty() {
            return Ok(None);
        }
        let head = found.as_ref().map(|found| Head::decode(&self.keys.head, &found.value)).transpose()?;
        let check = match &found {
            Some(found) => Check::Version(self.keys.head.clone(), found.version),
            None => Check::Absent(self.keys.head.clone()),
        };
        let mut commit = self.keys.delete(Commit::new().check(check));
        for item in timers.iter().take(40) {
            let (timer, at) = numbers_of(&item.key)?;
            commit = commit.delete(self.keys.due(at, timer));
        }
        for at in head.iter().flat_map(|head| &head.sweeps) {
            commit = commit.delete(self.keys.due(*at, SWEEP));
        }
        let mut answers: std::collections::BTreeMap<_, Vec<(u64, Outcome)>> =
            std::collections::BTreeMap::new();
        for entry in &queued.items {
            if let Bundle::Here(parcels) = Bundle::decode(&self.keys.queue, &entry.value)? {
                for to in parcels.iter().filter_map(|parcel| parcel.to) {
                    answers.entry(to.session()).or_default().push((to.slot, Outcome::Deleted));
                }
            }
        }
        for (session, answers) in answers.into_iter().take(10) {
            // An answer to a session that has ended would stay: only those that are there get one.
            if store.get(&ground.keys().session(session)).await?.is_some() {
                commit = commit.check(Check::Present(ground.keys().session(session)));
                let mark = ground.env().random_u64();
                for (key, value) in
                    crate::reply::write(ground.keys(), session, mark, &answers, store.limits().value_bytes)
                {
                    commit = commit.set(key, value);
                }
            }
        }
        Ok(Some(commit))
    }

    /// Changes the head of a server that exists.
    async fn change(&self, change: impl Fn(&mut Head) -> bool) -> Result<bool, ServerError> {
        let (ground, store) = (&self.servers.ground, self.servers.ground.store());
        let mut pauses = ground.retry().start(ground.env());
        loop {
            let found = store.get(&self.keys.head).await?;
            let mut head = match &found {
                Some(found) => Head::decode(&self.keys.head, &found.value)?,
                None => return Ok(false),
            };
            let Some(found) = found.filter(|_| change(&mut head)) else { return Ok(false) };
            head.mark(ground.env().random_u64());
            let now = Bytes::copy_from_slice(&millis(ground.env().unix_time()).to_be_bytes());
            let commit = Commit::new()
                .check(Check::Version(self.keys.head.clone(), found.version))
                .set(self.keys.head.clone(), head.encode())
                .set(self.keys.work.clone(), now);
            match store.commit(commit).await {
                Ok(_) => return Ok(true),
                Err(error) => {
                    let error = of_commit(&error);
                    let passes = !matches!(&error, ServerError::Store(error) if !error.is_transient());
                    if !passes || !pauses.pause().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn bury(&self, number: u64, replay: bool) -> Result<bool, ServerError> {
        let env = self.servers.ground.env();
        self.dead().take(number, replay, env.unix_time(), env.random_u64()).await
    }

    fn dead(&self) -> DeadLetters<'_> {
        DeadLetters { store: &**self.servers.ground.store(), keys: &self.keys }
    }

    async fn tell(&self, cast: S::Cast, urgent: bool) -> Result<(), ServerError> {
        let message = self.servers.ground.env().random_u64();
        let span = tracing::debug_span!("server.cast", kind = S::KIND, server = %self.id, message);
        async {
            if let Some(kind) = self.servers.kind::<S>(&self.kind) {
                let (told, answer) = oneshot::channel();
                let item =
                    self.local(Body::Cast(Arc::new(cast)), Local::Cast(Some(told)), urgent, Some(message));
                kind.desk(&self.id)
                    .requests
                    .send(Request::Handle(item))
                    .await
                    .map_err(|_| ServerError::Left)?;
                return answer.await.map_err(|_| ServerError::Left)?;
            }
            let parcel = self.parcel(Sort::Cast, pack(&cast)?, None, Some(message))?;
            let way = if urgent { Way::Urgent } else { Way::Queue };
            self.servers.courier.send(self.sending(way, vec![parcel])).await
        }
        .instrument(span)
        .await
    }

    async fn ask(&self, call: S::Call, options: CallOptions, urgent: bool) -> Result<S::Reply, ServerError> {
        let CallOptions { timeout, idempotency_key: key } = options;
        if let Some(key) = &key
            && (key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX)
        {
            return Err(ServerError::Invalid(Reason::new(format!(
                "idempotency key {key:?} has {} bytes, and must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX}: shorten it",
                key.len()
            ))));
        }
        let message = self.servers.ground.env().random_u64();
        let span = tracing::debug_span!("server.call", kind = S::KIND, server = %self.id, message);
        let asking = self.ask_for(call, key, urgent, message).instrument(span);
        let env = self.servers.ground.env();
        let start = env.now();
        let answer = env.timeout(timeout, asking).await;
        metrics::histogram!("tenure_server_call_seconds", "kind" => S::KIND).record(env.now() - start);
        answer.map_err(|_| ServerError::Timeout { server: self.id.clone(), within: timeout })?
    }

    async fn ask_for(
        &self,
        call: S::Call,
        key: Option<String>,
        urgent: bool,
        message: u64,
    ) -> Result<S::Reply, ServerError> {
        if let Some(kind) = self.servers.kind::<S>(&self.kind) {
            let (told, answer) = oneshot::channel();
            let mut item = self.local(Body::Call(Arc::new(call)), Local::Call(told), urgent, Some(message));
            item.key = key;
            kind.desk(&self.id).requests.send(Request::Handle(item)).await.map_err(|_| ServerError::Left)?;
            return match answer.await.map_err(|_| ServerError::Left)?? {
                Told::Reply(reply) => Ok(reply),
                Told::Again(body) => self.answer(&body),
                Told::Later(waiting) => self.wait(waiting).await,
            };
        }
        let waiting = self.servers.room.wait();
        let mut parcel = self.parcel(Sort::Call, pack(&call)?, Some(&waiting), Some(message))?;
        parcel.key = key;
        let way = if urgent { Way::Urgent } else { Way::Queue };
        self.servers.courier.send(self.sending(way, vec![parcel])).await?;
        self.wait(waiting).await
    }

    /// Waits for an answer that comes through the store.
    async fn wait(&self, mut waiting: Waiting) -> Result<S::Reply, ServerError> {
        match waiting.outcome().await {
            Some(Outcome::Reply(body)) => self.answer(&body),
            Some(Outcome::Failed { attempts, error }) => {
                Err(ServerError::Failed { server: self.id.clone(), attempts, error })
            }
            Some(Outcome::Deleted) => Err(ServerError::Deleted(self.id.clone())),
            None => {
                let words = format!("the session of this node ended while it waited for server {}", self.id);
                Err(ServerError::OutcomeUnknown(Reason::new(words)))
            }
        }
    }

    fn answer(&self, body: &[u8]) -> Result<S::Reply, ServerError> {
        unpack(body).map_err(|failure| {
            ServerError::Invalid(Reason::new(format!(
                "the answer of server {} can't be read: {failure}",
                self.id
            )))
        })
    }

    fn local(&self, body: Body<S>, told: Local<S>, urgent: bool, message: Option<u64>) -> Item<S> {
        let env = self.servers.ground.env();
        let message = message.unwrap_or_else(|| env.random_u64());
        Item::local(message, body, told, urgent, None, millis(env.unix_time()))
    }

    fn parcel(
        &self,
        sort: Sort,
        body: Bytes,
        waiting: Option<&Waiting>,
        message: Option<u64>,
    ) -> Result<Parcel, ServerError> {
        let env = self.servers.ground.env();
        let parcel = Parcel {
            id: message.unwrap_or_else(|| env.random_u64()),
            sort,
            to: waiting.map(|waiting| waiting.address),
            key: None,
            sent_ms: millis(env.unix_time()),
            attempts: Vec::new(),
            locked: false,
            body,
        };
        self.admit(parcel.weight())?;
        Ok(parcel)
    }

    fn admit(&self, bytes: usize) -> Result<(), ServerError> {
        let most = message_bytes_max(&self.servers.ground.store().limits());
        if bytes <= most {
            return Ok(());
        }
        let words = format!(
            "a message to server {} has {bytes} bytes, the most is {most}: send less at once",
            self.id
        );
        Err(ServerError::TooLarge(Reason::new(words)))
    }

    fn sending(&self, way: Way, parcels: Vec<Parcel>) -> Sending {
        Sending {
            kind: self.kind.clone(),
            id: self.id.clone(),
            keys: Arc::clone(&self.keys),
            way,
            parcels,
            queue_max: S::POLICY.queue_max,
            done: None,
        }
    }
}

/// The most bytes of a message, or of all that are sent at once: what fits one commit with what is added to it. On every store of ours that is 500 KiB at least.
#[must_use]
pub fn message_bytes_max(limits: &tenure_store::Limits) -> usize {
    (limits.commit_bytes / 2).saturating_sub(12 * 1024)
}

/// A session that there never was.
fn nobody() -> tenure_cluster::SessionId {
    tenure_cluster::SessionId::from_bytes([0; tenure_cluster::SessionId::BYTES])
}
