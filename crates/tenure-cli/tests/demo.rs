//! `tenure demo` as a person would run it: what it tells, what it ends with, and that nothing is left of it.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use tenure::{
    cluster::Keys,
    store::{Env, StoreExt as _},
};

/// How long something may take that takes a moment, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn demo(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.arg("demo").args(words).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The cluster that a demo says to be in.
fn cluster(first_line: &str) -> String {
    first_line.strip_prefix("cluster ").and_then(|rest| rest.split(' ').next()).unwrap().to_owned()
}

/// The processes that have this word among their arguments.
fn processes(word: &str) -> usize {
    let ids = fs::read_dir("/proc").unwrap().flatten();
    let lines = ids.filter_map(|id| fs::read(id.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

fn folder(cluster: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tenure-{cluster}"))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (env, pause) = (Env::system(), Duration::from_millis(20));
    let limit = env.now().after(PATIENCE);
    while !is_so() {
        assert!(env.now() < limit, "{what}: not within {PATIENCE:?}");
        thread::sleep(pause);
    }
}

fn nothing_is_left(cluster: &str) {
    until("no process is left", || processes(cluster) == 0);
    until("no folder is left", || !folder(cluster).exists());
}

/// A demo that runs until it is ended, and what it says.
fn endless() -> (Child, String, impl Iterator<Item = String>) {
    let mut child = demo(&["--pause", "200ms"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let cluster = cluster(&lines.next().unwrap());
    until("it has told of a takeover", || lines.next().unwrap().starts_with("round 1"));
    assert!(processes(&cluster) >= 4, "a daemon, a janitor and two nodes at least");
    assert!(folder(&cluster).join("store.db").exists());
    (child, cluster, lines)
}

#[test]
fn ten_leaders_are_killed_and_nothing_is_lost() {
    let output = demo(&["--rounds", "10", "--pause", "300ms"]).output().unwrap();
    let told = text(&output);
    assert!(
        output.status.success(),
        "{:?}: {told}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let rounds: Vec<&str> = told.lines().filter(|line| line.starts_with("round ")).collect();
    assert_eq!(rounds.len(), 10, "{told}");
    let terms: Vec<u64> = rounds
        .iter()
        .map(|line| line.split_once("in term ").unwrap().1.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(terms.is_sorted_by(|one, next| one < next), "terms grow: {terms:?}");
    assert!(told.contains("10 takeovers, after ") && told.contains(": 0 lost, 0 doubled"), "{told}");
    assert!(told.contains("dashboard http://127.0.0.1:") && !told.contains('\x1b'), "{told}");
    nothing_is_left(&cluster(told.lines().next().unwrap()));
}

#[test]
fn on_postgres_its_cluster_is_gone_in_the_end() {
    let url = tenure_testbed::postgres();
    let output = demo(&["--rounds", "2", "--pause", "300ms", "--store", &url]).output().unwrap();
    let told = text(&output);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("2 takeovers") && told.contains(": 0 lost, 0 doubled"), "{told}");
    let cluster = cluster(told.lines().next().unwrap());
    nothing_is_left(&cluster);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = runtime.block_on(async {
        let store = tenure::open(&url).await.unwrap();
        store.scan(&Keys::new(&cluster.parse().unwrap()).all(), 10).await.unwrap().items.len()
    });
    assert_eq!(left, 0, "keys of {cluster} are left");
}

#[test]
fn a_demo_that_is_killed_leaves_nothing() {
    let (mut child, cluster, _lines) = endless();
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_is_left(&cluster);
}

#[test]
fn a_demo_that_is_interrupted_counts_up_and_leaves_nothing() {
    let (mut child, cluster, lines) = endless();
    let id = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    let told: Vec<String> = lines.collect();
    assert!(told.last().unwrap().ends_with("0 lost, 0 doubled"), "{told:?}");
    assert!(child.wait().unwrap().success());
    nothing_is_left(&cluster);
}

#[test]
fn what_is_no_store_is_refused_before_anything_is_started() {
    for (url, words, code) in [
        ("nowhere", "no scheme", 2),
        ("oracle://user:secret@host/x", "oracle", 2),
        ("memory:", "memory of one process", 2),
        ("sqlite::memory:", "memory of one process", 2),
        ("postgres://user:secret@127.0.0.1:1/x", "can't open the store", 102),
    ] {
        let output = demo(&["--rounds", "1", "--store", url]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(words), "{url}: {said}");
        assert!(!said.contains("secret") && output.stdout.is_empty(), "{url}: {said}");
    }
    let output = demo(&["--rounds", "0"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("--rounds"), "{output:?}");
}
