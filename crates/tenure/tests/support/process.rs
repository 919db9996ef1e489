//! [`Worker`]: a worker process, as the test sees it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tenure::store::Env;

/// The first argument that makes this program a worker.
pub(crate) const WORKER: &str = "--worker";

/// How long something may take that must happen: far longer than it does, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Between two looks for something that must happen. Nothing is measured by it.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// What a worker is to do.
pub(crate) trait Post {
    /// What it is called when something is told of it.
    fn name(&self) -> &str;

    /// What it needs to know, as its arguments.
    fn to_arguments(&self) -> Vec<String>;
}

/// A running worker. Killed when dropped, stopped or not.
#[derive(Debug)]
pub(crate) struct Worker<P> {
    pub(crate) post: P,
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl<P: Post> Worker<P> {
    /// Starts one. It says `joined` when it takes part.
    pub(crate) fn start(post: P) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(WORKER).args(post.to_arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        // The pipe is read at once, so that a worker never waits for the test.
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let input = process.stdin.take();
        Self { post, process, input, lines }
    }

    /// Waits for this line, and passes over all before it.
    pub(crate) fn await_line(&self, wanted: &str) {
        let start = Env::system().now();
        loop {
            let left = PATIENCE.saturating_sub(Env::system().now() - start);
            match self.lines.recv_timeout(left) {
                Ok(line) if line == wanted => return,
                Ok(_) => {}
                Err(error) => panic!("{} did not say {wanted:?}: {error}", self.post.name()),
            }
        }
    }

    /// All that it said until now, and was not listened to.
    pub(crate) fn said(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    pub(crate) fn tell(&self, line: &str) {
        writeln!(self.input.as_ref().expect("it is closed at the end only"), "{line}").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Panics if it has ended, which no worker does by itself.
    pub(crate) fn assert_alive(&mut self) {
        if let Some(status) = self.process.try_wait().unwrap() {
            panic!("{} has ended by itself: {status}", self.post.name());
        }
    }

    /// Tells it to leave.
    pub(crate) fn dismiss(&mut self) {
        drop(self.input.take());
    }

    /// Waits until it has left; says why it could not.
    pub(crate) fn await_end(&mut self) -> Option<String> {
        let mut status = None;
        until("a worker leaves", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        let status = status.filter(|status| !status.success())?;
        Some(format!("{} could not leave as it should: {status}", self.post.name()))
    }
}

impl<P> Drop for Worker<P> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until it is so, which it must become.
pub(crate) fn until(what: &str, so: impl FnMut() -> bool) {
    assert!(within(PATIENCE, so), "{what}: it took longer than {PATIENCE:?}");
}

/// Waits until it is so. Returns whether it became so in this time.
pub(crate) fn within(time: Duration, mut so: impl FnMut() -> bool) -> bool {
    let env = Env::system();
    let start = env.now();
    while !so() {
        if env.now() - start > time {
            return false;
        }
        thread::sleep(LOOK_PAUSE);
    }
    true
}
