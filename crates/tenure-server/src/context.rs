//! [`Context`]: what else a callback may want, beyond changing the state.

use std::{fmt, future::Future, marker::PhantomData, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_cluster::Keys;
use tenure_store::{Env, Key, Limits, Name, StoreError};

use crate::{
    EffectId, Message, Server, ServerError,
    effects::Wanted,
    keys::ServerKeys,
    message_bytes_max,
    once::Place,
    parcel::{Address, Parcel, Sort, millis, pack},
    reply::Outcome,
};

/// Something that runs after a commit.
pub(crate) type AfterCommit = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a callback can send.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) kind: Name,
    pub(crate) id: Name,
    pub(crate) keys: Arc<ServerKeys>,
    /// When, and as which timer; at once if `None`.
    pub(crate) later: Option<(u64, u64)>,
    pub(crate) parcel: Parcel,
}

/// All that the callback of one message asked for.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) replies: Vec<(Address, Outcome)>,
    /// What says that these are owed.
    pub(crate) paid: Vec<Key>,
    /// The same, to be kept under idempotency keys.
    pub(crate) late: Vec<(Place, Bytes)>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) cancelled: Vec<Timer>,
    pub(crate) effects: Vec<Wanted>,
    pub(crate) after_commit: Vec<AfterCommit>,
    pub(crate) lock: bool,
    pub(crate) stop: Option<String>,
    pub(crate) delete: bool,
}

impl fmt::Debug for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wishes").field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// Where the caller of a message can be answered.
pub(crate) enum Caller<'a> {
    /// Nobody waits.
    Nobody,
    /// It waits there.
    At(Address),
    /// It waits in this process, and gets an address when one is asked for.
    Here(&'a mut dyn FnMut() -> Address),
}

/// What a callback has besides the state. All that it asks for happens in the commit that stores the state, or after it; nothing, if that commit
/// does not happen.
pub struct Context<'a, S: Server> {
    pub(crate) env: &'a Env,
    pub(crate) keys: &'a Keys,
    pub(crate) id: &'a Name,
    pub(crate) now: Duration,
    pub(crate) attempt: usize,
    /// What the store takes.
    pub(crate) limits: Limits,
    pub(crate) message: u64,
    /// The idempotency key of the message.
    pub(crate) key: Option<&'a str>,
    /// Whether it may ask for locked work, and why not.
    pub(crate) lockable: Result<(), &'static str>,
    pub(crate) caller: Caller<'a>,
    pub(crate) wishes: Wishes,
    pub(crate) server: PhantomData<fn() -> S>,
}

impl<S: Server> Context<'_, S> {
    /// The name of the server.
    #[must_use]
    pub fn id(&self) -> &Name {
        self.id
    }

    /// What the wall clock of this node shows, since 1970. It may be wrong, and differs between nodes.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// How often this message has failed before.
    #[must_use]
    pub fn attempt(&self) -> usize {
        self.attempt
    }

    /// A number that tells this message in logs and spans, from its sender to its effects.
    #[must_use]
    pub fn message(&self) -> u64 {
        self.message
    }

    /// Where the answer to this call can be given later, once, from any node: durable, so it may be part of the state. Return `None` from the callback then. `None` if nobody waits for
    /// an answer.
    pub fn reply_to(&mut self) -> Option<ReplyTo<S::Reply>> {
        let address = match &mut self.caller {
            Caller::Nobody => return None,
            Caller::At(address) => *address,
            Caller::Here(address) => address(),
        };
        self.caller = Caller::At(address);
        let place = Place {
            kind: S::KIND.to_owned(),
            id: self.id.to_string(),
            key: self.key.map(str::to_owned),
            number: self.message,
        };
        Some(ReplyTo { address, place, reply: PhantomData })
    }

    /// Answers a call of before. Whoever has given up waiting hears nothing.
    ///
    /// # Errors
    /// [`ServerError::Invalid`] when it can't be stored.
    pub fn reply<R: Message>(&mut self, to: &ReplyTo<R>, reply: &R) -> Result<(), ServerError> {
        let body = pack(reply)?;
        self.wishes.paid.push(to.owed(self.keys)?);
        if to.place.key.is_some() {
            self.wishes.late.push((to.place.clone(), body.clone()));
        }
        self.wishes.replies.push((to.address, Outcome::Reply(body)));
        Ok(())
    }

    /// Sends to a server, maybe to this one. It is in its queue when this message is done.
    ///
    /// # Errors
    /// [`ServerError::Invalid`] when `id` is no [`Name`], or the message can't be stored; [`ServerError::TooLarge`] when
    /// it is longer than a [message](crate::message_bytes_max) may be.
    pub fn cast<T: Server>(&mut self, id: &str, cast: &T::Cast) -> Result<(), ServerError> {
        self.send::<T>(id, cast, None)
    }

    /// The same, so much later. It can be cancelled until then.
    ///
    /// # Errors
    /// As [`Context::cast`]; a delayed message may be no longer than one value of the store.
    pub fn cast_after<T: Server>(
        &mut self,
        id: &str,
        delay: Duration,
        cast: &T::Cast,
    ) -> Result<Timer, ServerError> {
        let timer = Timer::new::<T>(self.env, id, self.now.saturating_add(delay))?;
        self.send::<T>(id, cast, Some((timer.at_ms, timer.timer)))?;
        Ok(timer)
    }

    /// Takes a delayed message back. One that was due already is not affected.
    pub fn cancel(&mut self, timer: &Timer) {
        self.wishes.cancelled.push(timer.clone());
    }

    fn send<T: Server>(
        &mut self,
        id: &str,
        cast: &T::Cast,
        later: Option<(u64, u64)>,
    ) -> Result<(), ServerError> {
        let (kind, id): (Name, Name) = (T::KIND.parse()?, id.parse()?);
        let keys = Arc::new(ServerKeys::new(self.keys, &kind, &id));
        let parcel = Parcel {
            id: self.message,
            sort: Sort::Cast,
            to: None,
            key: None,
            sent_ms: millis(self.now),
            until_ms: 0,
            attempts: Vec::new(),
            locked: false,
            body: pack(cast)?,
        };
        match later {
            Some(_) => admit_delayed(parcel.weight(), self.limits.value_bytes)?,
            None => admit("a message", parcel.weight(), &self.limits)?,
        }
        self.wishes.sent.push(Sent { kind, id, keys, later, parcel });
        Ok(())
    }

    /// Records something to do to the world: [`Server::handle_effect`] is called with it until it succeeds.
    ///
    /// # Errors
    /// [`ServerError::Invalid`] when it can't be stored; [`ServerError::TooLarge`] when it is longer than a
    /// [message](crate::message_bytes_max) may be.
    pub fn effect(&mut self, effect: &S::Effect) -> Result<EffectId, ServerError> {
        let id = EffectId(self.env.random_u64(), self.env.random_u64());
        let body = pack(effect)?;
        admit("an effect", body.len(), &self.limits)?;
        self.wishes.effects.push(Wanted { id, message: self.message, body });
        Ok(id)
    }

    /// Runs this after the commit, on this node, if the process lives that long.
    pub fn after_commit(&mut self, run: impl Future<Output = ()> + Send + 'static) {
        self.wishes.after_commit.push(Box::pin(run));
    }

    /// Asks for long work: when what this callback did is committed, the server is locked, and [`Server::handle_locked`] is called with the message. Until it is done, other
    /// messages wait, but for priority ones.
    ///
    /// # Errors
    /// In a priority message and in a fold, which can't wait.
    pub fn lock(&mut self) -> Result<(), ServerError> {
        self.lockable.map_err(|why| ServerError::Invalid(why.into()))?;
        self.wishes.lock = true;
        Ok(())
    }

    /// Takes no more messages from the queue, until [`ServerRef::start`](crate::ServerRef::start). Priority messages are still handled.
    pub fn stop(&mut self, why: impl Into<String>) {
        self.wishes.stop = Some(why.into());
    }

    /// Deletes the server: its state, its queue, its timers, everything but effects that are recorded, which are still
    /// done. This message is still answered; those that wait are told.
    pub fn delete(&mut self) {
        self.wishes.delete = true;
    }
}

