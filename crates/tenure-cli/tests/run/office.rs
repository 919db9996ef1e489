//! [`Office`]: a folder with a store in it, and `tenure run` processes that use it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tenure::store::Env;

/// How long something may take that must happen: far longer than it does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder that is the working directory of all that is run in it.
pub(crate) struct Office {
    folder: Arc<TempDir>,
}

impl Office {
    pub(crate) fn new() -> Self {
        Self { folder: Arc::new(tempfile::tempdir().unwrap()) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts `tenure run OPTIONS job -- COMMAND`.
    pub(crate) fn start(&self, options: &[&str], command: &[&str]) -> Run {
        let mut words = vec!["run"];
        words.extend(options);
        words.extend(["job", "--"]);
        words.extend(command);
        self.start_program(env!("CARGO_BIN_EXE_tenure"), &words)
    }

    /// Starts it with a shell's script as its command.
    pub(crate) fn start_shell(&self, options: &[&str], script: &str) -> Run {
        self.start(options, &["sh", "-c", script])
    }

    pub(crate) fn start_program(&self, program: &str, words: &[&str]) -> Run {
        let number = fs::read_dir(self.path()).unwrap().count();
        let file = |kind: &str| self.path().join(format!("{number}.{kind}"));
        let (out, err) = (file("out"), file("err"));
        // Whoever runs the tests may ignore some signals, and what it starts would do so too.
        let process = Command::new("env")
            .args(["--default-signal", program])
            .args(words)
            .current_dir(self.path())
            .env_remove("TENURE_STORE")
            .env_remove("TENURE_CLUSTER")
            .stdin(Stdio::piped())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        Run { process, out, err, _folder: Arc::clone(&self.folder) }
    }
}

/// A process that was started. Killed when dropped, and its guardian ends its command.
pub(crate) struct Run {
    process: Child,
    out: PathBuf,
    err: PathBuf,
    /// Lives as long as whoever uses it.
    _folder: Arc<TempDir>,
}

impl Run {
    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    /// The guardian's process.
    pub(crate) fn guardian(&self) -> i32 {
        let list =
            || fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.id())).unwrap_or_default();
        let mut found = None;
        await_that("there is a guardian", || {
            let all = list();
            let mut ids = all.split_whitespace().map(|id| id.parse::<i32>().unwrap());
            found =
                ids.find(|id| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| is_guardian(&line)));
            found.is_some()
        });
        found.unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.id(), signal);
    }

    /// Gives it this input, and no more.
    pub(crate) fn feed(&mut self, input: &[u8]) {
        self.process.stdin.take().unwrap().write_all(input).unwrap();
    }

    pub(crate) fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    pub(crate) fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    /// Waits until its command has written this.
    pub(crate) fn await_out(&self, text: &str) {
        await_that(&format!("{text:?} is written, beside {:?}", self.err()), || self.out().contains(text));
    }

    /// Waits until it, not its command, has written this.
    pub(crate) fn await_err(&self, text: &str) {
        await_that(&format!("{text:?} is told"), || self.err().contains(text));
    }

    /// Waits until it has ended, and returns its code.
    pub(crate) fn end(&mut self) -> i32 {
        let mut status = None;
        await_that("it ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code().expect("no signal ends it")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_guardian(line: &[u8]) -> bool {
    line.split(|byte| *byte == 0).nth(1) == Some(b"guardian")
}

pub(crate) fn send(to: i32, signal: Signal) {
    kill(Pid::from_raw(to), signal).unwrap();
}

/// Whether a process exists and has not ended.
pub(crate) fn lives(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Waits until it is so, which it must become.
pub(crate) fn await_that(what: &str, mut so: impl FnMut() -> bool) {
    let env = Env::system();
    let start = env.now();
    while !so() {
        assert!(env.now() - start < PATIENCE, "{what}: it took longer than {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// How long it takes.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let env = Env::system();
    let start = env.now();
    (work(), env.now() - start)
}
