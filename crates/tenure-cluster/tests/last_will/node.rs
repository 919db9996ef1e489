//! Nodes, as the tests see them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tempfile::TempDir;
use tenure_store::Env;

use crate::roles;

/// How long something may take that must happen: far longer than it does, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long something is watched that must not happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(400);

/// A node with a last will, alone in its group. Killed when dropped, and gone with the executor of its will before its folder is.
pub(crate) struct Node {
    process: Child,
    output: BufReader<ChildStdout>,
    folder: TempDir,
    /// The process that keeps the will, and the session that is in it.
    pub(crate) executor: u32,
    pub(crate) session: String,
}

impl Node {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(roles::NODE).arg(folder.path()).env("PGPASSWORD", roles::SECRET);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut node = Self { process, output, folder, executor: 0, session: String::new() };
        node.learn();
        node
    }

    /// Lets it do something, and waits until that is done.
    pub(crate) fn does(&mut self, command: &str) {
        self.tell(command);
        self.learn();
    }

    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.process.stdin.as_ref().unwrap(), "{command}").unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn learn(&mut self) {
        let line = self.line();
        let (executor, session) = line.split_once(' ').unwrap();
        self.executor = executor.parse().unwrap();
        self.session = session.to_owned();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(pid(self.process.id()), signal).unwrap();
    }

    pub(crate) fn signal_group(&self, signal: Signal) {
        killpg(pid(self.process.id()), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) {
        self.process.wait().unwrap();
    }

    /// The sessions that were ended by now.
    pub(crate) fn ended(&self) -> Vec<String> {
        let done = fs::read_to_string(self.folder.path().join(roles::DONE)).unwrap_or_default();
        done.lines().map(str::to_owned).collect()
    }

    /// Waits until something was ended and the executor is gone; returns what was ended, and how long that took.
    pub(crate) fn await_end(&self, executor: u32) -> (Vec<String>, Duration) {
        let env = Env::system();
        let start = env.now();
        until(|| !self.ended().is_empty());
        let took = env.now() - start;
        until(|| !lives(executor));
        (self.ended(), took)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let env = Env::system();
        let start = env.now();
        while lives(self.executor) && env.now() - start < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

pub(crate) fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap())
}

/// Waits until it is so, which it must become.
pub(crate) fn until(mut so: impl FnMut() -> bool) {
    let env = Env::system();
    let start = env.now();
    while !so() {
        assert!(env.now() - start < PATIENCE, "it took too long");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A number from the status of a process.
pub(crate) fn status(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse().unwrap()
}

/// Whether there is such a process, a zombie included.
pub(crate) fn exists(process: u32) -> bool {
    fs::metadata(format!("/proc/{process}")).is_ok()
}

/// Whether there is such a process that has not ended.
pub(crate) fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
