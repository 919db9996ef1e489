//! The servers' own clients, as the tests' eyes.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// How often [`eventually`] looks, and how long apart: ten seconds in all.
const LOOKS: u32 = 500;
const BETWEEN: Duration = Duration::from_millis(20);

/// What a PostgreSQL server answers. More parameters of the connection may follow the URL, as in `?sslmode=require`.
pub(crate) fn psql(url: &str, statement: &str) -> Result<String> {
    output(Command::new("psql").args(["-X", "-q", "-A", "-t", "-c", statement, url]))
}

/// What a MariaDB server answers to `root`.
pub(crate) fn mariadb(port: u16, statement: &str) -> Result<String> {
    mariadb_as(port, &["--user=root"], statement)
}

/// What a MariaDB server answers, with options of the client.
pub(crate) fn mariadb_as(port: u16, options: &[&str], statement: &str) -> Result<String> {
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "--host=127.0.0.1", &format!("--port={port}")]).args(options);
    output(command.args(["--batch", "--skip-column-names", "--execute", statement]))
}

/// What an etcd node answers.
pub(crate) fn etcdctl(endpoint: &str, args: &[&str]) -> Result<String> {
    let endpoints = format!("--endpoints={endpoint}");
    output(Command::new("etcdctl").env("ETCDCTL_API", "3").arg(endpoints).args(args))
}

/// Whether a process lives. One that has ended, and whose parent has not yet asked how, does not.
pub(crate) fn lives(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Whether something comes true within ten seconds.
pub(crate) fn eventually(what: impl Fn() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        let true_now = what();
        if !true_now {
            thread::sleep(BETWEEN);
        }
        true_now
    })
}

/// Whether all processes and folders are gone, at once or soon.
pub(crate) fn gone(processes: &[u32], folders: &[&Path]) -> bool {
    eventually(|| {
        !processes.iter().any(|&process| lives(process)) && !folders.iter().any(|folder| folder.exists())
    })
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().context("could not start a client")?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
