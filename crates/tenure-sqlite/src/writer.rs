//! [`Writer`]: the one thread of a process that writes. It makes all commits that wait in one transaction, with one flush.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;
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
    /// `None` in memory, where there are no other processes.
    turn: Option<Turn>,
    /// Marks our rows in the log of changes.
    writer: i64,
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
        turn: Option<Turn>,
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
            turn,
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
            let ticket = self.turn.as_mut().map(Turn::take);
            let changed = self.serve();
            if let (Some(turn), Some(ticket)) = (&mut self.turn, ticket) {
                turn.finish(ticket);
                if !changed.is_empty() {
                    turn.tell();
                }
            }
            self.hub.wake(changed);
        }
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
            Group::Failed(_) if requests.len() > 1 => {
                requests.into_iter().flat_map(|request| self.serve_alone(request)).collect()
            }
            group => answer(requests, group),
        }
    }

    fn serve_alone(&mut self, request: Request) -> BTreeSet<Range> {
        let group = match self.begin() {
            Ok(connection) => self.make(connection, std::slice::from_ref(&request)),
            Err(error) => Group::Failed(error),
        };
        answer(vec![request], group)
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
            // No room for the log: its last frame, which makes it a commit, was never written.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
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
        Group::Unknown(reason) => refuse(requests, &CommitError::OutcomeUnknown(reason)),
    }
    BTreeSet::new()
}

fn refuse(requests: Vec<Request>, error: &CommitError) {
    for request in requests {
        let _ = request.answer.send(Err(error.clone()));
    }
}
