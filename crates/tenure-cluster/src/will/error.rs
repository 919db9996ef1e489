//! What can go wrong with a last will. None of it stops a node: it goes on without, and a crash is then noticed by the ttl.

use std::{io, path::PathBuf, time::Duration};

/// Why there is no last will. The node can do without: if it crashes, its session ends by its ttl.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WillError {
    /// The program could not be started.
    #[error(
        "could not start {} to hold the last will: {source}: give the path of a program that can be run, or do without a last will",
        .program.display()
    )]
    Program {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program ended, or closed its output, though nobody told it to.
    #[error(
        "{} does not hold the last will any more, it ended{}: check that it is of the same release and started as it should be",
        .program.display(),
        if .said.is_empty() { String::new() } else { format!(" and said {said:?}") }
    )]
    Ended {
        /// The program.
        program: PathBuf,
        /// The beginning of what it said on its standard error.
        said: String,
    },
    /// The program did not answer in time. It was killed.
    #[error(
        "{} did not say within {after:?} that it has the last will, and was killed: check that it is of the same release, or that the machine is not overloaded",
        .program.display()
    )]
    Silent {
        /// The program.
        program: PathBuf,
        /// How long it was waited for.
        after: Duration,
    },
    /// This node is process 1 of its container, with whom all its processes end.
    #[error(
        "process 1 can't have a last will, since all processes of its container end with it: run the node under an init (docker run --init)"
    )]
    FirstProcess,
    /// The store's URL is too long to be handed over.
    #[error("the URL of the store has {bytes} bytes, and may have {most} for a last will: shorten it")]
    UrlTooLong {
        /// Its length.
        bytes: usize,
        /// What it may be.
        most: usize,
    },
}