impl<S: Server> fmt::Debug for Context<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// Refuses a delayed message that does not fit one value: cancelling it must not leave pieces behind.
pub(crate) fn admit_delayed(bytes: usize, most: usize) -> Result<(), ServerError> {
    if bytes <= most {
        return Ok(());
    }
    let words =
        format!("a delayed message has {bytes} bytes, the most is {most}: send less, or send it at once");
    Err(ServerError::TooLarge(words.into()))
}

/// Refuses what is longer than a message may be: it would not fit a commit with what is added to it.
pub(crate) fn admit(what: &str, bytes: usize, limits: &Limits) -> Result<(), ServerError> {
    let most = message_bytes_max(limits);
    if bytes <= most {
        return Ok(());
    }
    Err(ServerError::TooLarge(
        format!("{what} has {bytes} bytes, the most is {most}: make it smaller").into(),
    ))
}

/// Where one call can be answered, from any node. It can be stored; an answer after the first is not heard.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ReplyTo<R> {
    pub(crate) address: Address,
    /// Of which call, and where the answer is kept, if it has an idempotency key.
    pub(crate) place: Place,
    #[serde(skip)]
    reply: PhantomData<fn(R)>,
}

impl<R> ReplyTo<R> {
    /// What says that this answer is owed.
    pub(crate) fn owed(&self, keys: &Keys) -> Result<Key, StoreError> {
        Ok(self.place.keys(keys)?.owed(self.address.session(), self.address.slot))
    }
}

impl<R> Clone for ReplyTo<R> {
    fn clone(&self) -> Self {
        Self { address: self.address, place: self.place.clone(), reply: PhantomData }
    }
}

impl<R> PartialEq for ReplyTo<R> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<R> fmt::Debug for ReplyTo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyTo({}, {})", self.address.session(), self.address.slot)
    }
}

/// A message for later, which can be cancelled until then. It can be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    kind: String,
    id: String,
    pub(crate) at_ms: u64,
    pub(crate) timer: u64,
}

impl Timer {
    pub(crate) fn new<T: Server>(env: &Env, id: &str, at: Duration) -> Result<Self, ServerError> {
        let (_, _): (Name, Name) = (T::KIND.parse()?, id.parse()?);
        // Zero stands for sweeping.
        let timer = env.random_u64().max(1);
        Ok(Self { kind: T::KIND.to_owned(), id: id.to_owned(), at_ms: millis(at), timer })
    }

    /// When it is due, by the wall clock, since 1970.
    #[must_use]
    pub fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }

    pub(crate) fn keys(&self, keys: &Keys) -> Result<ServerKeys, StoreError> {
        Ok(ServerKeys::new(keys, &self.kind.parse()?, &self.id.parse()?))
    }
}
