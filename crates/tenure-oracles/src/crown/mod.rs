//! [`CrownLease`]: the lease of Crown, a library for Elixir, in PostgreSQL.
//!
//! # What it promises
//! The [contract of an oracle](tenure_singleton::oracle), in one election with Elixir nodes that run Crown 0.2 or 0.3
//! and know nothing of us. A lease is a row of `crown_lease_v1`: who has the lock of which name, until when by the
//! server's clock. Everybody keeps to one rule: **a row may be written by whom it names, and by anybody once it has
//! expired.** Each statement is a transaction of its own at READ COMMITTED, so a pooler in transaction mode may stand
//! in between.
//!
//! # Beyond Crown
//! - **The work ends in time.** A grant counts from before the statement was sent. (The server computes the new end
//!   before it waits for a row that somebody has locked; so an answer may come when most of the time is over.)
//! - **A candidate is one of a kind.** The holder is `tenure:<node>:<random>`, and the random part is drawn for each
//!   oracle; no Erlang node is called so. Crown's holders are node names: two VMs of one name both lead.
//! - **A statement that comes late does no harm.** One that was given up may still be executed. A late claim never
//!   shortens a lease that we have. After an abdication whose outcome is unknown, the holder is drawn anew: a late
//!   deletion finds nothing of it.
//! - **A refresh never revives** a lease that has expired or is gone: somebody else may have had it meanwhile.
//!   (Crown's does.)
//! - **A refresh is tried more than once.** It is due when half of the time is over, as in Crown. It has a sixth of the
//!   time to be answered; then it is made again, on another connection. (Crown's process ends instead.)
//! - **A refusal says for how long**: whoever waits asks again when the lease may have expired, and every
//!   [`poll`](CrownSettings::poll) in case it is given up before.
//! - **Fencing tokens**, see below.
//!
//! # Why terms only grow
//! Crown deletes the row when it gives up, so a counter in the row would begin anew; and a Crown node that takes over
//! would leave it as it is. The counters are in a table of their own, `tenure_crown_terms`, which Crown does not know
//! and nobody deletes from. The statement that claims also counts, if and only if it has won:
//!
//! 1. To win, it locks or inserts the row of the lease, and holds it to its end. So no two winning claims overlap,
//!    whoever makes them.
//! 2. While it holds the row, it adds 1 to the counter, and the sum is the term. So the terms of two claims are in
//!    the order of the claims.
//! 3. Every claim that wins a lease that was free, or had expired, counts. So a time in which somebody else had the
//!    lease is always between two different terms of ours.
//! 4. A claim to a lease that is its own and has not expired keeps it, in its term: nobody else can have had it. So a
//!    claim that comes late, after another was granted, changes nothing.
//! 5. A refresh does not count. If it meets another term than its own, some claim has won since, and it is refused.
//!
//! Crown's nodes have no terms: they don't look for any. Whoever may not make the table, nor use it, gets grants
//! without a term. Dropping the table starts the terms anew.
//!
//! # What it never does
//! It creates no table that is there, changes none of Crown's, and deletes no row but its own.

mod settings;
mod statements;
mod tables;

use std::time::Duration;

use async_trait::async_trait;
use tenure_singleton::{Answer, Grant, Oracle};
use tenure_store::{Env, StoreError};
use tokio_postgres::{Row, error::SqlState, types::Type};

pub use settings::CrownSettings;

use crate::{
    candidate,
    postgres::{Database, Failure, Parameter},
};
use statements::Statements;
use tables::{Tables, find_or_make};

/// How long after its end a lease is asked for: the server's clock has passed it for certain by then.
const LITTLE: Duration = Duration::from_millis(10);

/// When to ask again after a refusal that does not say who holds the lease: whoever does came just before us.
const SOON: Duration = Duration::from_millis(50);

/// A candidate for a lease of Crown: see [`CrownSettings`] for what it needs to know.
#[derive(Debug)]
pub struct CrownLease {
    settings: CrownSettings,
    env: Env,
    database: Database,
    /// Who we are in the table.
    holder: String,
    /// Whether a deletion in the name of this holder may still be executed.
    doubtful: bool,
    /// What to say, once it is known which tables there are.
    statements: Option<Statements>,
    /// The term that was granted last.
    term: Option<u64>,
}

/// What came of a claim or a refresh.
struct Verdict {
    won: bool,
    term: Option<u64>,
    /// Who held the lease when the statement began, and for how much longer.
    holder: Option<String>,
    left: Option<Duration>,
}

impl CrownLease {
    /// A candidate. Nothing is connected to yet.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for settings that can't work.
    pub fn new(settings: CrownSettings) -> Result<Self, StoreError> {
        Self::new_in(settings, Env::system())
    }

