//! `cargo xtask services` as people use it, in a workspace of its own.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

/// How often the servers are looked at that should go, and how long apart: twenty seconds in all.
const LOOKS: u32 = 400;
const BETWEEN: Duration = Duration::from_millis(50);

fn services(root: &Path, command: &str) -> (bool, String) {
    // The program finds its workspace by where its manifest is.
    let program = env!("CARGO_BIN_EXE_xtask");
    let output = Command::new(program)
        .args(["services", command])
        .env("CARGO_MANIFEST_DIR", root.join("xtask"))
        .output();
    let Output { status, stdout, stderr } = output.unwrap();
    (status.success(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
}

/// The process that owns the servers, and their folders.
fn record(root: &Path) -> (String, Vec<PathBuf>) {
    let text = std::fs::read_to_string(root.join("target/services.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let folders = record["folders"].as_array().unwrap().iter();
    (record["pid"].to_string(), folders.map(|path| path.as_str().unwrap().into()).collect())
}

#[test]
fn servers_run_until_they_are_stopped_or_their_owner_is_killed() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let (well, said) = services(root, "status");
    assert!(!well && said.contains("No servers run"), "{said}");

    let (well, started) = services(root, "start");
    assert!(well, "{started}");
    for name in ["POSTGRES='postgres://", "PGBOUNCER='postgres://", "MARIADB='mysql://", "ETCD='etcd://"] {
        assert!(started.contains(&format!("export TENURE_TEST_{name}")), "{started}");
    }
    let (well, again) = services(root, "start");
    let last = |text: &str| text.split_once("export").unwrap().1.to_owned();
    assert!(well && again.contains("already run") && last(&again) == last(&started), "{again}");
    let (well, status) = services(root, "status");
    assert!(well && status.matches("  answers").count() == 4, "{status}");

    let (_, folders) = record(root);
    assert!(folders.len() >= 6 && folders.iter().all(|folder| folder.is_dir()), "{folders:?}");
    let (well, said) = services(root, "stop");
    assert!(well && said.contains("gone"), "{said}");
    assert!(!folders.iter().any(|folder| folder.exists()), "{folders:?}");
    assert!(!root.join("target/services.json").exists());

    assert!(services(root, "start").0);
    let (pid, folders) = record(root);
    assert!(Command::new("sh").args(["-c", "kill -9 \"$0\"", &pid]).status().unwrap().success());
    let gone = (0..LOOKS).any(|_| {
        thread::sleep(BETWEEN);
        !folders.iter().any(|folder| folder.exists())
    });
    assert!(gone, "{folders:?}");
    let (well, said) = services(root, "stop");
    assert!(well && said.contains("No servers run"), "{said}");
}
