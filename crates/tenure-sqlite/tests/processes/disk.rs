//! Disks that are full or read-only: real ones, in a mount namespace of the worker's own.

use std::{path::Path, process::Command};

use crate::child::Worker;

/// Runs a worker in a mount namespace, after `set_up` has been run there by a shell with the directory as `$1`.
fn run_in_namespace(set_up: &str, directory: &Path, kind: &str) -> Vec<String> {
    let worker = Worker::command(kind, &directory.join("store.db"), &[]);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(format!("{set_up} && shift && exec \"$@\"")).arg("sh").arg(directory);
    command.arg(worker.get_program()).args(worker.get_args());
    Worker::spawn(command).end()
}

/// A disk of 2 MiB is filled to the brim.
pub(crate) fn a_full_disk_is_an_error_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let lines = run_in_namespace("mount -t tmpfs -o size=2m tmpfs \"$1\"", dir.path(), "fill");
    assert!(lines[0].starts_with("the store is full"), "{lines:?}");
    let words: Vec<&str> = lines[1].split(' ').collect();
    assert_eq!(words[1], words[3], "{lines:?}");
    assert!(words[1].parse::<u32>().unwrap() > 10, "{lines:?}");
}

/// A directory that nobody may write to, not even root.
pub(crate) fn a_read_only_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let lines = run_in_namespace("mount -t tmpfs -o ro tmpfs \"$1\"", dir.path(), "try");
    assert!(lines[0].contains("Read-only file system"), "{lines:?}");
    assert!(lines[0].contains("choose a directory that this user may write to"), "{lines:?}");
}
