//! [`ServerRef`]: the way to a server, from any node.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_store::{Key, Name, Reason, Store as _, StoreError};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::{
    Server, ServerError, Timer,
    courier::{Sending, Way},
    desk::{Body, Item, Local, Memory, Request, Told},
    keys::ServerKeys,
    mailroom::Waiting,
    once::IDEMPOTENCY_KEY_BYTES_MAX,
    parcel::{Parcel, Sort, millis, pack, unpack},
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
    /// Makes a repeated call return the first answer, for as long as [`Policy::answers_kept`](crate::Policy) says: up
    /// to 128 bytes, for each call another. So it is with an answer that is given later, through
    /// [`Context::reply_to`](crate::Context::reply_to); a repeated call that comes before that is not carried out, and
    /// gets none.
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

/// The way to a server of kind `S`. Clones are the same.
pub struct ServerRef<S> {
    pub(crate) servers: Arc<Servers>,
    kind: Name,
    pub(crate) id: Name,
    pub(crate) keys: Arc<ServerKeys>,
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

    /// Where a field of the state is stored. It is written when the field has changed, and at no other time: so it can be watched, and checked by the commits of others, without
    /// asking the server. [`read_field`](crate::state::read_field) tells what it says.
    #[must_use]
    pub fn field_key(&self, field: &str) -> Key {
        self.keys.state().text(field).key()
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
        self.servers.admit()?;
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
        if let Some(kind) = self.servers.kind::<S>(&self.kind) {
            // Behind what this node has sent without waiting.
            let (told, answer) = oneshot::channel();
            let mut item = self.local(Body::Broken(String::new()), Local::Cast(Some(told)), false, None);
            (item.many, item.through_queue) = (Some(parcels), true);
            kind.desk(&self.id).requests.send(Request::Handle(item)).await.map_err(|_| ServerError::Left)?;
            return answer.await.map_err(|_| ServerError::Left)?;
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
        let timer = Timer::new::<S>(env, self.id.as_str(), env.unix_time().saturating_add(delay))?;
        let parcel = self.parcel(Sort::Cast, pack(&cast)?, None, None)?;
        crate::context::admit_delayed(parcel.weight(), self.servers.ground.store().limits().value_bytes)?;
        let way = Way::Later { at_ms: timer.at_ms, timer: timer.timer };
        self.servers.courier.send(self.sending(way, vec![parcel])).await?;
        Ok(timer)
    }

    /// Shows the state to `look`, as it is after all that was applied before. It costs one read, and takes the state from memory where it is known.
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

    async fn tell(&self, cast: S::Cast, urgent: bool) -> Result<(), ServerError> {
        self.servers.admit()?;
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
        self.servers.admit()?;
        let CallOptions { timeout, idempotency_key: key } = options;
        if let Some(key) = &key
            && (key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX)
        {
            return Err(ServerError::Invalid(Reason::new(format!(
                "idempotency key {key:?} has {} bytes, and must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX}: shorten it",
                key.len()
            ))));
        }
        let env = self.servers.ground.env();
        let (message, until_ms) = (env.random_u64(), millis(env.unix_time().saturating_add(timeout)));
        let span = tracing::debug_span!("server.call", kind = S::KIND, server = %self.id, message);
        let asking = self.ask_for(call, key, urgent, message, until_ms).instrument(span);
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
        until_ms: u64,
    ) -> Result<S::Reply, ServerError> {
        if let Some(kind) = self.servers.kind::<S>(&self.kind) {
            let (told, answer) = oneshot::channel();
            let mut item = self.local(Body::Call(Arc::new(call)), Local::Call(told), urgent, Some(message));
            (item.key, item.until_ms) = (key, until_ms);
            kind.desk(&self.id).requests.send(Request::Handle(item)).await.map_err(|_| ServerError::Left)?;
            return match answer.await.map_err(|_| ServerError::Left)?? {
                Told::Reply(reply) => Ok(reply),
                Told::Again(body) => self.answer(&body),
                Told::Later(waiting) => self.wait(waiting).await,
            };
        }
        let waiting = self.servers.room.wait();
        let mut parcel = self.parcel(Sort::Call, pack(&call)?, Some(&waiting), Some(message))?;
        (parcel.key, parcel.until_ms) = (key, until_ms);
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
            until_ms: 0,
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
            under_way: None,
        }
    }
}

/// The most bytes of a message, or of all that are sent at once: what fits one commit with what is added to it. On every store of ours that is 500 KiB at least.
#[must_use]
pub fn message_bytes_max(limits: &tenure_store::Limits) -> usize {
    (limits.commit_bytes / 2).saturating_sub(12 * 1024)
}
