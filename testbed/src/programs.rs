//! Where this system keeps the servers' programs and libraries, and which user may run them.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use nix::unistd::{Gid, Uid, User, chown};

/// Where programs may be that are not on everybody's path.
const PLACES: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// Debian keeps each version of PostgreSQL in a folder of its own, with this one in it.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Where libraries that are loaded at run time may be; each is searched [`LIBRARY_DEPTH`] folders deep.
const LIBRARY_PLACES: &[&str] = &["/usr/lib", "/usr/lib64", "/usr/local/lib"];
const LIBRARY_DEPTH: usize = 2;

/// The full path of a program that servers or tests need: on the path, or where this system keeps programs for administrators and versions
/// of PostgreSQL.
///
/// # Errors
/// If it is not there.
pub fn program(name: &str) -> Result<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from)).chain(postgres_folders());
    let found = places.map(|place| place.join(name)).find(|file| is_program(file));
    let found = found.with_context(|| {
        format!("the program `{name}` is not installed: `cargo xtask test` installs what the tests need")
    })?;
    text(&found).map(str::to_owned)
}

/// The full path of a library that a server or the loader takes by its path.
///
/// # Errors
/// If it is not there.
pub fn library(name: &str) -> Result<String> {
    let found = LIBRARY_PLACES.iter().find_map(|place| search(Path::new(place), name, LIBRARY_DEPTH));
    let found = found.with_context(|| {
        format!("the library `{name}` is not installed: `cargo xtask test` installs what the tests need")
    })?;
    text(&found).map(str::to_owned)
}

/// Who runs a server: ourselves, or, where we are root and the server refuses root, the user that its package has made.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    other: Option<(Uid, Gid)>,
}

impl Account {
    /// Ourselves.
    pub(crate) fn own() -> Self {
        Self { other: None }
    }

    /// That user if we are root, or `nobody` where there is none of that name; else ourselves.
    pub(crate) fn unless_root(name: &str) -> Result<Self> {
        if !Uid::effective().is_root() {
            return Ok(Self::own());
        }
        for name in [name, "nobody"] {
            if let Some(user) = User::from_name(name).context("could not read the list of users")? {
                return Ok(Self { other: Some((user.uid, user.gid)) });
            }
        }
        bail!("there is neither a user `{name}` nor `nobody` to run a server that refuses root");
    }

    /// The words before a command that make it run under this account. They replace themselves by the command: no process is added.
    pub(crate) fn prefix(&self) -> Vec<String> {
        let Some((user, group)) = self.other else { return Vec::new() };
        let words =
            ["setpriv", &format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups", "--"];
        words.map(str::to_owned).to_vec()
    }

    /// Gives a file or folder to this account.
    pub(crate) fn give(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.other else { return Ok(()) };
        chown(path, Some(user), Some(group))
            .with_context(|| format!("could not give {} away", path.display()))
    }
}

/// Runs a program to its end under an account, and returns what it wrote; an error has all of it.
pub(crate) fn run(account: &Account, command: &[&str]) -> Result<String> {
    let mut words = account.prefix();
    words.extend(command.iter().map(|&word| word.to_owned()));
    let (first, rest) = words.split_first().context("a command without a program")?;
    let mut process = Command::new(first);
    // Not every account may be where we are.
    process.args(rest).current_dir("/").stdin(Stdio::null());
    let output = process.output().with_context(|| format!("could not start `{first}`"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    bail!(
        "`{}` failed ({}):\n{text}{}",
        command.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The path as text, for commands.
pub(crate) fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: set TMPDIR to a path that is", path.display()))
}

/// The folders of all installed versions of PostgreSQL, the newest first.
fn postgres_folders() -> Vec<PathBuf> {
    let versions = std::fs::read_dir(POSTGRES_VERSIONS).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn search(folder: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let file = folder.join(name);
    if file.is_file() {
        return Some(file);
    }
    if depth == 0 {
        return None;
    }
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .find_map(|entry| search(&entry.path(), name, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_and_a_missing_one_is_named() {
        assert!(program("sh").unwrap().starts_with('/'));
        let error = program("no-such-program").unwrap_err().to_string();
        assert!(error.contains("`no-such-program` is not installed"), "{error}");
        let error = library("libnothing.so.9").unwrap_err().to_string();
        assert!(error.contains("`libnothing.so.9` is not installed"), "{error}");
    }

    #[test]
    fn a_failed_command_shows_what_it_wrote() {
        let error = run(&Account::own(), &["sh", "-c", "echo one; echo two >&2; exit 3"]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("one\ntwo\n") && error.contains('3'), "{error}");
    }
}
