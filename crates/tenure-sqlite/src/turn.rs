//! [`Turn`]: processes that write to one file take turns, in the order in which they came.
//!
//! # What it promises
//! Between processes that keep asking, each gets a turn before any other gets its second. A process that dies gives up its turn at
//! once; one that stops (a signal, a debugger) holds each of the others up for a few times [`PATIENCE`] at most, once.
//!
//! It is about fairness only. SQLite's own lock decides who may write, and everything stays correct if turns are not kept.
//!
//! # How
//! The kernel's open-file locks (`F_OFD_SETLK`) on single bytes of a file, which it drops when their holder dies:
//!
//! 1. Whoever has the turn holds the byte [`HOLD`]. If it is free and nobody waits, it is taken at once: three calls of the kernel and
//!    nothing written is all that a process pays that is alone.
//! 2. Otherwise a ticket is drawn: the byte [`QUEUE`] is locked for a moment, the next number taken from the file, and the byte of that
//!    number locked. That is what waiting looks like to others.
//! 3. The turn has come when every byte of an earlier ticket can be locked, because all who came before are done or dead, and `HOLD` too.
//! 4. When it is over, the file says which ticket was served, and everything is unlocked.
//!
//! Waiting is done by trying again: soon if next in line, later if further back. Blocking in the kernel would be simpler, but can't be
//! bounded: one stopped process would stop all others.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};
use tenure_store::{Env, Reason, StoreError};

use crate::files;

/// How long a turn is waited for while nobody is served at all. Longer than any one turn should take, a slow disk's flush
/// included; short enough that a heartbeat passes.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long the lock for taking a ticket, which is held for microseconds, is tried for.
const TICKET_PATIENCE: Duration = Duration::from_millis(50);

/// About what one turn takes, to guess when to look again.
const STEP: Duration = Duration::from_micros(200);
const LOOK_SOONEST: Duration = Duration::from_micros(50);
const LOOK_LATEST: Duration = Duration::from_millis(2);

/// Where the file holds the last ticket given out, and the last one served: two numbers of eight bytes.
const GIVEN_AT: u64 = 0;
const SERVED_AT: u64 = 8;
const FILE_BYTES: u64 = 16;

/// The bytes that are locked. They lie far behind the file's end, where nothing is ever written. Ticket n has the nth byte behind `HOLD`.
const QUEUE: i64 = 1 << 40;
const OPENING: i64 = QUEUE + 1;
const HOLD: i64 = 1 << 41;

/// One process's place in the queue for a file. Each has its own open file, which is what the kernel knows a holder by.
#[derive(Debug)]
pub(crate) struct Turn {
    file: File,
    path: PathBuf,
    env: Env,
    /// Tickets up to this one are not waited for: they were given up on, or are known to be served.
    floor: i64,
    /// Whether whoever holds `HOLD` was given up on, and it has not been free since.
    hold_given_up: bool,
}

/// A turn that has come. To be given back with [`Turn::finish`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Ticket {
    /// Nobody else wanted it.
    Straight,
    /// This one's number was called.
    Drawn(i64),
    /// The file failed; there is no turn, but the work goes on.
    Failed,
}

impl Turn {
    /// The queue for the database at `path`.
    pub(crate) fn new(database: &Path, env: Env) -> Result<Self, StoreError> {
        let (path, file) = files::open_turn_file(database)?;
        let turn = Self { file, path, env, floor: 0, hold_given_up: false };
        turn.fill().map_err(|error| {
            StoreError::unavailable(Reason::caused(format!("write {}: {error}", turn.path.display()), error))
        })?;
        Ok(turn)
    }

    /// The file that [`Turn::tell`] reads.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until everybody who asked before is done. Gives up waiting, and goes ahead, if that takes too long or the file fails:
    /// SQLite's own lock is still between us and the others.
    pub(crate) fn take(&mut self) -> Ticket {
        let taken = match self.go_straight() {
            Ok(true) => Ok(Ticket::Straight),
            Ok(false) => self.draw().and_then(|ticket| self.wait(ticket).map(|()| Ticket::Drawn(ticket))),
            Err(error) => Err(error),
        };
        taken.unwrap_or_else(|error| {
            tracing::debug!(file = %self.path.display(), %error, "going ahead without a turn");
            Ticket::Failed
        })
    }

