//! [`Turn`]: processes that write to one file take turns, in the order in which they came.
//!
//! # What it promises
//! Between processes that keep asking, each gets a turn before any other gets its second. A process that dies gives up its turn at
//! once; one that stops (a signal, a debugger) holds the others up for [`PATIENCE`], once.
//!
//! It is about fairness only. SQLite's own lock decides who may write, and everything stays correct if turns are not kept.
//!
//! # How
//! The kernel's open-file locks (`F_OFD_SETLK`) on single bytes of a file, which it drops when their holder dies:
//!
//! 1. Whoever wants a turn locks the byte [`QUEUE`] for a moment, takes the next ticket number from the file, locks the byte of that
//!    ticket, and unlocks `QUEUE`.
//! 2. Its turn has come when it can lock every byte between the first ticket and its own: all who came before are done, or dead.
//! 3. When it is done, it writes which ticket was served and unlocks everything.
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
    sys::{stat::futimens, time::TimeSpec},
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

/// The bytes that are locked. They lie far behind the file's end, where nothing is ever written.
const QUEUE: i64 = 1 << 40;
const OPENING: i64 = QUEUE + 1;
const TICKETS: i64 = 1 << 41;

/// One process's place in the queue for a file. Each has its own open file, which is what the kernel knows a holder by.
#[derive(Debug)]
pub(crate) struct Turn {
    file: File,
    path: PathBuf,
    env: Env,
    /// Tickets up to this one are not waited for: they were given up on, or are known to be served.
    floor: i64,
}

/// A turn that has come. To be given back with [`Turn::finish`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket(Option<i64>);

impl Turn {
    /// The queue for the database at `path`.
    pub(crate) fn new(database: &Path, env: Env) -> Result<Self, StoreError> {
        let (path, file) = files::open_turn_file(database)?;
        Ok(Self { file, path, env, floor: 0 })
    }

    /// The file that [`Turn::tell`] touches.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until everybody who asked before is done. Gives up waiting, and goes ahead, if that takes too long or the file fails:
    /// SQLite's own lock is still between us and the others.
    pub(crate) fn take(&mut self) -> Ticket {
        match self.draw() {
            Ok(ticket) => {
                self.wait(ticket);
                Ticket(Some(ticket))
            }
            Err(error) => {
                tracing::debug!(file = %self.path.display(), %error, "going ahead without a turn");
                Ticket(None)
            }
        }
    }

