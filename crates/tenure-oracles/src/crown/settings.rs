//! [`CrownSettings`]: which lease, for whom, for how long.

use std::time::Duration;

use tenure_store::{Name, StoreError};

use crate::{address::Address, candidate, postgres};

/// The options of a URL.
const OPTIONS: &[&str] = &["lock", "duration", "poll", "schema"];

/// Crown's own default.
const DURATION: Duration = Duration::from_secs(30);

/// The shortest lease: three questions and their answers must find time in it.
const DURATION_LEAST: Duration = Duration::from_millis(500);

/// Which lease is claimed, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrownSettings {
    /// Where the database is. Its `schema` and its options for stores mean nothing here.
    pub database: tenure_postgres::Settings,
    /// The name of the lock: in Crown, the name of the process, as `my_worker` or `Elixir.MyApp.Worker`.
    pub lock: Name,
    /// The name of this node, a part of the holder's.
    pub node: Name,
    /// How long a lease lasts. Each node has its own. Default: 30 s, as in Crown.
    pub duration: Duration,
    /// How often to ask, at least, while another holds the lease, in case it is given up before its end. Default: a
    /// third of the duration.
    pub poll: Duration,
    /// The schema of the tables. Default: the first of the connection's search path, where Crown has it.
    pub schema: Option<String>,
}

impl CrownSettings {
    /// The defaults.
    #[must_use]
    pub fn new(database: tenure_postgres::Settings, lock: Name, node: Name) -> Self {
        Self { database, lock, node, duration: DURATION, poll: DURATION / 3, schema: None }
    }

    /// The settings in a URL: `crown+postgres://user@host/database?lock=NAME&duration=30s`. The lock is called `name`
    /// if the URL does not say.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the value and the rule; nothing that may be a secret is repeated.
    pub fn from_url(url: &str, name: &str, node: &str) -> Result<Self, StoreError> {
        let Address { mut options, database } = Address::parse(url, "crown", OPTIONS, postgres::OPTIONS)?;
        let lock = options.take_text("lock").unwrap_or_else(|| name.to_owned());
        let database = tenure_postgres::Settings::from_url(&database)?;
        let mut settings =
            Self::new(database, candidate::name("lock", &lock)?, candidate::name("node", node)?);
        if let Some(duration) = options.take_time("duration")? {
            (settings.duration, settings.poll) = (duration, duration / 3);
        }
        settings.poll = options.take_time("poll")?.unwrap_or(settings.poll);
        settings.schema = options.take_text("schema");
        settings.validate()?;
        Ok(settings)
    }

    /// Refuses settings that can't work.
    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        self.database.validate()?;
        candidate::admit_time("duration", self.duration, DURATION_LEAST)?;
        candidate::admit_time("poll", self.poll, Duration::from_millis(1))?;
        if self.schema.as_ref().is_some_and(String::is_empty) {
            return Err(StoreError::invalid(
                "schema is empty: name one, or leave it out for the first of the search path",
            ));
        }
        Ok(())
    }
}