    /// The same, with the time and dice of `env`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for settings that can't work.
    pub fn new_in(settings: CrownSettings, env: Env) -> Result<Self, StoreError> {
        settings.validate()?;
        let database = Database::new(settings.database.clone(), env.clone(), settings.duration / 3);
        let holder = candidate::incarnation(&settings.node, &env);
        Ok(Self { settings, env, database, holder, doubtful: false, statements: None, term: None })
    }

    /// Who this is in the table.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.holder
    }

    async fn statements(&mut self) -> Result<Statements, Failure> {
        if let Some(known) = &self.statements {
            return Ok(known.clone());
        }
        let tables = Tables::new(self.settings.schema.as_deref());
        let counts = find_or_make(&mut self.database, &tables).await?;
        Ok(self.statements.insert(Statements::new(&tables, counts)).clone())
    }

    async fn ask(&mut self, doing: &str, statement: &str) -> Result<Verdict, Failure> {
        let (lock, seconds) = (self.settings.lock.as_str(), self.settings.duration.as_secs_f64());
        let parameters: [Parameter<'_>; 3] =
            [(&lock, Type::TEXT), (&self.holder, Type::TEXT), (&seconds, Type::FLOAT8)];
        let answered = self.database.query(doing, statement, &parameters).await;
        let rows = answered.inspect_err(|failure| {
            if failure.is(&SqlState::UNDEFINED_TABLE) {
                self.statements = None;
            }
        })?;
        Verdict::read(rows.first().ok_or_else(|| Failure::new(format!("{doing}: no answer")))?)
    }

    fn answer(&self, verdict: Verdict) -> Answer {
        if verdict.won {
            let duration = self.settings.duration;
            let grant = Grant { refresh_after: Some(duration / 2), ..Grant::lasting(duration) };
            return Answer::Granted(Grant { term: verdict.term, ..grant });
        }
        let holder = verdict.holder.filter(|holder| *holder != self.holder);
        let after = match verdict.left {
            Some(left) if !left.is_zero() && holder.is_some() => left + LITTLE,
            _ => SOON,
        };
        Answer::Denied { retry_after: Some(after.min(self.settings.poll)), holder }
    }

    async fn try_claim(&mut self) -> Result<Answer, Failure> {
        if self.doubtful {
            self.holder = candidate::incarnation(&self.settings.node, &self.env);
            self.doubtful = false;
        }
        self.database.patience = self.settings.duration / 3;
        let statements = self.statements().await?;
        let verdict = self.ask("claim a lease of Crown", &statements.claim).await?;
        self.term = verdict.term;
        Ok(self.answer(verdict))
    }

    async fn try_refresh(&mut self) -> Result<Answer, Failure> {
        // Half of the time is over: there is enough left for another try or two, if this one gets no answer.
        self.database.patience = self.settings.duration / 6;
        let statements = self.statements().await?;
        let mut verdict = self.ask("refresh a lease of Crown", &statements.refresh).await?;
        verdict.won &= verdict.term == self.term;
        Ok(self.answer(verdict))
    }

    async fn try_abdicate(&mut self) -> Result<(), Failure> {
        // Without them, nothing was ever claimed.
        let Some(statements) = self.statements.clone() else { return Ok(()) };
        self.doubtful = true;
        let lock = self.settings.lock.as_str();
        let parameters: [Parameter<'_>; 2] = [(&lock, Type::TEXT), (&self.holder, Type::TEXT)];
        let deleted =
            self.database.query("give up a lease of Crown", &statements.abdicate, &parameters).await;
        match deleted {
            // What the server refuses it does not do later; and what is in no table is not held.
            Err(failure) if failure.is(&SqlState::UNDEFINED_TABLE) => self.doubtful = false,
            Err(failure) => {
                self.doubtful = failure.code.is_none();
                return Err(failure);
            }
            Ok(_) => self.doubtful = false,
        }
        Ok(())
    }
}

impl Verdict {
    fn read(row: &Row) -> Result<Self, Failure> {
        let left: Option<f64> = row.try_get(3)?;
        Ok(Self {
            won: row.try_get(0)?,
            term: row.try_get::<_, Option<i64>>(1)?.and_then(|term| u64::try_from(term).ok()),
            holder: row.try_get(2)?,
            left: left.map(|left| Duration::try_from_secs_f64(left).unwrap_or(Duration::ZERO)),
        })
    }
}

#[async_trait]
impl Oracle for CrownLease {
    async fn claim(&mut self) -> Answer {
        self.try_claim().await.unwrap_or_else(Answer::unknown)
    }

    async fn refresh(&mut self) -> Answer {
        self.try_refresh().await.unwrap_or_else(Answer::unknown)
    }

    /// Crown has no successors: whoever asks next gets it.
    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        match self.try_abdicate().await {
            Ok(()) => Answer::Denied { retry_after: None, holder: None },
            Err(failure) => Answer::unknown(failure),
        }
    }
}
