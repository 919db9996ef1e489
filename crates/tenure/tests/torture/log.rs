//! [`Log`]: a server that writes down every message, and answers with the place where it did.

use std::{fmt, num::ParseIntError, str::FromStr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tenure::{
    prelude::{Context, Failure, Fold, Locked, Map, Server, State},
    server::{EffectId, LockedRequest, Policy},
    store::Env,
};

use crate::journal::Journal;

/// The servers that everybody sends to.
pub(crate) const SERVERS: [&str; 3] = ["north", "east", "south"];

/// The longest locked work.
const WORK_TIME: Duration = Duration::from_millis(30);

/// The server to which one sends on what it is asked to.
pub(crate) fn next(server: usize) -> usize {
    (server + 1) % SERVERS.len()
}

/// Tells one message from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Id {
    /// The sender's process; one that was started again is another.
    pub(crate) process: u64,
    /// The task in that process.
    pub(crate) task: u64,
    /// Its place in what that task sends.
    pub(crate) number: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.process, self.task, self.number)
    }
}

impl FromStr for Id {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let mut parts = text.split('.').map(str::parse);
        let mut part = || parts.next().unwrap_or_else(|| "".parse());
        Ok(Self { process: part()?, task: part()?, number: part()? })
    }
}

/// How a message is sent, and what its server does with it beyond writing it down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Sort {
    Call,
    Cast,
    /// With others in one commit.
    CastAll,
    /// While the one before it is under way.
    Burst,
    /// Without waiting until it is durable.
    Nowait,
    /// A call that is made more than once, under one idempotency key.
    Once,
    /// A call whose answer comes from locked work.
    Lock,
    /// It asks for a durable effect.
    Effect,
    /// It is sent on to the next server.
    Forward,
    /// What is sent on.
    Copy,
    /// Past the queue, as a call.
    Urgent,
    /// Past the queue, as a cast.
    UrgentCast,
    /// With a delay.
    Later,
    /// It fails once.
    Fail,
}

impl Sort {
    /// What senders choose from, each as often as it stands here.
    pub(crate) const CHOICE: [Self; 22] = [
        Self::Call,
        Self::Call,
        Self::Call,
        Self::Call,
        Self::Call,
        Self::Cast,
        Self::Cast,
        Self::Cast,
        Self::Cast,
        Self::CastAll,
        Self::CastAll,
        Self::Burst,
        Self::Nowait,
        Self::Once,
        Self::Once,
        Self::Lock,
        Self::Effect,
        Self::Forward,
        Self::Urgent,
        Self::UrgentCast,
        Self::Later,
        Self::Fail,
    ];

    /// Whether such messages keep their order.
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self, Self::Copy | Self::Urgent | Self::UrgentCast | Self::Later | Self::Fail)
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::CHOICE.into_iter().find(|sort| format!("{sort:?}") == name)
    }
}

/// A message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) id: Id,
    pub(crate) sort: Sort,
    /// The index of the server that it is for.
    pub(crate) server: usize,
}

/// A message that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: Id,
    pub(crate) sort: Sort,
    /// How often it had failed before: then it came back later, and has lost its place.
    pub(crate) attempt: usize,
    /// The process that wrote it down, and when: for whoever wants to know why something is not as it should be.
    pub(crate) by: u64,
    pub(crate) at_ms: u64,
}

/// Locked work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Where the message was written down.
    pub(crate) place: u64,
    /// How often its result was folded in.
    pub(crate) folded: u64,
}

/// All that was written down.
#[derive(Debug, Default, State)]
pub(crate) struct Pages {
    pub(crate) next: u64,
    #[state(parts)]
    pub(crate) entries: Map<u64, Entry>,
    #[state(parts)]
    pub(crate) work: Map<Id, Work>,
}

/// The server.
#[derive(Debug)]
pub(crate) struct Log {
    /// Where effects are done.
    pub(crate) journal: Arc<Journal>,
    /// Which of all processes it is in.
    pub(crate) process: u64,
}

impl Log {
    fn write_down(
        &self,
        pages: &mut Pages,
        ask: &Ask,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        let (place, attempt) = (pages.next, context.attempt());
        let at_ms = u64::try_from(Env::system().now().since_start().as_millis())?;
        pages.entries.insert(place, Entry { id: ask.id, sort: ask.sort, attempt, by: self.process, at_ms });
        pages.next += 1;
        match ask.sort {
            // What it did to the state by now must be undone.
            Sort::Fail if attempt == 0 => return Err(Failure::new("as it was asked to")),
            Sort::Lock => {
                pages.work.insert(ask.id, Work { place, folded: 0 });
                context.lock()?;
                return Ok(None);
            }
            Sort::Effect => drop(context.effect(&ask.id)?),
            Sort::Forward => {
                let server = next(ask.server);
                context.cast::<Self>(SERVERS[server], &Ask { sort: Sort::Copy, server, ..*ask })?;
            }
            _ => {}
        }
        Ok(Some(place))
    }
}

impl Server for Log {
    const KIND: &'static str = "log";
    const POLICY: Policy = Policy { retry_most: Duration::from_millis(500), ..Policy::DEFAULT };
    type State = Pages;
    type Call = Ask;
    type Reply = u64;
    type Cast = Ask;
    type Effect = Id;

    fn handle_call(
        &self,
        pages: &mut Pages,
        ask: &Ask,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        self.write_down(pages, ask, context)
    }

    fn handle_cast(
        &self,
        pages: &mut Pages,
        ask: &Ask,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        self.write_down(pages, ask, context).map(drop)
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        let (LockedRequest::Call(ask) | LockedRequest::Cast(ask)) = &locked.request;
        let (env, id) = (Env::system(), ask.id);
        env.sleep(env.random_time(WORK_TIME)).await;
        Ok(Fold::new(move |pages: &mut Pages, _| {
            let work = pages.work.get_mut(&id).ok_or_else(|| Failure::new("nobody asked for this work"))?;
            work.folded += 1;
            Ok(Some(work.place))
        }))
    }

    async fn handle_effect(&self, id: Id, _: EffectId) -> Result<(), Failure> {
        self.journal.did(id);
        Ok(())
    }
}
