//! [`Server`]: what a server does, and [`Policy`]: how its messages are treated.

use std::{any::Any, error::Error, fmt, future::Future, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tenure_store::Name;

use crate::{Context, Locked, RawParts, State};

/// What can be sent: any serde type. Messages and replies are `MessagePack` in the store, with the names of fields.
pub trait Message: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Message for T {}

/// The code of a kind of servers.
///
/// A server is a state and a queue under a name. It exists while its keys do; this is what any node that
/// [serves](crate::Serve::serve) its kind does with its messages.
///
/// Callbacks are **pure and synchronous**: they change the state, and ask for the rest through their [`Context`]. They may run more than once for one
/// message (a commit met another, a message behind it failed); only one run counts. So they must not act on the world: that is what effects and locked
/// work are for. Nor should they take long: one that runs longer than [`Policy::slow`] is reported, while it does.
///
/// | API call | callback | guarantee |
/// | --- | --- | --- |
/// | [`call`](crate::ServerRef::call), [`call_with`](crate::ServerRef::call_with) | [`handle_call`](Server::handle_call) | in order; once for the state; the answer is of that one run |
/// | [`cast`](crate::ServerRef::cast), [`cast_all`](crate::ServerRef::cast_all) | [`handle_cast`](Server::handle_cast) | durable when it returns; in order; once for the state |
/// | [`cast_nowait`](crate::ServerRef::cast_nowait) | [`handle_cast`](Server::handle_cast) | in order; lost if the process ends before it is durable |
/// | [`priority_call`](crate::ServerRef::priority_call), [`priority_cast`](crate::ServerRef::priority_cast) | the same two | once for the state; before all that waits, and though the server is locked; in no order with the rest |
/// | [`cast_after`](crate::ServerRef::cast_after), [`Context::cast_after`] | [`handle_cast`](Server::handle_cast) | as `cast`, from the time it is due |
/// | [`read`](crate::ServerRef::read) | none | sees all that was applied before it began, so every call that was answered; what waits in the queue is not applied yet |
/// | [`Context::lock`] | [`handle_locked`](Server::handle_locked) | outside any commit; at least once; its result is folded into the state once |
/// | [`Context::effect`] | [`handle_effect`](Server::handle_effect) | recorded with the state; at least once, with an id to tell repetitions |
/// | [`Context::after_commit`] | the closure | after the commit, at most once |
pub trait Server: Send + Sync + Sized + 'static {
    /// What this kind is called in the store: a [`Name`]. It must not change while servers of it exist.
    const KIND: &'static str;

    /// The version of the state's schema. Raise it when an older release could not read the state; see [`Server::migrate`].
    const SCHEMA: u32 = 1;

    /// How messages are treated. All nodes should have the same.
    const POLICY: Policy = Policy::DEFAULT;

    /// What is kept.
    type State: State;
    /// Requests that are answered.
    type Call: Message;
    /// Their answers.
    type Reply: Message;
    /// Requests that are not.
    type Cast: Message;
    /// Durable effects; [`Never`] if there are none.
    type Effect: Message;

    /// The state of a server that has none yet.
    #[must_use]
    fn init(id: &Name) -> Self::State {
        let _ = id;
        Self::State::default()
    }

    /// Handles a call. `Some` is the answer; `None` means that it comes later: from the locked work that was asked for, or through
    /// [`Context::reply_to`].
    ///
    /// # Errors
    /// The message has failed: what it did to the state is undone, and it is tried again later; see [`Policy::attempts_max`]. An answer that means "no" is not
    /// an error, but a reply.
    fn handle_call(
        &self,
        state: &mut Self::State,
        call: &Self::Call,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Self::Reply>, Failure>;

    /// Handles a cast.
    ///
    /// # Errors
    /// As [`Server::handle_call`].
    fn handle_cast(
        &self,
        state: &mut Self::State,
        cast: &Self::Cast,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure>;

    /// Does long work outside of any commit, for a message whose callback asked for it by [`Context::lock`]. Meanwhile the other messages wait, but for priority ones.
    /// What it returns is folded into the state as it is then.
    ///
    /// It is dropped when the claim is lost, and done again elsewhere: so it may run more than once, and should be able to tell.
    ///
    /// # Errors
    /// The work has failed, and is tried again later.
    fn handle_locked(
        &self,
        locked: Locked<Self>,
    ) -> impl Future<Output = Result<Fold<Self>, Failure>> + Send {
        let words = format!("a server of kind {} asked for locked work, and does none", Self::KIND);
        drop(locked);
        async move { Err(Failure::new(words)) }
    }

    /// Does something to the world that was recorded with the state. It is tried until it succeeds, so at least once: `id` tells repetitions.
    ///
    /// Up to 16 effects of a server are done at once, and a try that takes longer than [`Policy::effect_timeout`] is dropped where it
    /// waits, and has failed. It must not block its thread.
    ///
    /// # Errors
    /// It is tried again later, for ever.
    fn handle_effect(
        &self,
        effect: Self::Effect,
        id: EffectId,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        drop(effect);
        async move { Err(Failure::new(format!("effect {id} has nobody to do it"))) }
    }

    /// Makes parts that were written under schema `from` into parts of [`Server::SCHEMA`]. It runs when the state is next loaded, and is stored with the next commit.
    ///
    /// # Errors
    /// The server stays as it is, and its messages wait.
    fn migrate(from: u32, parts: &mut RawParts<'_>) -> Result<(), Failure> {
        let _ = parts;
        Err(Failure::new(format!("kind {} knows no way from schema {from} to {}", Self::KIND, Self::SCHEMA)))
    }
}

/// No effects, no casts, or no calls: there is no value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Never {}

/// Tells one durable effect from every other, in all servers of a cluster, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct EffectId(pub(crate) u64, pub(crate) u64);

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0, self.1)
    }
}

