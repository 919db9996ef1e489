//! [`ObanSettings`]: whose leader is looked for, and who we are.

use std::time::Duration;

use tenure_store::StoreError;

use crate::{address::Address, candidate, postgres};

/// The options of a URL.
const OPTIONS: &[&str] = &["name", "prefix", "node", "interval", "settle"];

/// Often enough for a leadership that is renewed every 15 seconds, and one small query.
const INTERVAL: Duration = Duration::from_secs(2);

/// A grant is valid for so many intervals: one question may go unanswered.
const VALID_INTERVALS: u32 = 2;

/// Whose leader is looked for, and who we are. All nodes must have the same, but for the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObanSettings {
    /// Where the database is. Its `schema` and its options for stores mean nothing here.
    pub database: tenure_postgres::Settings,
    /// The instance of Oban, as Elixir prints its name: `Oban`, `MyApp.Oban`, `:my_oban`. Default: `Oban`.
    pub name: String,
    /// The schema of Oban's tables, which Oban calls its prefix. Default: `public`.
    pub prefix: String,
    /// What Oban calls this node.
    pub node: String,
    /// How often to look. A grant is valid for twice as long, if the row is. Default: 2 s.
    pub interval: Duration,
    /// For how long a leadership must have been seen before it is granted. Default: as long as a grant may be valid.
    /// With less, the work of two nodes may overlap by the difference when Oban's leader hands over.
    pub settle: Duration,
}

impl ObanSettings {
    /// The defaults.
    #[must_use]
    pub fn new(database: tenure_postgres::Settings, node: impl Into<String>) -> Self {
        Self {
            database,
            name: "Oban".into(),
            prefix: "public".into(),
            node: node.into(),
            interval: INTERVAL,
            settle: INTERVAL * VALID_INTERVALS,
        }
    }

    /// The settings in a URL: `oban+postgres://user@host/database?name=Oban&prefix=public&node=NODE`. Oban calls us
    /// `node` if the URL does not say.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the value and the rule; nothing that may be a secret is repeated.
    pub fn from_url(url: &str, node: &str) -> Result<Self, StoreError> {
        let Address { mut options, database } = Address::parse(url, "oban", OPTIONS, postgres::OPTIONS)?;
        let node = options.take_text("node").unwrap_or_else(|| node.to_owned());
        let mut settings = Self::new(tenure_postgres::Settings::from_url(&database)?, node);
        settings.name = options.take_text("name").unwrap_or(settings.name);
        settings.prefix = options.take_text("prefix").unwrap_or(settings.prefix);
        if let Some(interval) = options.take_time("interval")? {
            settings.interval = interval;
            settings.settle = settings.validity();
        }
        settings.settle = options.take_time("settle")?.unwrap_or(settings.settle);
        settings.validate()?;
        Ok(settings)
    }

    /// The longest time for which a grant is valid.
    pub(super) fn validity(&self) -> Duration {
        self.interval * VALID_INTERVALS
    }

    /// Refuses settings that can't work.
    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        self.database.validate()?;
        for (called, text) in [("name", &self.name), ("prefix", &self.prefix), ("node", &self.node)] {
            candidate::name(called, text)?;
        }
        let node = &self.node;
        if node.contains(char::is_whitespace) {
            return Err(StoreError::invalid(format!(
                "node is {node:?}, and Oban takes none with white space: write what Oban calls this node"
            )));
        }
        candidate::admit_time("interval", self.interval, Duration::from_millis(50))?;
        candidate::admit_time("settle", self.settle, Duration::ZERO)
    }
}
