//! [`ObanPeer`]: leads where Oban, a library of job queues for Elixir, has its leader.
//!
//! # What it promises
//! Of the nodes that run this oracle with the same [settings](ObanSettings), at most one is granted at a time: the
//! one whose name stands in the row of `oban_peers`, while that row has not expired. **Nothing is written**: who wins
//! Oban's election must also run Oban's plugins.
//!
//! # How a change is survived
//! Oban says who leads, and asks nobody whether the one before has stopped. So there is a wait instead of an answer:
//!
//! 1. A grant is valid for what is left of the row, but never longer than two intervals, from before the row was read.
//! 2. A leadership that this oracle sees for the first time is granted only when it was seen for that long, the time to
//!    [settle](ObanSettings::settle). Whoever read another row before has nothing left by then, on any clock.
//! 3. A notice on Oban's channel, or the next look, ends a grant early. Notices are a help where they come through,
//!    and needed for nothing.
//!
//! # What it relies on
//! - **Oban's rows are on the clocks of its nodes.** One whose clock is behind that of the database appears to have
//!   expired early, and nobody leads; one that is ahead leads in its row for longer. Both cost time, neither costs
//!   the promise.
//! - **The name of the node must be its own.** Oban's is what is configured, else the name of the Erlang node, the
//!   variable `DYNO`, or the host's name; of several processes with one name, Oban believes that each leads, and so
//!   do we.
//! - Oban itself, before 2.23.1, can have two nodes that believe to lead; here, the row alone counts.
//!
//! # The term
//! It is the instant at which the leader was elected, in microseconds. A new election has another one, even of the
//! same node, and ends what was granted for the last. It is the clock of Oban's nodes again: if one wins right after
//! another whose clock is ahead, its term may be less. To fence by it, keep the clocks closer than the time to
//! settle.

mod settings;

use std::time::Duration;

use async_trait::async_trait;
use tenure_singleton::{Answer, Grant, Oracle, Validity};
use tenure_store::{Env, Moment, StoreError};
use tokio_postgres::types::Type;

pub use settings::ObanSettings;

use crate::postgres::{Database, Failure, Parameter, quoted};

/// An observer of Oban's election: see [`ObanSettings`] for what it needs to know.
#[derive(Debug)]
pub struct ObanPeer {
    settings: ObanSettings,
    env: Env,
    database: Database,
    statement: String,
    /// The leadership of this node that was seen last, and since when.
    seen: Option<(i64, Moment)>,
}

/// A row that has not expired.
struct Peer {
    node: String,
    /// Microseconds since 1970.
    started: i64,
    left: Duration,
}

impl ObanPeer {
    /// An observer. Nothing is connected to yet.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for settings that can't work.
    pub fn new(settings: ObanSettings) -> Result<Self, StoreError> {
        Self::new_in(settings, Env::system())
    }

    /// The same, with the time and dice of `env`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for settings that can't work.
    pub fn new_in(settings: ObanSettings, env: Env) -> Result<Self, StoreError> {
        settings.validate()?;
        let channel = quoted(&format!("{}.oban_leader", settings.prefix));
        let database =
            Database::new(settings.database.clone(), env.clone(), settings.interval).listening(channel);
        // The columns are without time zone and hold UTC: they must not meet the session's zone.
        let statement = format!(
            "SELECT node, round(extract(epoch FROM started_at) * 1000000)::int8,
                extract(epoch FROM expires_at - (clock_timestamp() AT TIME ZONE 'UTC'))::float8
            FROM {}.oban_peers
            WHERE name = $1 AND expires_at > (clock_timestamp() AT TIME ZONE 'UTC')",
            quoted(&settings.prefix)
        );
        Ok(Self { settings, env, database, statement, seen: None })
    }

    /// What it was made with.
    #[must_use]
    pub fn settings(&self) -> &ObanSettings {
        &self.settings
    }

    async fn look(&mut self) -> Result<Answer, Failure> {
        let parameters: [Parameter<'_>; 1] = [(&self.settings.name, Type::TEXT)];
        let asked = self.env.now();
        let rows = self.database.query("look for the leader of Oban", &self.statement, &parameters).await?;
        let peer = rows.first().map(Peer::read).transpose()?;
        Ok(self.answer(peer, asked))
    }

    fn answer(&mut self, peer: Option<Peer>, asked: Moment) -> Answer {
        let interval = self.settings.interval;
        let Some(peer) = peer else {
            self.seen = None;
            return Answer::denied(interval);
        };
        if peer.node != self.settings.node {
            self.seen = None;
            return Answer::Denied { retry_after: Some(interval), holder: Some(peer.node) };
        }
        // From the answer on: by then the row is there, and whoever read another did so before.
        let now = self.env.now();
        let since = match self.seen {
            Some((started, since)) if started == peer.started => since,
            _ => self.seen.insert((peer.started, now)).1,
        };
        let wait = since.after(self.settings.settle) - asked;
        if !wait.is_zero() {
            return Answer::Denied { retry_after: Some(wait.min(interval)), holder: Some(peer.node) };
        }
        let Ok(term) = u64::try_from(peer.started) else {
            return Answer::unknown("the leader of Oban was elected before 1970: set the clock of its node");
        };
        Answer::Granted(Grant {
            validity: Validity::For(peer.left.min(self.settings.validity())),
            refresh_after: Some(interval),
            term: Some(term),
            guard: None,
        })
    }
}

impl Peer {
    fn read(row: &tokio_postgres::Row) -> Result<Self, Failure> {
        let left: f64 = row.try_get(2)?;
        Ok(Self {
            node: row.try_get(0)?,
            started: row.try_get(1)?,
            left: Duration::try_from_secs_f64(left).unwrap_or(Duration::ZERO),
        })
    }
}

#[async_trait]
impl Oracle for ObanPeer {
    async fn claim(&mut self) -> Answer {
        self.look().await.unwrap_or_else(Answer::unknown)
    }

    async fn refresh(&mut self) -> Answer {
        self.look().await.unwrap_or_else(Answer::unknown)
    }

    /// The leadership is Oban's: there is nothing to give up.
    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        Answer::Denied { retry_after: None, holder: None }
    }

    async fn signal(&mut self) {
        self.database.message().await;
    }
}
