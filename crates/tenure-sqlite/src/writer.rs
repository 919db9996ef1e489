//! [`Writer`]: the one thread of a process that writes. It makes all commits that wait in one transaction, with one flush.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, ErrorCode, params};
use tenure_store::{
    Commit, CommitError, Conflict, Range, Reason, Receipt, StoreError, Version, WatchHub, Write,
};
use tokio::sync::oneshot;

use crate::{Location, Settings, Stats, changes, error::store_error, queue::Queue, schema, sql, turn::Turn};

/// The most commits of one transaction: bounds how long a turn takes. At some 10 µs each, a few milliseconds.
const GROUP_MAX: usize = 256;

/// How many versions the log of changes reaches back, at least. A process that has missed more wakes all its watches.
const CHANGES_KEPT: u64 = 4096;

/// The log of changes is shortened each time the version passes a multiple of this.
const CHANGES_SWEEP: u64 = 1024;

/// The length of the log is looked at each time so many transactions were made.
const LOG_LOOKS: u32 = 16;

/// How long to wait for readers when the log is to be started anew. Others wait for their turn meanwhile.
const LOG_WAIT: Duration = Duration::from_millis(50);

/// The commits that wait, and the thread that makes them.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Queue<Request>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    commits: AtomicU64,
    transactions: AtomicU64,
}

#[derive(Debug)]
struct Request {
    commit: Commit,
    answer: oneshot::Sender<Result<Receipt, CommitError>>,
}

/// What the thread works with.
struct Worker {
    settings: Settings,
    queue: Queue<Request>,
    hub: WatchHub,
    counts: Arc<Counts>,
    /// `None` after a failure that leaves doubts about it; then a new one is made.
    connection: Option<Connection>,
    access: Access,
    /// How many transactions were made since the length of the log was looked at.
    unlooked: u32,
    /// How long the log may be before it is started anew: twice as long as when that failed, if it did.
    log_max: u64,
    /// Marks our rows in the log of changes.
    writer: i64,
}

/// Who else is at the database.
#[derive(Debug)]
pub(crate) enum Access {
    /// Other processes, with which turns are taken.
    Shared(Turn),
    /// In memory: only our own readers. SQLite would have them and us wait for each other by trying again; a lock does it better.
    Gated(Arc<RwLock<()>>),
}

/// What came of a transaction.
enum Group {
    /// It is on disk, or there was nothing to write.
    Done(Applied),
    /// Nothing was written, because of this.
    Failed(StoreError),
    /// The flush failed: after a crash, what was written may be there or may not.
    Unknown(Reason),
}

/// Commits that were made one after another.
struct Applied {
    /// Each request's answer.
    answers: Vec<Result<Receipt, Conflict>>,
    changed: BTreeSet<Range>,
}