    /// Gives the turn back.
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        if let Ticket::Drawn(ticket) = ticket {
            // A failure costs fairness and nothing else; the next in line finds out by itself.
            let _ = self.file.write_all_at(&ticket.to_ne_bytes(), SERVED_AT);
            self.floor = self.floor.max(ticket);
        }
        let _ = self.unlock(HOLD, i64::MAX);
    }

    /// Tells the other processes that something was committed: the kernel tells them that the file was read. Writing would cost the next
    /// flush more, since the file system flushes what was written anywhere.
    pub(crate) fn tell(&self) {
        // If it fails, watches find out by their slow re-read.
        let _ = self.file.read_at(&mut [0], 0);
    }

    /// Waits until nobody else is making or opening the database; holds the others off until dropped.
    pub(crate) fn opening(&self, patience: Duration) -> Result<Opening<'_>, StoreError> {
        match self.lock_patiently(OPENING, patience) {
            Ok(()) => Ok(Opening(self)),
            Err(error) => Err(StoreError::unavailable(Reason::caused(
                format!(
                    "another process has been opening this store for longer than {patience:?}: try again"
                ),
                error,
            ))),
        }
    }

    /// Makes the file as long as it must be: an empty one has nothing to read, and telling is reading.
    fn fill(&self) -> io::Result<()> {
        if self.file.metadata()?.len() < FILE_BYTES { self.file.set_len(FILE_BYTES) } else { Ok(()) }
    }

    /// Takes the turn if nobody has it and nobody waits for it.
    fn go_straight(&mut self) -> io::Result<bool> {
        if !self.try_lock(HOLD, HOLD + 1)? {
            return Ok(false);
        }
        self.hold_given_up = false;
        if self.is_locked(HOLD + self.floor + 1, i64::MAX)? {
            self.unlock(HOLD, HOLD + 1)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Takes the next ticket.
    fn draw(&mut self) -> io::Result<i64> {
        self.lock_patiently(QUEUE, TICKET_PATIENCE)?;
        let ticket = self.number(GIVEN_AT) + 1;
        let drawn = self.file.write_all_at(&ticket.to_ne_bytes(), GIVEN_AT);
        let drawn = drawn.and_then(|()| self.try_lock(HOLD + ticket, HOLD + ticket + 1).map(|_| ticket));
        let _ = self.unlock(QUEUE, QUEUE + 1);
        // The numbers start anew if somebody removed the file.
        self.floor = self.floor.min(ticket - 1);
        drawn
    }

    /// Waits until every earlier ticket is served or dead and nobody has the turn, or nobody was served for too long.
    fn wait(&mut self, ticket: i64) -> io::Result<()> {
        let mut served = self.number(SERVED_AT);
        let mut since = self.env.now();
        loop {
            let first = self.floor + 1 == ticket || self.try_lock(HOLD + self.floor + 1, HOLD + ticket)?;
            if first && self.try_lock(HOLD, HOLD + 1)? {
                self.hold_given_up = false;
                return Ok(());
            }
            let now = self.number(SERVED_AT);
            if now != served {
                (served, since) = (now, self.env.now());
            } else if self.env.now() - since > PATIENCE || first && self.hold_given_up {
                tracing::debug!(file = %self.path.display(), ticket, served, "somebody ahead has stopped: not waiting for it any more");
                self.floor = ticket - 1;
                self.hold_given_up |= first;
                return Ok(());
            }
            let ahead = u32::try_from(ticket - served - 2).unwrap_or(0);
            thread::sleep((LOOK_SOONEST + STEP.saturating_mul(ahead)).min(LOOK_LATEST));
        }
    }

    fn number(&self, at: u64) -> i64 {
        let mut bytes = [0; 8];
        // A file too short is one that nobody has written to yet.
        let _ = self.file.read_exact_at(&mut bytes, at);
        i64::from_ne_bytes(bytes).clamp(0, HOLD)
    }

    fn lock_patiently(&self, byte: i64, patience: Duration) -> io::Result<()> {
        let start = self.env.now();
        while !self.try_lock(byte, byte + 1)? {
            if self.env.now() - start > patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(LOOK_SOONEST);
        }
        Ok(())
    }

    fn try_lock(&self, start: i64, end: i64) -> io::Result<bool> {
        match self.set(libc::F_WRLCK, start, end) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether anybody else has locked any of these bytes.
    fn is_locked(&self, start: i64, end: i64) -> io::Result<bool> {
        let mut lock = flock(libc::F_WRLCK, start, end);
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }

    fn unlock(&self, start: i64, end: i64) -> nix::Result<()> {
        self.set(libc::F_UNLCK, start, end)
    }

    fn set(&self, kind: i32, start: i64, end: i64) -> nix::Result<()> {
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&flock(kind, start, end))).map(|_| ())
    }
}

