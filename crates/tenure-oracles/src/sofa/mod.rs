//! [`DistributeLock`]: the lock by which the Meta nodes of SOFA's registry elect their leader, in MySQL and MariaDB.
//!
//! # What it promises
//! The [contract of an oracle](tenure_singleton::oracle), in one election with Java nodes that follow SOFA's SQL. A
//! lock is a row of `distribute_lock`: its owner, the term of that owner, how often it was renewed in this term, and
//! when it was renewed last, by the server's clock. The conditions are SOFA's own:
//!
//! | to do what | the row must be | it becomes |
//! | --- | --- | --- |
//! | be the first | not there | ours, in term 1 |
//! | renew | ours, as we saw it last, and not expired | renewed now, once more |
//! | take over | another's, as we saw it last, and expired | ours, in the next term, not renewed yet |
//!
//! Each is one statement, which changes the row only if it is still the one that was read. So at most one of many
//! succeeds. What came of it is read back, never taken from the answer to the change; so an answer that got lost is
//! found out by the next question.
//!
//! # How long a grant is valid
//! A row has expired for those who want to take it over when `timestampdiff(SECOND, gmt_modified, NOW()) > duration /
//! 1000`. `NOW()` has no fraction and the difference is cut to whole seconds. So this needs at least the next whole
//! number of seconds above the duration, and up to one more: a lock of 20 s is taken over after 21 to 22 s, one of
//! 2.5 s after 3 to 4 s. **It is never taken over within its duration**, and that is how long a grant is valid,
//! counted from before it was asked for, less the age that the row has when it is read back. (The server notes when
//! the statement began, which may be long before it got hold of the row.)
//!
//! The duration is the row's, not ours: whoever makes the row decides for all who come later. If it differs from the
//! settings, that is logged.
//!
//! # Beyond SOFA
//! - The owner is `tenure:<node>:<random>`, drawn for each oracle. SOFA's is an IP address: two processes of one host
//!   both lead.
//! - The fencing token is the row's `term`, and the work gets it.
//! - **Giving up.** SOFA has no way to. Here, the last renewal is dated back so far that the row has expired: a Java
//!   node that looks sees so, and takes over in the next term as after a crash. The count of renewals grows with it,
//!   so that no renewal that comes late can undo it, and a late giving-up can undo no renewal.
//! - SOFA since February 2022 renews by the owner's name alone. That is its own risk; ours is named like nobody else.
//!
//! # What to mind
//! SOFA's other nodes take the owner of the lock of its Meta nodes for an address to connect to. So contend for a lock of
//! your own name, and only watch that one: [`DistributeLock::observe`] never writes.

mod lock;
mod settings;
mod statements;

use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Params;
use tenure_singleton::{Answer, Grant, Oracle};
use tenure_store::{Env, StoreError};

pub use lock::LockState;
pub use settings::SofaSettings;

use crate::{
    candidate,
    mysql::{Database, Failure},
};
use lock::Lock;

/// How long after a lock may be taken over it is tried: the server's clock has passed it for certain by then.
const LITTLE: Duration = Duration::from_millis(10);

/// The shortest lock that can be held: what is counted in seconds must last one.
const DURATION_LEAST: Duration = Duration::from_secs(1);

/// A candidate for a lock of SOFA: see [`SofaSettings`] for what it needs to know.
#[derive(Debug)]
pub struct DistributeLock {
    settings: SofaSettings,
    database: Database,
    /// Who we are in the table.
    owner: String,
    /// Whether the table was seen.
    ready: bool,
    /// The lock as it was when we held it last.
    held: Option<Lock>,
    /// Whether a row with another duration than ours was told of.
    told: bool,
}

impl DistributeLock {
    /// A candidate. Nothing is connected to yet.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for settings that can't work.
    pub fn new(settings: SofaSettings) -> Result<Self, StoreError> {
        Self::new_in(settings, Env::system())
    }

    /// The same, with the time and dice of `env`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for settings that can't work.
    pub fn new_in(settings: SofaSettings, env: Env) -> Result<Self, StoreError> {
        settings.validate()?;
        let owner = candidate::incarnation(&settings.node, &env);
        let database = Database::new(settings.database.clone(), env, settings.duration / 3);
        Ok(Self { settings, database, owner, ready: false, held: None, told: false })
    }

    /// Who this is in the table.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// How the lock stands, without contending for it; `None` if nobody ever did.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database did not answer, or has no such table.
    pub async fn observe(&mut self) -> Result<Option<LockState>, StoreError> {
        let read = self.read().await.map_err(|failure| StoreError::unavailable(failure.to_string()))?;
        Ok(read.map(|lock| lock.state()))
    }

    async fn read(&mut self) -> Result<Option<Lock>, Failure> {
        let key = (self.settings.data_center.as_str(), self.settings.lock.as_str());
        let rows = self.database.query("read a lock of SOFARegistry", statements::READ, key).await?;
        let lock = rows.into_iter().next().map(Lock::read).transpose()?;
        if let Some(lock) = &lock {
            self.database.patience = self.settings.duration.min(lock.duration) / 3;
        }
        Ok(lock)
    }

