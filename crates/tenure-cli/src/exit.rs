//! [`Exit`]: the codes that this program ends with.

use std::{borrow::Cow, fmt, process::ExitCode};

use tenure::{
    cluster::ClusterError,
    server::ServerError,
    store::{CommitError, StoreError},
};

/// How the program ends. `tenure --help` and `tenure run --help` list the codes.
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
    /// Nobody leads.
    Vacant,
    /// There is no such thing.
    Absent,
    /// What was asked for was not done, or nobody knows whether it was.
    Undone,
    /// Something must be changed before nodes can rely on it.
    Unwell,
}

/// The codes of all commands but `run`, for their help.
pub(crate) const CODES: &str = "\
Exit codes:
  0    done
  2    wrong arguments, or a question that nobody can be asked (--yes)
  102  the store could not be reached
  104  nobody leads
  105  there is no such election, server, dead letter or name
  106  what was asked for was not done, or not in time
  107  doctor found something that must be changed";

impl Exit {
    /// Everything went well.
    pub(crate) const DONE: Self = Self::Command(0);

    /// Arguments that can't be followed.
    const WRONG: Self = Self::Command(crate::WRONG);

    /// How the program ends because of an error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return failure.exit;
        }
        if let Some(error) = error.downcast_ref::<StoreError>() {
            return Self::of_store(error);
        }
        match error.downcast_ref::<CommitError>() {
            Some(CommitError::Failed(error)) => return Self::of_store(error),
            Some(_) => return Self::Undone,
            None => {}
        }
        match error.downcast_ref::<ClusterError>() {
            Some(ClusterError::Store(error)) => return Self::of_store(error),
            Some(_) => return Self::Undone,
            None => {}
        }
        match error.downcast_ref::<ServerError>() {
            Some(ServerError::Store(error)) => Self::of_store(error),
            Some(ServerError::Invalid(_) | ServerError::TooLarge(_)) | None => Self::WRONG,
            Some(_) => Self::Undone,
        }
    }

    fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Invalid(_) | StoreError::TooLarge(_) => Self::WRONG,
            _ => Self::Unavailable,
        }
    }

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
            Self::Vacant => 104,
            Self::Absent => 105,
            Self::Undone => 106,
            Self::Unwell => 107,
        })
    }

    /// Words for an error that ends the program in this way.
    pub(crate) fn context(self, words: impl Into<Cow<'static, str>>) -> Failure {
        Failure { exit: self, words: words.into() }
    }
}

/// What failed, and how the program ends because of it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    words: Cow<'static, str>,
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
