//! [`Database`]: the one connection of an oracle to PostgreSQL.

use std::{fmt, time::Duration};

use tenure_postgres::{PlainConnection, Settings};
use tenure_store::{Env, StoreError};
use tokio_postgres::{
    Row,
    error::{Severity, SqlState},
    types::{ToSql, Type},
};

/// A parameter of a statement, and its type: so a statement takes one round trip, and leaves no name on the server.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The options of a URL that say how to connect.
pub(crate) const OPTIONS: &[&str] = &["sslmode", "sslrootcert", "connect_timeout"];

/// A connection that is opened when it is needed.
pub(crate) struct Database {
    settings: Settings,
    env: Env,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    /// The channel to listen to, as it is written in a statement.
    channel: Option<String>,
    connection: Option<PlainConnection>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The server's code, if it was the server that refused. Then nothing was changed.
    pub(crate) code: Option<SqlState>,
    words: String,
}

impl Database {
    pub(crate) fn new(settings: Settings, env: Env, patience: Duration) -> Self {
        Self { settings, env, patience, channel: None, connection: None }
    }

    /// Listens to this channel as well.
    pub(crate) fn listening(self, channel: String) -> Self {
        Self { channel: Some(channel), ..self }
    }

    /// Who connects.
    pub(crate) fn user(&self) -> &str {
        &self.settings.user
    }

    /// Asks, and waits for the answer no longer than the patience.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the statement is executed; if it is, then before the next one.
    pub(crate) async fn query(
        &mut self,
        doing: &str,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let (env, patience) = (self.env.clone(), self.patience);
        let connection = self.connected().await?;
        let answered = env.timeout(patience, connection.client().query_typed(statement, parameters)).await;
        let failure = match answered {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(error)) => match error.as_db_error() {
                Some(answer) => {
                    let words = format!("{doing}: {} [{}]", answer.message(), answer.code().code());
                    let refused = answer.parsed_severity() == Some(Severity::Error);
                    Failure { code: refused.then(|| answer.code().clone()), words }
                }
                None => {
                    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                    Failure { code: None, words: format!("{doing}: {error}{}", cause.unwrap_or_default()) }
                }
            },
            Err(elapsed) => Failure { code: None, words: format!("{doing}: {elapsed}") },
        };
        if failure.code.is_none() {
            // Nobody waits behind an answer that does not come.
            self.connection = None;
        }
        Err(failure)
    }

    /// Returns when a message has come; never, if there is no connection that could bring one.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(crate) async fn message(&mut self) {
        if let Some(connection) = &mut self.connection
            && connection.message().await.is_some()
        {
            return;
        }
        // The next question connects again, and is asked soon.
        self.connection = None;
        std::future::pending::<()>().await;
    }

    async fn connected(&mut self) -> Result<&mut PlainConnection, Failure> {
        if self.connection.as_ref().is_none_or(PlainConnection::is_lost) {
            self.connection = None;
            let made = tenure_postgres::connect(&self.settings, &self.env).await?;
            if let Some(channel) = &self.channel {
                // Behind a pooler in transaction mode nothing is heard; whoever wants messages asks at intervals, too.
                let listen = format!("LISTEN {channel}");
                let heard = self.env.timeout(self.patience, made.client().batch_execute(&listen)).await;
                let failed = |error: &dyn fmt::Display| Failure::new(format!("{listen}: {error}"));
                heard.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
            }
            self.connection = Some(made);
        }
        self.connection.as_mut().ok_or_else(|| Failure::new("there is no connection"))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.settings)
    }
}

impl Failure {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self { code: None, words: words.into() }
    }

    /// Whether the server refused for this reason.
    pub(crate) fn is(&self, code: &SqlState) -> bool {
        self.code.as_ref() == Some(code)
    }

    /// With a word on what to do.
    pub(crate) fn advise(mut self, advice: impl fmt::Display) -> Self {
        self.words = format!("{}: {advice}", self.words);
        self
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::new(format!("read an answer: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// A name in a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
