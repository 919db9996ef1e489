//! [`Exit`]: the codes that this program ends with.

use std::{fmt, process::ExitCode};

/// How the program ends. `tenure run --help` lists the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As the command did.
    Command(u8),
    /// This node did not lead in time.
    NotLeading,
    /// Leadership was lost.
    Lost,
    /// The store could not be reached.
    Unavailable,
    /// The guardian was lost.
    Unguarded,
}

impl Exit {
    /// The code of a process that this signal ended.
    pub(crate) fn signalled(signal: i32) -> Self {
        Self::Command(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Command(code) => code,
            Self::NotLeading => 100,
            Self::Lost => 101,
            Self::Unavailable => 102,
            Self::Unguarded => 103,
        })
    }

    /// Words for an error that ends the program in this way.
    pub(crate) fn context(self, words: &'static str) -> Failure {
        Failure { exit: self, words }
    }
}

/// What failed, and how the program ends because of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    words: &'static str,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words)
    }
}