    /// Changes the row if it is still this one. Whether it did is to be read back.
    async fn change(&mut self, doing: &str, statement: &str, parameters: Params) -> Result<(), Failure> {
        self.database.query(doing, statement, parameters).await.map(drop)
    }

    async fn try_claim(&mut self) -> Result<Answer, Failure> {
        if !self.ready {
            statements::find_or_make(&mut self.database).await?;
            self.ready = true;
        }
        let (center, name) = (self.settings.data_center.clone(), self.settings.lock.clone());
        let (center, name) = (center.as_str(), name.as_str());
        match self.read().await? {
            None => {
                let millis = u64::try_from(self.settings.duration.as_millis()).unwrap_or(u64::MAX);
                let values = (center, name, self.owner.clone(), millis);
                self.change("make a lock of SOFARegistry", statements::INSERT, values.into()).await?;
            }
            Some(lock) if lock.owner == self.owner && !lock.expired => self.renew(&lock).await?,
            Some(lock) if lock.expired => {
                let seen = (lock.owner, lock.term, lock.renewals, lock.millis);
                let values = (self.owner.clone(), center, name, seen.0, seen.1, seen.2, seen.3);
                self.change("take a lock of SOFARegistry over", statements::TAKE_OVER, values.into()).await?;
            }
            Some(lock) => return Ok(self.refusal(&lock)),
        }
        self.read_back(None).await
    }

    async fn renew(&mut self, lock: &Lock) -> Result<(), Failure> {
        let (center, name) = (self.settings.data_center.clone(), self.settings.lock.clone());
        let owner = self.owner.clone();
        let values =
            (owner.clone(), center, name.as_str().to_owned(), owner, lock.term, lock.renewals, lock.millis);
        self.change("renew a lock of SOFARegistry", statements::RENEW, values.into()).await
    }

    async fn try_refresh(&mut self) -> Result<Answer, Failure> {
        let Some(held) = self.held.clone() else {
            return Ok(Answer::Denied { retry_after: None, holder: None });
        };
        self.renew(&held).await?;
        self.read_back(Some(held.term)).await
    }

    /// What the row says of us now; `term` is the one that it must be, if it is known.
    async fn read_back(&mut self, term: Option<u64>) -> Result<Answer, Failure> {
        let Some(lock) = self.read().await? else {
            self.held = None;
            return Ok(Answer::denied(self.settings.poll));
        };
        let left = lock.left();
        if lock.owner != self.owner || left.is_zero() || term.is_some_and(|term| term != lock.term) {
            self.held = None;
            return Ok(self.refusal(&lock));
        }
        if lock.duration < DURATION_LEAST {
            return Err(Failure::new(format!(
                "the row says duration {}, too short for seconds to be counted in: set it to 1000 or more",
                lock.millis
            )));
        }
        if lock.duration != self.settings.duration && !std::mem::replace(&mut self.told, true) {
            let (row, ours, name) = (lock.duration, self.settings.duration, &self.settings.lock);
            tracing::warn!(lock = %name, "the row's duration of {row:?} counts, not the {ours:?} of the settings");
        }
        let grant = Grant::lasting(left).with_term(lock.term);
        self.held = Some(lock);
        Ok(Answer::Granted(grant))
    }

    fn refusal(&self, lock: &Lock) -> Answer {
        let holder = Some(lock.owner.clone()).filter(|owner| *owner != self.owner);
        let after = lock.until_taken().saturating_add(LITTLE).min(self.settings.poll);
        Answer::Denied { retry_after: Some(after), holder }
    }

    async fn try_abdicate(&mut self) -> Result<(), Failure> {
        // Nothing was claimed yet.
        if !self.ready {
            return Ok(());
        }
        self.held = None;
        let Some(lock) = self.read().await?.filter(|lock| lock.owner == self.owner && !lock.expired) else {
            return Ok(());
        };
        let (center, name) = (self.settings.data_center.clone(), self.settings.lock.clone());
        let seen = (lock.term, lock.renewals);
        let values =
            (lock.back_seconds(), center, name.as_str().to_owned(), self.owner.clone(), seen.0, seen.1);
        self.change("give up a lock of SOFARegistry", statements::GIVE_UP, values.into()).await?;
        match self.read().await? {
            Some(lock) if lock.owner == self.owner && !lock.expired => {
                Err(Failure::new("a renewal came in between: the lock is held until its time is over"))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Oracle for DistributeLock {
    async fn claim(&mut self) -> Answer {
        self.try_claim().await.unwrap_or_else(|failure| self.unknown(&failure))
    }

    async fn refresh(&mut self) -> Answer {
        self.try_refresh().await.unwrap_or_else(|failure| self.unknown(&failure))
    }

    /// SOFA has no successors: whoever asks next gets it.
    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        match self.try_abdicate().await {
            Ok(()) => Answer::Denied { retry_after: None, holder: None },
            Err(failure) => self.unknown(&failure),
        }
    }
}

impl DistributeLock {
    fn unknown(&mut self, failure: &Failure) -> Answer {
        if failure.code == Some(statements::NO_TABLE) {
            self.ready = false;
        }
        Answer::unknown(failure)
    }
}
