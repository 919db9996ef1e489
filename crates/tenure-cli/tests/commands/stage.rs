//! [`Stage`]: a store, and processes that use it.

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tenure::store::Env;

use crate::schema;

/// The cluster that all take part in.
pub(crate) const CLUSTER: &str = "stage";

/// How long something may take that must happen: far longer than it does.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder, and a store in it or elsewhere.
pub(crate) struct Stage {
    folder: TempDir,
    store: String,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Stage {
    /// On SQLite.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("store.db").display());
        Self { folder, store }
    }

    /// On the PostgreSQL of all tests, in a schema of its own.
    pub(crate) fn on_postgres() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let store = format!("{}?schema=commands_{process}_{number}", tenure_testbed::postgres());
        Self { folder: tempfile::tempdir().unwrap(), store }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// A command that knows the store and the cluster from its environment.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(words).current_dir(self.path()).env_remove("TENURE_CONFIG");
        command.env("TENURE_STORE", &self.store).env("TENURE_CLUSTER", CLUSTER);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `tenure WORDS` to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Said {
        said(self.command(words).output().unwrap())
    }

    /// Runs it with something to read.
    pub(crate) fn run_reading(&self, words: &[&str], input: &str) -> Said {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        said(child.wait_with_output().unwrap())
    }

    /// What it prints; it must end well.
    pub(crate) fn text(&self, words: &[&str]) -> String {
        let said = self.run(words);
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
        said.out
    }

    /// What it prints with `--json`, of which this schema says what it may be.
    pub(crate) fn json(&self, words: &[&str], shape: &str) -> Value {
        let text = self.text(&[words, &["--json"]].concat());
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"));
        schema::check(shape, &value);
        value
    }

    /// Starts a node that stands for an office; the first one of it leads.
    pub(crate) fn node(&self, node: &str, office: &str) -> Process {
        let words = ["run", office, "--node", node, "--quiet", "--restart", "always", "--ttl", "3s"];
        Process(self.command(&words).args(["--", "sleep", "1000"]).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Waits until this prints what is wanted.
    pub(crate) fn until(&self, words: &[&str], wanted: impl Fn(&Said) -> bool) -> Said {
        let env = Env::system();
        let began = env.now();
        loop {
            let said = self.run(words);
            if wanted(&said) {
                return said;
            }
            assert!(env.now() - began < PATIENCE, "{words:?} never came to it: {said:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// A process, killed when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
