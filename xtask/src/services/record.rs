//! What the holder of the servers has written down for the other commands, and the lock that tells whether it still holds them.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{ErrorKind, Seek, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::workspace::Workspace;

/// Always in the workspace's own folder, wherever cargo was told to build: two clones may build in the same place.
const FILE: &str = "target/services.json";

/// What the holder has written down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The holder's process id.
    pub(crate) pid: u32,
    /// The variables by which tests find the servers. None while they are being started.
    pub(crate) variables: Vec<(String, String)>,
    /// Folders that are gone when the servers are.
    pub(crate) folders: Vec<PathBuf>,
}

/// The holder's lock: as long as it is held, the record is true.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

/// A holder that was found at work.
#[derive(Debug)]
pub(crate) struct Running {
    path: PathBuf,
}

impl Record {
    /// A record of this process.
    pub(crate) fn new(variables: Vec<(String, String)>, folders: Vec<PathBuf>) -> Self {
        Self { pid: std::process::id(), variables, folders }
    }

    fn to_json(&self) -> Value {
        json!({ "pid": self.pid, "variables": self.variables, "folders": self.folders })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let list = |name| value.get(name).and_then(Value::as_array);
        let variable =
            |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_str()?.to_owned()));
        Some(Self {
            pid: u32::try_from(value.get("pid")?.as_u64()?).ok()?,
            variables: list("variables")?.iter().map(variable).collect::<Option<_>>()?,
            folders: list("folders")?
                .iter()
                .map(|path| path.as_str().map(PathBuf::from))
                .collect::<Option<_>>()?,
        })
    }
}

impl Lock {
    /// Takes the lock, for this process.
    pub(crate) fn take(workspace: &Workspace) -> Result<Self> {
        let path = workspace.root().join(FILE);
        std::fs::create_dir_all(path.parent().context("the file is in a folder")?)?;
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.with_context(|| format!("could not open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => bail!("somebody else is starting the servers right now"),
            Err(TryLockError::Error(error)) => Err(error).context("could not lock the record of the servers"),
        }
    }

    /// Replaces the record.
    pub(crate) fn write(&mut self, record: &Record) -> Result<()> {
        let text = format!("{:#}\n", record.to_json());
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        written
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .context("could not write the servers down")
    }
}

impl Running {
    /// The holder, if there is one.
    pub(crate) fn find(workspace: &Workspace) -> Result<Option<Self>> {
        let path = workspace.root().join(FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("could not open {}", path.display())),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(Self { path })),
            Err(TryLockError::Error(error)) => {
                Err(error).context("could not look at the record of the servers")
            }
        }
    }

    /// What it has written down.
    pub(crate) fn record(&self) -> Result<Record> {
        read(&self.path)
    }
}

/// Removes the record of servers that are gone.
pub(crate) fn remove(workspace: &Workspace) -> Result<()> {
    let path = workspace.root().join(FILE);
    std::fs::remove_file(&path).with_context(|| format!("could not remove {}", path.display()))
}

fn read(path: &Path) -> Result<Record> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    let record = serde_json::from_str(&text).ok().and_then(|value| Record::from_json(&value));
    record.ok_or_else(|| anyhow!("{} is no record of servers: remove it, or try again", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record::new(vec![("A".to_owned(), "a://b".to_owned())], vec![PathBuf::from("x/y")]);
        assert_eq!(Record::from_json(&record.to_json()), Some(record));
    }

    #[test]
    fn what_is_no_record_is_told_apart() {
        for text in [
            "{}",
            r#"{"pid": -1, "variables": [], "folders": []}"#,
            r#"{"pid": 1, "variables": [1], "folders": []}"#,
        ] {
            assert_eq!(Record::from_json(&serde_json::from_str(text).unwrap()), None, "{text}");
        }
    }
}
