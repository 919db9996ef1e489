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

/// From its 15th flush on, the writer is told of an I/O error each time: what was not acknowledged by then may be there or not, and is
/// said to be unknown.
pub(crate) fn a_failed_flush_is_an_unknown_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let worker = Worker::command("flush", &path, &[]);
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
    command
        .arg("inject=fsync,fdatasync:error=EIO:when=15+")
        .arg(worker.get_program())
        .args(worker.get_args());
    let lines = Worker::spawn(command).end();
    let [acknowledged @ .., told, told_again] = &lines[..] else { panic!("{lines:?}") };
    assert!(told.starts_with("the outcome of a commit is unknown"), "{lines:?}");
    assert!(told_again.starts_with("the outcome of a commit is unknown"), "{lines:?}");
    assert!(acknowledged.len() > 5, "{lines:?}");

    let connection = rusqlite::Connection::open(&path).unwrap();
    let mut values = connection.prepare("SELECT CAST(value AS TEXT) FROM entries ORDER BY id").unwrap();
    let there: Vec<String> = values.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(there[..acknowledged.len()], *acknowledged);
    assert!(there.len() <= acknowledged.len() + 2, "{there:?}");
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