/// Why a callback failed, in words. Every error becomes one by `?`.
pub struct Failure(Box<dyn Error + Send + Sync>);

impl Failure {
    /// A failure in words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into().into())
    }

    /// What a panic said.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::new(format!("it panicked: {}", words.unwrap_or("without words")))
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({self})")
    }
}

type Folding<S> = dyn Fn(&mut <S as Server>::State, &mut Context<'_, S>) -> Result<Option<<S as Server>::Reply>, Failure>
    + Send
    + Sync;

/// What locked work has found, as a change of the state.
pub struct Fold<S: Server>(pub(crate) Box<Folding<S>>);

impl<S: Server> Fold<S> {
    /// This change. It may run more than once, and only one run counts. What it returns is the answer, if the message was a call.
    pub fn new(
        fold: impl Fn(&mut S::State, &mut Context<'_, S>) -> Result<Option<S::Reply>, Failure>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Box::new(fold))
    }
}

impl<S: Server> fmt::Debug for Fold<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fold").finish_non_exhaustive()
    }
}

/// How messages of a kind are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How often a message is tried before it becomes a dead letter; at least 1.
    pub attempts_max: u32,
    /// The pause before the second attempt. Each further one is twice as long.
    pub retry_first: Duration,
    /// The longest pause between two attempts.
    pub retry_most: Duration,
    /// The most messages that wait in a queue. Senders measure it, each at every eighth of the room that was left, so that many of them may exceed it by a little.
    pub queue_max: u64,
    /// How long the answer to a call with an idempotency key is kept.
    pub answers_kept: Duration,
    /// How long dead letters are kept.
    pub dead_kept: Duration,
    /// The most messages that one commit takes.
    pub batch_max: usize,
    /// A callback that runs longer is reported, while it runs.
    pub slow: Duration,
    /// How long one try of an effect may take: then it is dropped where it waits, and tried again later.
    pub effect_timeout: Duration,
    /// How many servers a node keeps in memory.
    pub cached_max: usize,
}

impl Policy {
    /// What is usual.
    pub const DEFAULT: Policy = Policy {
        attempts_max: 5,
        retry_first: Duration::from_millis(100),
        retry_most: Duration::from_secs(30),
        queue_max: 100_000,
        answers_kept: Duration::from_secs(24 * 3600),
        dead_kept: Duration::from_secs(7 * 24 * 3600),
        batch_max: 1024,
        slow: Duration::from_millis(100),
        effect_timeout: Duration::from_secs(60),
        cached_max: 10_000,
    };

    /// The pause after so many attempts.
    pub(crate) fn pause(&self, attempts: usize) -> Duration {
        let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(31);
        self.retry_first.saturating_mul(1 << doublings).min(self.retry_most)
    }

    pub(crate) fn tries(&self) -> usize {
        usize::try_from(self.attempts_max.max(1)).unwrap_or(usize::MAX)
    }
}
