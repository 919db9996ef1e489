//! [`Notice`]: notices what other processes commit, and wakes the watches that it concerns.
//!
//! A thread sleeps until the kernel says that somebody read the turn file, which every process does after its commits, or until
//! the slow re-read is due. Then it reads the new rows of `changes`. While nobody watches it sleeps for good.

use std::{
    os::fd::AsFd as _,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        eventfd::{EfdFlags, EventFd},
        inotify::{AddWatchFlags, InitFlags, Inotify},
    },
};
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use tenure_store::{Reason, StoreError, WatchHub};

use crate::{Settings, changes, error::store_error, schema, sql};

/// A pause between two looks, so that a busy neighbour costs a few hundred looks a second and not thousands.
const PAUSE: Duration = Duration::from_millis(2);

/// How often to look where the kernel gives no messages.
const POLL: Duration = Duration::from_millis(10);

/// With more news than this, waking everybody is cheaper than reading whom.
const NEWS_MAX: usize = 1000;

/// The thread that notices, and the bell that gets its attention.
#[derive(Debug)]
pub(crate) struct Notice {
    bell: Arc<EventFd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Watcher {
    settings: Settings,
    hub: WatchHub,
    /// The messages of the kernel, where it gives any.
    messages: Option<Inotify>,
    bell: Arc<EventFd>,
    connection: Connection,
    /// Changes up to this version have been told to the hub.
    seen: u64,
    /// Marks our own rows, which the writer has told the hub of.
    writer: i64,
}

/// What a group changed, as [`changes::encode`] wrote it.
type Names = Option<Vec<u8>>;

/// What was committed since the last look.
struct News {
    /// The last version.
    last: u64,
    /// What others changed up to it; `None` if that is too much to read, or no longer known.
    changes: Option<Vec<Names>>,
}

impl Notice {
    /// Starts to notice changes that are not by `writer`.
    pub(crate) fn start(
        settings: &Settings,
        hub: WatchHub,
        turn_file: &Path,
        writer: i64,
    ) -> Result<Self, StoreError> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let bell =
            Arc::new(bell.map_err(|error| StoreError::unavailable(Reason::caused("make a bell", error)))?);
        let messages = listen(turn_file)
            .inspect_err(|error| {
                tracing::warn!(store = %settings.location, %error,
                    "the kernel gives no messages about files (see fs.inotify.max_user_instances): watches look every {POLL:?} instead");
            })
            .ok();
        let connection = schema::connect(settings)?;
        let seen =
            sql::last_version(&connection).map_err(|error| store_error("read the last version", error))?;
        let bell_of_thread = Arc::clone(&bell);
        let watcher = Watcher {
            settings: settings.clone(),
            hub,
            messages,
            bell: bell_of_thread,
            connection,
            seen,
            writer,
        };
        let thread = thread::Builder::new().name("tenure-notice".into()).spawn(move || watcher.run());
        let thread =
            thread.map_err(|error| StoreError::unavailable(Reason::caused("start a thread", error)))?;
        Ok(Self { bell, thread: Mutex::new(Some(thread)) })
    }

    /// There is a new watch: if it is the first, somebody wants to know from now on.
    pub(crate) fn attend(&self) {
        // It can't fail: nobody makes 2^62 watches between two looks.
        let _ = self.bell.write(1);
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            let _ = self.bell.write(STOP);
            let _ = thread.join();
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Rung once, it ends the thread: far more than all calls for attention can add up to.
const STOP: u64 = 1 << 62;

fn listen(turn_file: &Path) -> nix::Result<Inotify> {
    let messages = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    // Those who wait for a turn read the file too; looking once more often does no harm.
    messages.add_watch(turn_file, AddWatchFlags::IN_ACCESS)?;
    Ok(messages)
}

impl Watcher {
    fn run(mut self) {
        while self.sleep() {
            if self.hub.count() == 0 {
                continue;
            }
            if let Err(error) = self.look() {
                // Whatever it was, nobody must sleep through a change because of it.
                tracing::debug!(store = %self.settings.location, %error, "can't read what changed: waking every watch");
                self.hub.wake_all();
            }
            thread::sleep(PAUSE);
        }
    }

    /// Sleeps until there may be news. Returns `false` when it is time to stop.
    fn sleep(&self) -> bool {
        let timeout = match (self.hub.count(), &self.messages) {
            (0, _) => PollTimeout::NONE,
            (_, Some(_)) => PollTimeout::try_from(self.settings.reread).unwrap_or(PollTimeout::MAX),
            (_, None) => PollTimeout::try_from(POLL).unwrap_or(PollTimeout::MAX),
        };
        let mut sources = vec![PollFd::new(self.bell.as_fd(), PollFlags::POLLIN)];
        if let Some(messages) = self.messages.as_ref().filter(|_| self.hub.count() > 0) {
            sources.push(PollFd::new(messages.as_fd(), PollFlags::POLLIN));
        }
        // Interrupted or not, the next thing is to look.
        let _ = poll(&mut sources, timeout);
        if let Some(messages) = &self.messages {
            // The kernel folds equal messages that nobody has read into one.
            while messages.read_events().is_ok_and(|events| !events.is_empty()) {}
        }
        self.bell.read().map_or(true, |rung| rung < STOP)
    }

    /// Tells the hub of everything that others committed since the last look.
    fn look(&mut self) -> Result<(), StoreError> {
        let News { last, changes } = self.news().map_err(|error| store_error("read what changed", error))?;
        self.seen = last;
        match changes {
            None => self.hub.wake_all(),
            Some(changes) => {
                for names in changes {
                    self.hub.wake(changes::decode(names)?);
                }
            }
        }
        Ok(())
    }

    fn news(&mut self) -> rusqlite::Result<News> {
        let transaction = self.connection.transaction()?;
        let last = sql::last_version(&transaction)?;
        if last == self.seen {
            return Ok(News { last, changes: Some(Vec::new()) });
        }
        // A row tells of all versions since the row before it. If the row for what we saw last is gone, so may others be.
        let known = transaction
            .prepare_cached("SELECT 1 FROM changes WHERE version <= ?1 LIMIT 1")?
            .exists([self.seen])?;
        let query = "SELECT writer, names FROM changes WHERE version > ?1 ORDER BY version LIMIT ?2";
        let mut query = transaction.prepare_cached(query)?;
        let rows = query.query_map(params![self.seen, NEWS_MAX + 1], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows: Vec<(i64, Names)> = rows.collect::<Result<_, _>>()?;
        if !known || rows.len() > NEWS_MAX {
            return Ok(News { last, changes: None });
        }
        let others = rows.into_iter().filter(|(writer, _)| *writer != self.writer);
        Ok(News { last, changes: Some(others.map(|(_, names)| names).collect()) })
    }
}
