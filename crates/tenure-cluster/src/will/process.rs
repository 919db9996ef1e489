//! [`Process`]: the executor of a will, as the node sees it.

use std::{
    env,
    ffi::OsString,
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use parking_lot::Mutex;
use tenure_store::Env;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::message::{self, ANSWER_BYTES};

/// The variables that the executor inherits: where to find the certificates that a store's server is checked against, and the program's libraries.
const ENVIRONMENT: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH"];

/// How often, and how long, to look whether a process that was killed is gone: half a second, where a millisecond is usual.
const REAP_LOOKS: usize = 500;
const REAP_PAUSE: Duration = Duration::from_millis(1);

/// As much as an error repeats of what the program said, and how long it is waited for.
const SAID_BYTES_MAX: usize = 500;
const SAID_PATIENCE: Duration = Duration::from_millis(100);

/// How many executors of dropped wills are kept until this process ends. More are only there where clusters are joined and dropped over and over, and then the
/// oldest sessions have long expired.
const DROPPED_MAX: usize = 16;

static DROPPED: Mutex<Vec<Armed>> = Mutex::new(Vec::new());

/// A running executor. Its pipe is never closed while it may still carry something out.
#[derive(Debug)]
pub(super) struct Process {
    /// `None` once it is gone.
    armed: Option<Armed>,
    answers: Receiver,
    complaints: Receiver,
    /// The beginning of an answer.
    partial: Vec<u8>,
}

/// What must stay together: to drop this means to tell the executor that we are dead.
#[derive(Debug)]
struct Armed {
    child: Child,
    wills: Sender,
}

impl Process {
    /// Starts a program, apart from everything that is ours.
    pub(super) fn spawn(program: &Path, arguments: &[String]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(environment()).current_dir("/");
        // A group of its own: Ctrl-C, and who kills our group, must leave it alive.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        match pipes(&mut child) {
            Ok((wills, answers, complaints)) => Ok(Self {
                armed: Some(Armed { child, wills }),
                answers,
                complaints,
                partial: Vec::with_capacity(ANSWER_BYTES),
            }),
            Err(error) => {
                end_now(&mut child);
                Err(error)
            }
        }
    }

    /// Its process id, while it is there.
    pub(super) fn id(&self) -> Option<u32> {
        self.armed.as_ref().map(|armed| armed.child.id())
    }

    /// Writes a whole message.
    ///
    /// # Cancel safety
    /// It is written as a whole or not at all.
    pub(super) async fn send(&self, message: &[u8]) -> io::Result<()> {
        debug_assert!(message.len() <= message::BYTES_MAX, "longer ones could be written in part");
        let Armed { wills, .. } = self.armed.as_ref().ok_or(ErrorKind::BrokenPipe)?;
        loop {
            wills.writable().await?;
            match wills.try_write(message) {
                Ok(count) if count == message.len() => return Ok(()),
                Ok(_) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next answer; `None` when there will be no more.
    ///
    /// # Cancel safety
    /// No part of an answer is lost.
    pub(super) async fn answer(&mut self) -> io::Result<Option<u64>> {
        loop {
            if let Ok(whole) = self.partial[..].try_into() {
                let number = message::answered(whole);
                self.partial.clear();
                return number.map(Some).ok_or_else(|| ErrorKind::InvalidData.into());
            }
            self.answers.readable().await?;
            let mut buffer = [0; ANSWER_BYTES];
            match self.answers.try_read(&mut buffer[self.partial.len()..]) {
                Ok(0) => return Ok(None),
                Ok(count) => self.partial.extend_from_slice(&buffer[self.partial.len()..][..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The beginning of what it said on its standard error, in one line.
    pub(super) async fn said(&mut self, env: &Env) -> String {
        let mut bytes = Vec::new();
        let reading = async {
            while bytes.len() < SAID_BYTES_MAX {
                self.complaints.readable().await?;
                let mut buffer = [0; SAID_BYTES_MAX];
                match self.complaints.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            io::Result::Ok(())
        };
        // What there is, is enough.
        let _ = env.timeout(SAID_PATIENCE, reading).await;
        bytes.truncate(SAID_BYTES_MAX);
        String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Kills it and waits until it is gone. Only then is its pipe closed.
    pub(super) async fn end(&mut self, env: &Env) {
        let Some(Armed { child, .. }) = &mut self.armed else { return };
        // It fails for a process that has ended, which is as good.
        let _ = child.kill();
        for _ in 0..REAP_LOOKS {
            // An error means that somebody else has reaped it.
            if !matches!(child.try_wait(), Ok(None)) {
                self.armed = None;
                return;
            }
            env.sleep(REAP_PAUSE).await;
        }
    }
}

/// The executor stays, and with it the pipe, until this process ends: so it can still be carried out, if that is soon, and not before.
impl Drop for Process {
    fn drop(&mut self) {
        let Some(armed) = self.armed.take() else { return };
        let mut dropped = DROPPED.lock();
        dropped.retain_mut(|armed| matches!(armed.child.try_wait(), Ok(None)));
        if dropped.len() == DROPPED_MAX {
            end_now(&mut dropped.remove(0).child);
        }
        dropped.push(armed);
    }
}

fn end_now(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn environment() -> Vec<(&'static str, OsString)> {
    ENVIRONMENT.into_iter().filter_map(|name| env::var_os(name).map(|value| (name, value))).collect()
}

fn pipes(child: &mut Child) -> io::Result<(Sender, Receiver, Receiver)> {
    let missing = || io::Error::from(ErrorKind::BrokenPipe);
    let wills = child.stdin.take().ok_or_else(missing)?;
    let answers = child.stdout.take().ok_or_else(missing)?;
    let complaints = child.stderr.take().ok_or_else(missing)?;
    Ok((
        Sender::from_owned_fd(OwnedFd::from(wills))?,
        Receiver::from_owned_fd(OwnedFd::from(answers))?,
        Receiver::from_owned_fd(OwnedFd::from(complaints))?,
    ))
}