impl Writer {
    pub(crate) fn start(
        settings: &Settings,
        hub: WatchHub,
        connection: Connection,
        access: Access,
        writer: i64,
    ) -> Result<Self, StoreError> {
        let queue = Queue::new();
        let counts = Arc::new(Counts::default());
        let worker = Worker {
            settings: settings.clone(),
            queue: queue.clone(),
            hub,
            counts: Arc::clone(&counts),
            connection: Some(connection),
            access,
            unlooked: 0,
            log_max: schema::WAL_BYTES_MAX,
            writer,
        };
        let thread = thread::Builder::new().name("tenure-write".into()).spawn(move || worker.run());
        let thread =
            thread.map_err(|error| StoreError::unavailable(Reason::caused("start a thread", error)))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)), counts })
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let (answer, answered) = oneshot::channel();
        let closed = || StoreError::Closed(Reason::new("it was closed by this process: open it again"));
        self.queue.push(Request { commit, answer }).map_err(|_| closed())?;
        answered
            .await
            .unwrap_or_else(|_| Err(CommitError::unknown("the writer ended in the middle of a commit")))
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            commits: self.counts.commits.load(Ordering::Relaxed),
            transactions: self.counts.transactions.load(Ordering::Relaxed),
        }
    }

    /// Makes the commits that wait, then ends.
    pub(crate) fn stop(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Worker {
    fn run(mut self) {
        let _served = self.queue.served();
        while self.queue.wait() {
            let changed = self.serve_in_turn();
            self.hub.wake(changed);
        }
    }

    fn serve_in_turn(&mut self) -> BTreeSet<Range> {
        let ticket = match &mut self.access {
            Access::Shared(turn) => turn.take(),
            Access::Gated(gate) => {
                let gate = Arc::clone(gate);
                let _passed = gate.write();
                return self.serve();
            }
        };
        let changed = self.serve();
        self.keep_the_log_short();
        if let Access::Shared(turn) = &mut self.access {
            turn.finish(ticket);
            if !changed.is_empty() {
                turn.tell();
            }
        }
        changed
    }

    /// Makes one group of commits and answers each. Returns what changed.
    fn serve(&mut self) -> BTreeSet<Range> {
        let connection = match self.begin() {
            Ok(connection) => connection,
            Err(error) => {
                refuse(self.queue.take(usize::MAX), &CommitError::Failed(error));
                return BTreeSet::new();
            }
        };
        // Whoever came while we waited for our turn is taken along.
        let requests = self.queue.take(GROUP_MAX);
        match self.make(connection, &requests) {
            // One that can't be made must not fail the others: each again, alone.
            Group::Failed(_) if requests.len() > 1 => self.serve_one_by_one(requests),
            group => answer(requests, group),
        }
    }

    fn serve_one_by_one(&mut self, requests: Vec<Request>) -> BTreeSet<Range> {
        let mut changed = BTreeSet::new();
        let mut requests = requests.into_iter();
        while let Some(request) = requests.next() {
            match self.begin() {
                Ok(connection) => {
                    let group = self.make(connection, std::slice::from_ref(&request));
                    changed.extend(answer(vec![request], group));
                }
                Err(error) => {
                    refuse(std::iter::once(request).chain(requests.by_ref()), &CommitError::Failed(error));
                }
            }
        }
        changed
    }

    /// Starts a transaction that may write, when SQLite lets us.
    fn begin(&mut self) -> Result<Connection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => schema::connect(&self.settings)?,
        };
        match connection.execute_batch("BEGIN IMMEDIATE") {
            Ok(()) => Ok(connection),
            Err(error) => {
                let busy = error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
                // A connection that could not begin is as good as before.
                self.connection = Some(connection);
                let wait = self.settings.busy_wait;
                Err(if busy {
                    StoreError::unavailable(Reason::caused(
                        format!(
                            "another process has been writing to {} for longer than {wait:?}: find out which, or try again",
                            self.settings.location
                        ),
                        error,
                    ))
                } else {
                    store_error("begin to write", error)
                })
            }
        }
    }

    /// Makes all commits within the transaction that was begun, and ends it.
    fn make(&mut self, connection: Connection, requests: &[Request]) -> Group {
        let applied = match self.apply(&connection, requests) {
            Ok(applied) => applied,
            Err(error) => {
                self.roll_back(connection);
                return Group::Failed(store_error("commit", error));
            }
        };
        if applied.changed.is_empty() {
            self.roll_back(connection);
            return Group::Done(applied);
        }
        match connection.execute_batch("COMMIT") {
            Ok(()) => {
                self.connection = Some(connection);
                self.counts.transactions.fetch_add(1, Ordering::Relaxed);
                let made = applied.answers.iter().filter(|answer| answer.is_ok()).count();
                self.counts.commits.fetch_add(made as u64, Ordering::Relaxed);
                Group::Done(applied)
            }
            // No room for the log, so its last frame, which makes it a commit, was never written; or, in memory, somebody in the way.
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy)
                ) =>
            {
                self.roll_back(connection);
                Group::Failed(store_error("commit", error))
            }
            // The log was written and could not be flushed: it may or may not survive. This connection is not used again.
            Err(error) => Group::Unknown(Reason::caused(format!("flush a commit: {error}"), error)),
        }
    }

    /// Makes the commits one after another, and logs what they change.
    fn apply(&self, connection: &Connection, requests: &[Request]) -> rusqlite::Result<Applied> {
        let before = sql::last_version(connection)?;
        let mut version = before;
        let mut answers = Vec::with_capacity(requests.len());
        let mut changed = BTreeSet::new();
        for Request { commit, .. } in requests {
            let next = if commit.writes.is_empty() { version } else { version + 1 };
            let applied = sql::apply(connection, commit, next)?;
            if applied.is_ok() {
                version = next;
                changed.extend(commit.writes.iter().map(Write::range));
            }
            answers.push(applied.map(|()| Receipt { version: Version(next) }));
        }
        if version > before {
            let log = "INSERT INTO changes (version, writer, names) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(log)?.execute(params![
                version,
                self.writer,
                changes::encode(changed.iter())
            ])?;
        }
        if version / CHANGES_SWEEP > before / CHANGES_SWEEP {
            let sweep = "DELETE FROM changes WHERE version < ?1";
            connection.prepare_cached(sweep)?.execute([version.saturating_sub(CHANGES_KEPT)])?;
        }
        Ok(Applied { answers, changed })
    }

    /// Starts the log anew when it has grown too long. SQLite does that by itself, but never while reads overlap without a gap: this waits
    /// for a gap, a little. Called with the turn, so that nobody makes it longer meanwhile.
    fn keep_the_log_short(&mut self) {
        self.unlooked += 1;
        let (Location::File(path), Some(connection)) = (&self.settings.location, &self.connection) else {
            return;
        };
        if self.unlooked < LOG_LOOKS {
            return;
        }
        self.unlooked = 0;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let bytes = std::fs::metadata(log).map_or(0, |log| log.len());
        if bytes <= self.log_max {
            return;
        }
        let _ = connection.busy_timeout(LOG_WAIT);
        let busy = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0));
        let _ = connection.busy_timeout(self.settings.busy_wait);
        // A reader that stays in the way, perhaps of a process that was stopped, must not cost everybody this wait all the time.
        self.log_max = if busy == Ok(false) { schema::WAL_BYTES_MAX } else { 2 * bytes };
    }

    /// Ends a transaction without writing anything. A connection on which even that fails is not used again.
    fn roll_back(&mut self, connection: Connection) {
        // SQLite has rolled back by itself after some errors.
        if connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok() {
            self.connection = Some(connection);
        } else if self.settings.location == Location::Memory {
            tracing::error!("a transaction in memory could not be rolled back");
            self.connection = Some(connection);
        }
    }
}

/// Gives each request its answer. Whoever has gone does not get it.
fn answer(requests: Vec<Request>, group: Group) -> BTreeSet<Range> {
    match group {
        Group::Done(Applied { answers, changed }) => {
            for (request, answer) in requests.into_iter().zip(answers) {
                let _ = request.answer.send(answer.map_err(CommitError::Conflict));
            }
            return changed;
        }
        Group::Failed(error) => refuse(requests, &CommitError::Failed(error)),
        Group::Unknown(reason) => {
            refuse(requests, &CommitError::OutcomeUnknown(reason));
            // It may be there; then nobody must sleep through it.
            return BTreeSet::from([Range::all()]);
        }
    }
    BTreeSet::new()
}

fn refuse(requests: impl IntoIterator<Item = Request>, error: &CommitError) {
    for request in requests {
        let _ = request.answer.send(Err(error.clone()));
    }
}
