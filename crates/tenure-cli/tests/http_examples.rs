//! The examples that take part over HTTP, against a real daemon: one leads, is ended or loses its daemon, another takes over, and the token grows.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tenure::store::Env;

/// How long something may take that takes a moment, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long leases live.
const TTL: Duration = Duration::from_millis(2000);

/// What the shell's example runs: it ends when it has another parent than at first, since whoever started it was killed, or after a while, since that may have happened before it looked.
const WORK: &str = "echo works with $FENCING_TOKEN; left=600; while [ \"$(cut -d' ' -f4 /proc/$$/stat)\" = $PPID ] && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done";

/// A process whose lines are heard. Killed when dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines }
    }

    /// What stands behind these words, in the next line that has them.
    fn hear(&self, words: &str) -> String {
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never says {words:?}"));
            if let Some((_, rest)) = line.split_once(words) {
                return rest.trim().to_owned();
            }
        }
    }

    fn leads(&self) -> u64 {
        self.hear("leads in term ").parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn daemon(folder: &Path) -> (Process, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    let store = format!("sqlite:{}", folder.join("store.db").display());
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--store", &store]);
    let daemon = Process::start(command);
    let address = daemon.hear("serving on ");
    (daemon, address)
}

fn contender(script: &str, url: &str) -> Process {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http");
    let mut command = Command::new(examples.join(script));
    command.arg("nightly").env("TENURE_URL", url).env("TTL_MS", TTL.as_millis().to_string());
    if script.ends_with(".sh") {
        command.args(["sh", "-c", WORK]);
    }
    Process::start(command)
}

fn takes_turns(script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, url) = daemon(folder.path());
    let mut one = contender(script, &url);
    let first = one.leads();
    if script.ends_with(".sh") {
        assert_eq!(one.hear("works with "), first.to_string());
    }
    let two = contender(script, &url);
    // It is held for longer than a ttl, by being refreshed; the other stays silent.
    std::thread::sleep(TTL + TTL / 2);
    assert!(two.lines.try_recv().is_err() && one.lines.try_recv().is_err(), "nothing changes by itself");
    one.signal(Signal::SIGTERM);
    let (env, second) = (Env::system(), two.leads());
    assert!(second > first, "{second} > {first}");
    one.child.wait().unwrap();
    assert!(one.lines.try_recv().is_err(), "it gave the lease up, and did not lose it");
    let three = contender(script, &url);
    two.signal(Signal::SIGKILL);
    let killed = env.now();
    let third = three.leads();
    assert!(third > second, "{third} > {second}");
    assert!(env.now() - killed > TTL / 3, "nobody knew that it was dead before its ttl");
    // Without a daemon it can't know whether it leads, and stops before another could.
    daemon.signal(Signal::SIGSTOP);
    let stopped = env.now();
    assert_eq!(three.hear("lost in term "), third.to_string());
    let held = env.now() - stopped;
    daemon.signal(Signal::SIGCONT);
    assert!(held < TTL + TTL / 2, "it went on for {held:?} without an answer");
    assert!(three.leads() >= third, "it comes back");
}

#[test]
fn with_a_shell_and_curl() {
    takes_turns("leader.sh");
}

#[test]
fn with_python_alone() {
    takes_turns("leader.py");
}
