//! [`SqliteStore`]: the store itself.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use tenure_store::{
    Commit, CommitError, Env, Limits, Range, Read, Reason, Receipt, Snapshot, Store, StoreError, Watch,
    WatchHub,
};

use crate::{
    Location, Settings, files,
    notice::Notice,
    reader::Readers,
    schema,
    turn::Turn,
    writer::{Access, Writer},
};

/// Held while a file is made and opened for the first time: [`files::create`] says why no other thread may be at it.
static OPENING: Mutex<()> = Mutex::new(());

/// A store in a SQLite file that many processes of one machine share, or in memory: see the crate.
#[derive(Debug)]
pub struct SqliteStore {
    location: Location,
    writer: Writer,
    readers: Readers,
    hub: WatchHub,
    /// `None` in memory, where there is nobody else to notice.
    notice: Option<Notice>,
}

/// What a store has done in this process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many commits were made.
    pub commits: u64,
    /// In how many transactions, each with one flush.
    pub transactions: u64,
}

impl SqliteStore {
    /// Opens the store that a URL names, `sqlite:path` or `sqlite::memory:`, and makes it if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a path that can't be written to, a foreign file or one of a newer release;
    /// [`StoreError::Corrupt`] for a damaged file; [`StoreError::Full`] and [`StoreError::Unavailable`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(Settings::from_url(url)?).await
    }

    /// Opens a store with these settings.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub async fn open_with(settings: Settings) -> Result<Self, StoreError> {
        settings.validate()?;
        let opening = tokio::task::spawn_blocking(move || match &settings.location {
            Location::File(path) => Self::open_file(&settings, path),
            Location::Memory => Self::open_memory(&settings),
        });
        opening.await.map_err(|error| StoreError::unavailable(Reason::caused("open the store", error)))?
    }

    fn open_file(settings: &Settings, path: &Path) -> Result<Self, StoreError> {
        let opening = OPENING.lock();
        let path = files::create(path, &opening)?;
        let own = Settings { location: Location::File(path.clone()), ..settings.clone() };
        let env = Env::system();
        let writer_id = env.random_u64().cast_signed();
        let turn = Turn::new(&path, env)?;
        schema::prepare(&path, &own, &turn)?;
        drop(opening);
        let hub = WatchHub::new();
        let notice = Notice::start(&own, hub.clone(), turn.path(), writer_id)?;
        let readers = (0..own.readers).map(|_| schema::connect(&own)).collect::<Result<_, _>>()?;
        let connection = schema::connect(&own)?;
        let writer = Writer::start(&own, hub.clone(), connection, Access::Shared(turn), writer_id)?;
        let readers = Readers::start(readers, None)?;
        Ok(Self { location: settings.location.clone(), writer, readers, hub, notice: Some(notice) })
    }

    fn open_memory(settings: &Settings) -> Result<Self, StoreError> {
        let name = schema::memory_name();
        let mut connection = schema::connect_memory(&name, settings)?;
        schema::prepare_memory(&mut connection)?;
        let readers = (0..settings.readers)
            .map(|_| schema::connect_memory(&name, settings))
            .collect::<Result<_, _>>()?;
        let hub = WatchHub::new();
        let gate = Arc::new(RwLock::new(()));
        let writer = Writer::start(settings, hub.clone(), connection, Access::Gated(Arc::clone(&gate)), 0)?;
        let readers = Readers::start(readers, Some(gate))?;
        Ok(Self { location: settings.location.clone(), writer, readers, hub, notice: None })
    }

    /// What this store has done in this process so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.writer.stats()
    }

    /// Makes every commit that waits, then closes the files; blocks until that is done. Later requests are refused with
    /// [`StoreError::Closed`].
    ///
    /// Dropping the store makes the commits that wait, too, without waiting for them.
    pub fn close(&self) {
        self.writer.stop();
        self.readers.stop();
        if let Some(notice) = &self.notice {
            notice.stop();
        }
        self.hub.wake_all();
    }
}

impl fmt::Display for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.limits().admit_reads(&reads)?;
        Read::admit_numbered(&reads)?;
        self.readers.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.limits().admit_commit(&commit)?;
        self.writer.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        let watch = self.hub.watch(range);
        if let Some(notice) = &self.notice {
            notice.attend();
        }
        watch
    }

    fn limits(&self) -> Limits {
        Limits::EMBEDDED
    }
}
