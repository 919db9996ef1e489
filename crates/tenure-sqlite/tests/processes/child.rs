//! Worker processes, as the tests see them.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The first argument that makes this program a worker.
pub(crate) const WORKER: &str = "--worker";

/// How long to wait for a line that must come: far longer than it takes, on a machine that is busy with other things.
const LINE_TIME: Duration = Duration::from_secs(60);

/// A running worker. Killed when dropped.
pub(crate) struct Worker {
    process: Child,
    lines: Receiver<String>,
}

impl Worker {
    /// Starts a worker of this kind on a store.
    pub(crate) fn start(kind: &str, path: &Path, args: &[&str]) -> Self {
        Self::spawn(Self::command(kind, path, args))
    }

    /// The command that [`Worker::start`] runs.
    pub(crate) fn command(kind: &str, path: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(WORKER).arg(kind).arg(path).args(args);
        command
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        // The pipe is read at once, so that a worker never waits for the test.
        thread::spawn(move || {
            for line in output.split(b'\n') {
                let Ok(line) = line else { return };
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        Self { process, lines }
    }

    /// The next line, which must come.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(LINE_TIME).expect("the worker says something")
    }

    /// Lets a worker go on that waits for the word.
    pub(crate) fn go(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// Kills the worker and returns every line it said that has not been read. (The last may be cut short.)
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.rest()
    }

    /// Tells the worker to end, waits until it has, and returns every line it said that has not been read.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        self.rest()
    }

    fn rest(&mut self) -> Vec<String> {
        self.process.wait().unwrap();
        self.lines.iter().collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
