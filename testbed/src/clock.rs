//! [`Clock`]: a server's wall clock that can be stepped while it runs, by libfaketime.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{
    keeper::Keeper,
    programs::{library, text},
};

/// The variant of the library for programs with threads; it serves others as well.
const LIBRARY: &str = "libfaketimeMT.so.1";

const FILE: &str = "clock";

/// The clock of one server.
#[derive(Debug)]
pub(crate) struct Clock {
    file: PathBuf,
}

impl Clock {
    /// A clock that is right, until it is stepped.
    pub(crate) fn new(keeper: &Keeper) -> Result<Self> {
        let clock = Self { file: keeper.folder().join(FILE) };
        clock.step(0)?;
        Ok(clock)
    }

    /// Sets how many seconds the clock is ahead (or, negative, behind), from now on.
    pub(crate) fn step(&self, seconds: i64) -> Result<()> {
        // By a rename: the server reads the file at every look at its clock, and must never find it half written.
        let new = self.file.with_extension("new");
        let written =
            std::fs::write(&new, format!("{seconds:+}\n")).and_then(|()| std::fs::rename(&new, &self.file));
        written.with_context(|| format!("could not write {}", self.file.display()))
    }

    /// The words before a command that give it this clock.
    pub(crate) fn prefix(&self) -> Result<Vec<String>> {
        let words = [
            "env".to_owned(),
            format!("LD_PRELOAD={}", library(LIBRARY)?),
            format!("FAKETIME_TIMESTAMP_FILE={}", text(&self.file)?),
            "FAKETIME_NO_CACHE=1".to_owned(),
            // Steps are for the wall clock. A monotonic clock that steps is a broken machine.
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        ];
        Ok(words.to_vec())
    }
}