    /// Gives the turn back.
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        let Ticket(Some(ticket)) = ticket else { return };
        // A failure costs fairness and nothing else; the next in line finds out by itself.
        let _ = self.file.write_all_at(&ticket.to_ne_bytes(), SERVED_AT);
        let _ = self.unlock(TICKETS, TICKETS + ticket + 1);
        self.floor = self.floor.max(ticket);
    }

    /// Tells the other processes that something was committed. Costs next to nothing where nobody listens.
    pub(crate) fn tell(&self) {
        // If it fails, watches find out by their slow re-read.
        let _ = futimens(&self.file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW);
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

    /// Takes the next ticket.
    fn draw(&mut self) -> io::Result<i64> {
        self.lock_patiently(QUEUE, TICKET_PATIENCE)?;
        let ticket = self.number(GIVEN_AT) + 1;
        let drawn = self.file.write_all_at(&ticket.to_ne_bytes(), GIVEN_AT);
        let drawn =
            drawn.and_then(|()| self.try_lock(TICKETS + ticket, TICKETS + ticket + 1).map(|_| ticket));
        let _ = self.unlock(QUEUE, QUEUE + 1);
        // The numbers start anew if somebody removed the file.
        self.floor = self.floor.min(ticket - 1);
        drawn
    }

    /// Waits until every earlier ticket is served or dead, or nobody was served for too long.
    fn wait(&mut self, ticket: i64) {
        let mut served = self.number(SERVED_AT);
        let mut since = self.env.now();
        loop {
            if self.floor + 1 == ticket {
                return;
            }
            match self.try_lock(TICKETS + self.floor + 1, TICKETS + ticket) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(file = %self.path.display(), %error, "going ahead without waiting");
                    return;
                }
            }
            let now = self.number(SERVED_AT);
            if now != served {
                (served, since) = (now, self.env.now());
            } else if self.env.now() - since > PATIENCE {
                tracing::debug!(file = %self.path.display(), ticket, served, "somebody ahead has stopped: not waiting for it any more");
                self.floor = ticket - 1;
                return;
            }
            let ahead = u32::try_from(ticket - served - 2).unwrap_or(0);
            thread::sleep((LOOK_SOONEST + STEP.saturating_mul(ahead)).min(LOOK_LATEST));
        }
    }

    fn number(&self, at: u64) -> i64 {
        let mut bytes = [0; 8];
        // A file too short is one that nobody has written to yet.
        let _ = self.file.read_exact_at(&mut bytes, at);
        i64::from_ne_bytes(bytes).clamp(0, TICKETS)
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

    fn unlock(&self, start: i64, end: i64) -> nix::Result<()> {
        self.set(libc::F_UNLCK, start, end)
    }

    fn set(&self, kind: i32, start: i64, end: i64) -> nix::Result<()> {
        debug_assert!(start < end, "a lock of no length would reach to the end of the file");
        #[allow(clippy::cast_possible_truncation, reason = "constants of the C library that fit")]
        let lock = libc::flock {
            l_type: kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: start,
            l_len: end - start,
            l_pid: 0,
        };
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock)).map(|_| ())
    }
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
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    fn turn(dir: &tempfile::TempDir) -> Turn {
        Turn::new(&dir.path().join("db"), Env::system()).unwrap()
    }

    #[test]
    fn turns_exclude_each_other_and_come_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (turn(&dir), turn(&dir));
        let ticket = first.take();
        let order = Arc::new(AtomicU64::new(0));
        let waiting = thread::spawn({
            let order = Arc::clone(&order);
            move || {
                let ticket = second.take();
                order.fetch_add(1, Ordering::SeqCst);
                second.finish(ticket);
            }
        });
        while first.number(GIVEN_AT) < 2 {
            thread::yield_now();
        }
        assert_eq!(order.load(Ordering::SeqCst), 0, "the second waits");
        first.finish(ticket);
        waiting.join().unwrap();
        assert_eq!(order.load(Ordering::SeqCst), 1);
        // Nothing is left locked.
        assert!(turn(&dir).try_lock(0, i64::MAX).unwrap());
    }

    #[test]
    fn a_dead_holder_gives_up_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let mut dying = turn(&dir);
        let _ticket = dying.take();
        drop(dying);
        let mut next = turn(&dir);
        let ticket = next.take();
        assert_eq!(next.floor, 0, "it was not given up on: its lock was gone");
        next.finish(ticket);
    }

    #[test]
    fn a_stopped_holder_is_waited_for_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut stopped = turn(&dir);
        let _ticket = stopped.take();
        let mut next = turn(&dir);
        let ticket = next.take();
        assert_eq!(next.floor, 1, "the first ticket was given up on");
        next.finish(ticket);
        let start = next.env.now();
        for _ in 0..100 {
            let ticket = next.take();
            next.finish(ticket);
        }
        let waited = next.env.now() - start;
        assert!(waited < PATIENCE * 50, "each of 100 turns waited anew: {waited:?}");
    }

    #[test]
    fn a_removed_file_costs_nothing_but_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut turns = turn(&dir);
        for _ in 0..3 {
            let ticket = turns.take();
            turns.finish(ticket);
        }
        turns.file.set_len(0).unwrap();
        let ticket = turns.take();
        assert_eq!(ticket.0, Some(1));
        turns.finish(ticket);
    }
}
