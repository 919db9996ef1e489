//! [`Connector`] makes connections, [`Link`] is one.

use std::{future::poll_fn, sync::Arc};

use tenure_store::{Env, Reason, StoreError};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::AbortHandle,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Row,
    config::SslMode,
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    Settings, Tls,
    error::{connect_error, store_error},
    tls,
};

/// The oldest release with everything that is used here and a few years of support behind it.
const OLDEST: i32 = 120_000;

/// Messages that were received and not looked at yet. When there are more, watches are told of everything.
const MESSAGES_MAX: usize = 1024;

/// A parameter of a statement, and its type. Types are given so that a statement needs no round trip to be understood, and no name on the
/// server, which would tie it to a connection.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Connector {
    settings: Arc<Settings>,
    config: Config,
    tls: MakeRustlsConnect,
    env: Env,
}

/// A connection. It is used by one task.
pub(crate) struct Link {
    client: Client,
    /// Reads and writes the socket.
    task: AbortHandle,
}

impl Connector {
    pub(crate) fn new(settings: Arc<Settings>, env: Env) -> Result<Self, StoreError> {
        let mut config = Config::new();
        config.user(&settings.user).dbname(&settings.database).application_name("tenure");
        for host in &settings.hosts {
            config.host(&host.name).port(host.port.unwrap_or(5432));
        }
        if let Some(password) = &settings.password {
            config.password(password.reveal());
        }
        config.ssl_mode(match settings.tls {
            Tls::Disable => SslMode::Disable,
            Tls::Prefer => SslMode::Prefer,
            Tls::Require | Tls::VerifyFull => SslMode::Require,
        });
        config.connect_timeout(settings.connect_timeout).tcp_user_timeout(settings.request_timeout);
        if settings.hosts.len() > 1 {
            config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        let tls = tls::connector(&settings)?;
        Ok(Self { settings, config, tls, env })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    /// A connection to a server that is fit for the store.
    pub(crate) async fn connect(&self) -> Result<Link, StoreError> {
        self.connect_to(None).await
    }

    /// A connection that hears messages, and the messages: their payloads.
    pub(crate) async fn connect_hearing(&self) -> Result<(Link, mpsc::Receiver<String>), StoreError> {
        let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
        Ok((self.connect_to(Some(sender)).await?, receiver))
    }

    async fn connect_to(&self, messages: Option<mpsc::Sender<String>>) -> Result<Link, StoreError> {
        // Each host has its own time; this bounds what comes after the connection was made, too.
        let hosts = u32::try_from(self.settings.hosts.len()).unwrap_or(u32::MAX);
        let time = self.settings.connect_timeout.saturating_mul(hosts.saturating_add(1));
        let connecting = self.config.connect(self.tls.clone());
        let (client, connection) = match self.env.timeout(time, connecting).await {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => return Err(connect_error(&self.settings, error)),
            Err(elapsed) => {
                let words = format!("connect to {}: {elapsed}", self.settings);
                return Err(StoreError::unavailable(Reason::caused(words, elapsed)));
            }
        };
        let task = tokio::spawn(serve(connection, messages)).abort_handle();
        let link = Link { client, task };
        self.admit(&link).await?;
        Ok(link)
    }

    /// Refuses a server that could not keep the contract.
    async fn admit(&self, link: &Link) -> Result<(), StoreError> {
        let query = "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(), \
            current_setting('transaction_read_only')::bool, current_setting('transaction_isolation'), \
            current_setting('fsync')::bool";
        let rows = self.query("look at the server", link, query, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::corrupt("PostgreSQL says nothing about itself"))?;
        let version: i32 = row.get(0);
        if version < OLDEST {
            return Err(StoreError::invalid(format!(
                "this is PostgreSQL {}.{}: the store needs {} or later",
                version / 10_000,
                version % 10_000,
                OLDEST / 10_000
            )));
        }
        if row.get(1) {
            return Err(StoreError::unavailable(format!(
                "{} is a standby, which may be behind and can't be written to: name the primary",
                self.settings
            )));
        }
        let remedy = |setting: &str, value: &str| {
            let Settings { user, database, .. } = self.settings();
            format!("ALTER ROLE {user} IN DATABASE {database} SET {setting} = '{value}'")
        };
        if row.get(2) {
            return Err(StoreError::unavailable(format!(
                "transactions are read-only here: if that is a setting, {}",
                remedy("default_transaction_read_only", "off")
            )));
        }
        let isolation: &str = row.get(3);
        if isolation != "read committed" {
            return Err(StoreError::invalid(format!(
                "the isolation level is {isolation:?} here, and the store needs to see what was committed while it waited: {}",
                remedy("default_transaction_isolation", "read committed")
            )));
        }
        if !row.get::<_, bool>(4) {
            tracing::warn!(store = %self.settings, "fsync is off: what is acknowledged may be lost in a crash");
        }
        Ok(())
    }

    /// Asks something that changes nothing, and waits for the answer no longer than it may take.
    pub(crate) async fn query(
        &self,
        doing: &str,
        link: &Link,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let asking = link.client.query_typed(statement, parameters);
        match self.env.timeout(self.settings.request_timeout, asking).await {
            Ok(answered) => answered.map_err(|error| store_error(doing, error)),
            Err(elapsed) => {
                link.abandon();
                Err(StoreError::unavailable(Reason::caused(format!("{doing}: {elapsed}"), elapsed)))
            }
        }
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the connection is known to be lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Gives up the connection and the answers that are still to come.
    pub(crate) fn abandon(&self) {
        self.task.abort();
    }
}

/// Reads and writes the socket until the connection is closed, and passes messages on.
async fn serve<S, T>(mut connection: Connection<S, T>, messages: Option<mpsc::Sender<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notification(message)) => {
                let Some(messages) = &messages else { continue };
                // Who can't keep up is told by the end of its messages, and starts anew.
                if messages.try_send(message.payload().to_owned()).is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection to PostgreSQL was lost");
                return;
            }
        }
    }
}
