//! [`PostgresStore`]: the store itself.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tenure_store::{
    Commit, CommitError, Env, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Watch, WatchHub,
};

use crate::{
    Settings, committers::Committers, connection::Connector, herald::Herald, listener::Listener,
    readers::Readers, schema,
};

/// What the store takes. PostgreSQL itself would take values up to 1 GiB; these keep a request short.
const LIMITS: Limits = Limits {
    key_bytes: Limits::KEY_BYTES_MAX,
    value_bytes: 1024 * 1024,
    commit_operations: 10_000,
    commit_bytes: 16 * 1024 * 1024,
    read_questions: 1000,
    page_items: 10_000,
    page_bytes: 4 * 1024 * 1024,
};

/// A store in a PostgreSQL database: see the crate.
#[derive(Debug)]
pub struct PostgresStore {
    settings: Arc<Settings>,
    committers: Committers,
    readers: Readers,
    listener: Listener,
    hub: WatchHub,
}

impl PostgresStore {
    /// Opens the store that a URL names, `postgres://user:password@host:port/database?schema=name`, and makes its tables if they are
    /// not there. [`Settings`] has the other options.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a URL, a password or rights that won't do, a server that is too old, and a schema of
    /// another release; [`StoreError::Unavailable`] when the server can't be reached or can't be written to.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(Settings::from_url(url)?).await
    }

    /// Opens a store with these settings.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub async fn open_with(settings: Settings) -> Result<Self, StoreError> {
        settings.validate()?;
        let settings = Arc::new(settings);
        let env = Env::system();
        let process = env.random_u64().cast_signed();
        let connector = Connector::new(Arc::clone(&settings), env)?;
        schema::prepare(&connector).await?;
        let hub = WatchHub::new();
        let herald = Herald::start(connector.clone(), process);
        Ok(Self {
            settings,
            committers: Committers::start(&connector, process, &hub, &herald),
            readers: Readers::start(&connector, LIMITS),
            listener: Listener::start(connector, process, hub.clone(), herald),
            hub,
        })
    }

    /// Takes no more requests: later ones are refused with [`StoreError::Closed`]. Those that wait are still answered, and then all
    /// connections are closed.
    ///
    /// Dropping the store does the same.
    pub fn close(&self) {
        self.committers.stop();
        self.readers.stop();
        self.hub.wake_all();
    }
}

impl fmt::Display for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        LIMITS.admit_reads(&reads)?;
        Read::admit_numbered(&reads)?;
        self.readers.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        LIMITS.admit_commit(&commit)?;
        self.committers.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        let watch = self.hub.watch(range);
        self.listener.attend();
        watch
    }

    fn limits(&self) -> Limits {
        LIMITS
    }
}
