//! Servers as they are told.

use serde::Serialize;
use serde_json::Value;
use tenure::{
    cluster::Onlooker,
    server::{self, KindSeen, ServerSeen, Survey as _},
    store::{Name, StoreError},
};
use utoipa::ToSchema;

use super::millis;

/// A kind of servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Kind {
    pub(crate) kind: String,
    /// How many nodes handle its messages.
    pub(crate) consumers: u64,
    /// How many servers there are, counted no further than a page.
    pub(crate) servers: u64,
    /// Whether there are more.
    pub(crate) servers_more: bool,
    /// How many of them have messages or effects, counted no further than a page.
    pub(crate) busy: u64,
    /// How many messages wait, of the first 256 of those.
    pub(crate) waiting: u64,
    /// How long the oldest of them waits, by wall clocks.
    pub(crate) oldest_ms: Option<u64>,
    /// How many dead letters they have, counted no further than a page.
    pub(crate) dead_letters: u64,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Server {
    pub(crate) kind: String,
    pub(crate) id: String,
    /// How many messages wait, counted no further than a page.
    pub(crate) waiting: u64,
    /// How long the oldest of them waits, by wall clocks.
    pub(crate) oldest_ms: Option<u64>,
    /// How many messages were ever applied.
    pub(crate) applied: u64,
    /// Whether locked work is being done.
    pub(crate) locked: bool,
    /// Why it is stopped, if it is.
    pub(crate) stopped: Option<String>,
    /// How many dead letters there ever were.
    pub(crate) died: u64,
    /// How many are kept.
    pub(crate) dead_letters: u64,
    /// The schema of its state.
    pub(crate) schema: u32,
}

/// A message that failed as often as it might.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    pub(crate) number: u64,
    pub(crate) is_call: bool,
    /// What it said; null if that can't be read.
    #[schema(value_type = Value)]
    pub(crate) message: Value,
    pub(crate) sent_ms: u64,
    pub(crate) died_ms: u64,
    pub(crate) attempts: Vec<Attempt>,
}

/// How it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Attempt {
    pub(crate) at_ms: u64,
    pub(crate) node: String,
    pub(crate) error: String,
}

/// How many servers of a kind that have work are looked at for what waits.
pub(crate) const BUSY_MAX: usize = 256;

impl Kind {
    /// What there is to say of a kind.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn read(look: &Onlooker, seen: KindSeen) -> Result<Self, StoreError> {
        let backlog = look.backlog(&seen.kind, BUSY_MAX).await?;
        Ok(Self {
            kind: seen.kind.to_string(),
            consumers: seen.consumers,
            servers: seen.servers,
            servers_more: seen.more,
            busy: seen.busy,
            waiting: backlog.waiting,
            oldest_ms: backlog.oldest.map(millis),
            dead_letters: seen.dead_letters,
        })
    }

    /// Kinds by name, behind `after`, up to `limit`.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn list(
        look: &Onlooker,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Self>, StoreError> {
        let mut kinds = Vec::new();
        for seen in look.kinds(after, limit).await? {
            kinds.push(Self::read(look, seen).await?);
        }
        Ok(kinds)
    }
}

impl Server {
    pub(crate) fn new(kind: &Name, seen: ServerSeen) -> Self {
        let ServerSeen { id, status, dead_letters, .. } = seen;
        Self {
            kind: kind.to_string(),
            id: id.to_string(),
            waiting: status.waiting,
            oldest_ms: status.oldest.map(millis),
            applied: status.applied,
            locked: status.is_locked,
            stopped: status.stopped,
            died: status.died,
            dead_letters,
            schema: status.schema,
        }
    }
}

impl From<&server::DeadLetter> for DeadLetter {
    fn from(letter: &server::DeadLetter) -> Self {
        let attempt = |attempt: &server::Attempt| Attempt {
            at_ms: millis(attempt.at),
            node: attempt.node.clone(),
            error: attempt.error.clone(),
        };
        Self {
            number: letter.number,
            is_call: letter.is_call,
            message: letter.json().map_or(Value::Null, |json| json.0),
            sent_ms: millis(letter.sent),
            died_ms: millis(letter.died),
            attempts: letter.attempts.iter().map(attempt).collect(),
        }
    }
}
