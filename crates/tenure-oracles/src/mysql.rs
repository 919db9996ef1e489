//! [`Database`]: the one connection of an oracle to MySQL or MariaDB.

use std::{fmt, time::Duration};

use mysql_async::{Conn, Params, Row, prelude::Queryable as _};
use tenure_mysql::Settings;
use tenure_store::{Env, StoreError};

/// The options of a URL that say how to connect.
pub(crate) const OPTIONS: &[&str] = &["tls", "tls_ca", "connect_timeout", "durability"];

/// A connection that is opened when it is needed.
pub(crate) struct Database {
    settings: Settings,
    env: Env,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    conn: Option<Conn>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The server's code, if it was the server that refused.
    pub(crate) code: Option<u16>,
    words: String,
}

/// A connection that waits for an answer. Dropped before it came, it is closed: what comes next would be taken for
/// another answer.
struct Asking {
    conn: Option<Conn>,
    env: Env,
}

impl Database {
    pub(crate) fn new(settings: Settings, env: Env, patience: Duration) -> Self {
        Self { settings, env, patience, conn: None }
    }

    /// Who connects.
    pub(crate) fn user(&self) -> &str {
        &self.settings.user
    }

    /// Asks, and waits for the rows of the answer no longer than the patience.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the statement is executed.
    pub(crate) async fn query(
        &mut self,
        doing: &str,
        statement: &str,
        parameters: impl Into<Params> + Send,
    ) -> Result<Vec<Row>, Failure> {
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => tenure_mysql::connect(&self.settings, &self.env).await?,
        };
        let mut asking = Asking { conn: Some(conn), env: self.env.clone() };
        let Some(conn) = &mut asking.conn else { return Err(Failure::new("there is no connection")) };
        let (failure, survives) =
            match self.env.timeout(self.patience, conn.exec(statement, parameters)).await {
                Ok(Ok(rows)) => {
                    self.conn = asking.conn.take();
                    return Ok(rows);
                }
                Ok(Err(mysql_async::Error::Server(error))) => {
                    let words = format!("{doing}: {} [{}]", error.message, error.code);
                    (Failure { code: Some(error.code), words }, true)
                }
                Ok(Err(error)) => (Failure::new(format!("{doing}: {error}")), false),
                Err(elapsed) => (Failure::new(format!("{doing}: {elapsed}")), false),
            };
        if survives {
            self.conn = asking.conn.take();
        }
        Err(failure)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let (Some(conn), Ok(runtime)) = (self.conn.take(), tokio::runtime::Handle::try_current()) {
            let env = self.env.clone();
            // Nobody waits for it, and its time is bounded.
            drop(runtime.spawn(async move { tenure_mysql::disconnect(&env, conn).await }));
        }
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