fn flock(kind: i32, start: i64, end: i64) -> libc::flock {
    debug_assert!(start < end, "a lock of no length would reach to the end of the file");
    #[allow(clippy::cast_possible_truncation, reason = "constants of the C library that fit")]
    let (l_type, l_whence) = (kind as i16, libc::SEEK_SET as i16);
    libc::flock { l_type, l_whence, l_start: start, l_len: end - start, l_pid: 0 }
}

/// Holds off other processes that want to open the database.
pub(crate) struct Opening<'a>(&'a Turn);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock(OPENING, OPENING + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    fn turn(dir: &tempfile::TempDir) -> Turn {
        Turn::new(&dir.path().join("db"), Env::system()).unwrap()
    }

    /// Takes and gives back a turn, and returns how it was had.
    fn pass(turns: &mut Turn) -> String {
        let ticket = turns.take();
        let how = format!("{ticket:?}");
        turns.finish(ticket);
        how
    }

    #[test]
    fn whoever_is_alone_goes_straight() {
        let dir = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (turn(&dir), turn(&dir));
        for _ in 0..3 {
            assert_eq!(pass(&mut first), "Straight");
            assert_eq!(pass(&mut second), "Straight");
        }
        assert_eq!(first.number(GIVEN_AT), 0, "nothing was written");
    }

    #[test]
    fn turns_exclude_each_other_and_come_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = turn(&dir);
        let ticket = first.take();
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting: Vec<_> = (1..=3)
            .map(|number| {
                let (mut turns, order) = (turn(&dir), Arc::clone(&order));
                let waiting = thread::spawn(move || {
                    let ticket = turns.take();
                    order.lock().push(format!("{ticket:?}"));
                    turns.finish(ticket);
                });
                while first.number(GIVEN_AT) < number {
                    thread::yield_now();
                }
                waiting
            })
            .collect();
        assert!(order.lock().is_empty(), "they wait");
        first.finish(ticket);
        assert_eq!(pass(&mut first), "Drawn(4)", "whoever was there before comes first");
        for waiting in waiting {
            waiting.join().unwrap();
        }
        assert_eq!(*order.lock(), ["Drawn(1)", "Drawn(2)", "Drawn(3)"]);
        assert!(!first.is_locked(0, i64::MAX).unwrap(), "nothing is left locked");
    }

    #[test]
    fn a_dead_holder_gives_up_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let mut dying = turn(&dir);
        let _ticket = dying.take();
        drop(dying);
        let mut next = turn(&dir);
        assert_eq!(pass(&mut next), "Straight");
    }

    #[test]
    fn a_stopped_holder_is_waited_for_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut stopped = turn(&dir);
        let ticket = stopped.take();
        let mut next = turn(&dir);
        assert_eq!(pass(&mut next), "Drawn(1)");
        assert!(next.hold_given_up);
        let start = next.env.now();
        for _ in 0..100 {
            let _ = pass(&mut next);
        }
        let waited = next.env.now() - start;
        assert!(waited < PATIENCE * 50, "each of 100 turns waited anew: {waited:?}");
        stopped.finish(ticket);
        assert_eq!(pass(&mut next), "Straight", "all is well again");
    }

    #[test]
    fn a_stopped_waiter_is_waited_for_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut stopped, mut next) = (turn(&dir), turn(&dir));
        assert_eq!(stopped.draw().unwrap(), 1);
        assert_eq!(pass(&mut next), "Drawn(2)");
        assert!(next.floor == 2 && !next.hold_given_up);
        assert_eq!(pass(&mut next), "Straight");
    }

    #[test]
    fn a_cut_file_costs_nothing_but_order() {
        let dir = tempfile::tempdir().unwrap();
        let (mut turns, mut other) = (turn(&dir), turn(&dir));
        for _ in 0..3 {
            let ticket = other.take();
            let drawn = turns.draw().unwrap();
            other.finish(ticket);
            turns.wait(drawn).unwrap();
            turns.finish(Ticket::Drawn(drawn));
        }
        assert_eq!(turns.floor, 3);
        turns.file.set_len(0).unwrap();
        assert_eq!(turns.draw().unwrap(), 1);
        turns.wait(1).unwrap();
        turns.finish(Ticket::Drawn(1));
    }
}
