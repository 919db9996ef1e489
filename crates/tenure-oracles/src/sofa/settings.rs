//! [`SofaSettings`]: which lock, for whom, for how long.

use std::time::Duration;

use tenure_store::{Name, StoreError};

use super::DURATION_LEAST;
use crate::{address::Address, candidate, mysql};

/// The options of a URL.
const OPTIONS: &[&str] = &["data_center", "lock", "duration", "poll"];

/// SOFA's own defaults.
const DURATION: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_secs(1);
const DATA_CENTER: &str = "DefaultDataCenter";

/// The width of the column.
const DATA_CENTER_CHARACTERS_MAX: usize = 128;

/// Which lock is contended for, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SofaSettings {
    /// Where the database is. Its options for stores mean nothing here.
    pub database: tenure_mysql::Settings,
    /// The first half of the lock's name: SOFA's cluster. Default: `DefaultDataCenter`.
    pub data_center: String,
    /// The second half.
    pub lock: Name,
    /// The name of this node, a part of the owner's.
    pub node: Name,
    /// How long the lock lasts, if we are who makes its row; else what the row says counts. Default: 20 s, as in SOFA.
    pub duration: Duration,
    /// How often to look while another holds the lock. Default: 1 s, as in SOFA.
    pub poll: Duration,
}

impl SofaSettings {
    /// The defaults.
    #[must_use]
    pub fn new(database: tenure_mysql::Settings, lock: Name, node: Name) -> Self {
        let data_center = DATA_CENTER.to_owned();
        Self { database, data_center, lock, node, duration: DURATION, poll: POLL }
    }

    /// The settings in a URL: `sofa+mysql://user@host/database?data_center=dc&lock=NAME&duration=20s`. The lock is
    /// called `name` if the URL does not say.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the value and the rule; nothing that may be a secret is repeated.
    pub fn from_url(url: &str, name: &str, node: &str) -> Result<Self, StoreError> {
        let Address { mut options, database } = Address::parse(url, "sofa", OPTIONS, mysql::OPTIONS)?;
        let lock = options.take_text("lock").unwrap_or_else(|| name.to_owned());
        let database = tenure_mysql::Settings::from_url(&database)?;
        let mut settings =
            Self::new(database, candidate::name("lock", &lock)?, candidate::name("node", node)?);
        settings.data_center = options.take_text("data_center").unwrap_or(settings.data_center);
        settings.duration = options.take_time("duration")?.unwrap_or(settings.duration);
        settings.poll = options.take_time("poll")?.unwrap_or(settings.poll);
        settings.validate()?;
        Ok(settings)
    }

    /// Refuses settings that can't work.
    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        self.database.validate()?;
        candidate::name("data_center", &self.data_center)?;
        let characters = self.data_center.chars().count();
        if characters > DATA_CENTER_CHARACTERS_MAX {
            return Err(StoreError::invalid(format!(
                "data_center has {characters} characters, the longest has {DATA_CENTER_CHARACTERS_MAX}: shorten it"
            )));
        }
        candidate::admit_time("duration", self.duration, DURATION_LEAST)?;
        candidate::admit_time("poll", self.poll, Duration::from_millis(1))
    }
}
