//! [`MysqlStore`]: the store itself.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tenure_store::{
    Commit, CommitError, Env, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Watch, WatchHub,
};

use crate::{
    Settings,
    commits::Commits,
    notice::Notice,
    pack,
    reads::Reads,
    schema,
    session::{Connector, Purpose},
    sql::Statements,
};

/// What the store takes from a server whose packets may be as large as they are by default. The procedure makes the operations of a commit
/// one after the other, at some 20 µs each.
const LIMITS: Limits = Limits {
    key_bytes: Limits::KEY_BYTES_MAX,
    value_bytes: 1024 * 1024,
    commit_operations: 1000,
    commit_bytes: 4 * 1024 * 1024,
    read_questions: 250,
    page_items: 10_000,
    page_bytes: 4 * 1024 * 1024,
};

/// What a packet needs to hold a commit of [`LIMITS`], whose operations each take some 30 bytes more than their names and values.
const LIMITS_PACKET_BYTES: u64 = 8 * 1024 * 1024;

/// A store in a database of MySQL or MariaDB: see the crate.
#[derive(Debug)]
pub struct MysqlStore {
    settings: Arc<Settings>,
    limits: Limits,
    commits: Commits,
    reads: Reads,
    notice: Notice,
    hub: WatchHub,
}

impl MysqlStore {
    /// Opens the store that a URL names, `mysql://user:password@host:port/database`, and makes its tables if they are not there. [`Settings`] has
    /// the options.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a URL, a password or rights that won't do, a server that is too old or not durable, and tables of another
    /// release; [`StoreError::Unavailable`] when no server can be reached that takes writes.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(Settings::from_url(url)?).await
    }

    /// Opens a store with these settings.
    ///
    /// # Errors
    /// As [`MysqlStore::open`].
    pub async fn open_with(settings: Settings) -> Result<Self, StoreError> {
        settings.validate()?;
        let settings = Arc::new(settings);
        let connector = Connector::new(Arc::clone(&settings), Env::system())?;
        let statements = Arc::new(Statements::new(&settings.prefix));
        let mut session = connector.connect(Purpose::Write).await?;
        schema::prepare(&connector, &mut session, &statements).await?;
        let limits = if session.packet_bytes < LIMITS_PACKET_BYTES {
            Limits::PORTABLE
        } else {
            connector.demand(LIMITS_PACKET_BYTES);
            LIMITS
        };
        let hub = WatchHub::new();
        let commits = Commits::new(&connector, &statements, &hub);
        commits.lend(session);
        let reads = Reads::new(&connector, &statements, limits.page_bytes);
        let notice = Notice::start(&connector, &statements, &hub);
        Ok(Self { settings, limits, commits, reads, notice, hub })
    }

    /// Takes no more requests: later ones are refused with [`StoreError::Closed`]. Those that wait are still answered, and then all
    /// connections are closed.
    ///
    /// Dropping the store does the same.
    pub fn close(&self) {
        self.commits.stop();
        self.reads.stop();
        self.notice.stop();
        self.hub.wake_all();
    }
}

impl fmt::Display for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

#[async_trait]
impl Store for MysqlStore {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.limits.admit_reads(&reads)?;
        pack::admit_ids(&reads)?;
        self.reads.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.limits.admit_commit(&commit)?;
        self.commits.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        let watch = self.hub.watch(range);
        self.notice.attend();
        watch
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}
