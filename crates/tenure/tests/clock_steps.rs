//! A wall clock that steps by an hour, on the store's server or on the leader's machine, ends no leadership and makes no second one.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use libtest_mimic::{Arguments, Trial};
use tenure::prelude::*;
use tenure_testbed::{MariaDb, Options, Postgres, library};

/// Long enough that a busy machine, or a server that is slow because its clock is not its own, ends no session; short enough that it would be over in the meantime.
const TTL: Duration = Duration::from_secs(6);

/// How often the clock is stepped, and how long it stays.
const STEPS: [i64; 8] = [3600, 0, -3600, 0, 3600, -3600, 86_400, 0];
const STAY: Duration = Duration::from_millis(1500);

/// Tells a copy of this program to be the leader whose clock is stepped, on the store with this URL.
const LEADER: &str = "TENURE_TEST_LEADER";

fn main() -> ExitCode {
    if let Ok(url) = std::env::var(LEADER) {
        runtime().block_on(lead(&url));
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        Trial::test("of_a_postgres_server", || {
            let server = Postgres::start_with(&Options { faketime: true, ..Options::default() })?;
            runtime().block_on(server_steps(&server.url(), |seconds| server.step_clock(seconds).unwrap()));
            Ok(())
        }),
        Trial::test("of_a_mariadb_server", || {
            let server = MariaDb::start_with(&Options { faketime: true, ..Options::default() })?;
            runtime().block_on(server_steps(&server.url(), |seconds| server.step_clock(seconds).unwrap()));
            Ok(())
        }),
        Trial::test("of_the_leader", || {
            runtime().block_on(leader_steps());
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn join(url: &str, node: &str) -> Cluster {
    let settings = Settings::new("clocks", node).unwrap().with_ttl(TTL);
    Cluster::join(tenure::open(url).await.unwrap(), settings).await.unwrap()
}

/// Two nodes on a server whose clock steps: the first leads, the second waits in vain.
async fn server_steps(url: &str, step: impl Fn(i64)) {
    let (first, second) = (join(url, "first").await, join(url, "second").await);
    let leadership = first.election("e").unwrap().campaign().await.unwrap();
    let waiting = second.election("e").unwrap();
    let waiting = tokio::spawn(async move { waiting.campaign().await.unwrap() });
    let sessions = [first.session().id(), second.session().id()];
    for seconds in STEPS {
        step(seconds);
        Env::system().sleep(STAY).await;
        assert!(!leadership.remaining().is_zero(), "the leadership was lost after a step to {seconds} s");
        assert!(!waiting.is_finished(), "there were two leaders after a step to {seconds} s");
    }
    assert_eq!([first.session().id(), second.session().id()], sessions);
    leadership.resign().await.unwrap();
    assert_eq!(waiting.await.unwrap().term(), Term(2));
}

/// The leader is a process of its own, whose wall clock is stepped; this one waits in vain.
async fn leader_steps() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store").display());
    let clock = folder.path().join("clock");
    step(&clock, 0);
    let mut leader = Leader::start(&url, &clock);
    let start = leader.says();
    assert_eq!(start.1, "1", "{start:?}");
    let own = join(&url, "second").await;
    let office = own.election("e").unwrap();
    let waiting = {
        let office = office.clone();
        tokio::spawn(async move { office.campaign().await.unwrap() })
    };
    let session = office.leader().await.unwrap().leader.unwrap().session;
    let mut seen = Vec::new();
    for seconds in STEPS {
        step(&clock, seconds);
        Env::system().sleep(STAY).await;
        let (wall, term) = leader.says();
        seen.push(wall.abs_diff(start.0) > 3000);
        assert_eq!(term, "1", "the leader lost its office after a step to {seconds} s");
        assert!(!waiting.is_finished(), "there were two leaders after a step to {seconds} s");
        assert_eq!(office.leader().await.unwrap().leader.unwrap().session, session);
    }
    assert!(seen.iter().filter(|stepped| **stepped).count() >= 4, "its clock was stepped: {seen:?}");
    drop(leader);
    assert_eq!(waiting.await.unwrap().term(), Term(2));
}

/// By a rename: the file must never be found half written.
fn step(clock: &Path, seconds: i64) {
    let new: PathBuf = clock.with_extension("new");
    fs::write(&new, format!("{seconds:+}\n")).unwrap();
    fs::rename(&new, clock).unwrap();
}

/// A process that leads, gone with this value.
struct Leader {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Leader {
    fn start(url: &str, clock: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(LEADER, url)
            .env("LD_PRELOAD", library("libfaketimeMT.so.1").unwrap())
            .env("FAKETIME_TIMESTAMP_FILE", clock)
            .env("FAKETIME_NO_CACHE", "1")
            // Steps are for the wall clock. A monotonic clock that steps is a broken machine.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Asks what its wall clock shows, and in which term it leads.
    fn says(&mut self) -> (u64, String) {
        use std::io::Write as _;
        self.process.stdin.as_mut().unwrap().write_all(b"?\n").unwrap();
        let line = self.lines.next().unwrap().unwrap();
        let (wall, term) = line.split_once(' ').unwrap();
        (wall.parse().unwrap(), term.to_owned())
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The process whose clock is stepped: answers each line, and ends with its standard input.
#[allow(clippy::print_stdout, reason = "its answers")]
async fn lead(url: &str) {
    let cluster = join(url, "first").await;
    let leadership = cluster.election("e").unwrap().campaign().await.unwrap();
    let env = Env::system();
    for line in std::io::stdin().lines() {
        line.unwrap();
        let term = if leadership.remaining().is_zero() { 0 } else { leadership.term().0 };
        println!("{} {term}", env.unix_time().as_secs());
    }
}
