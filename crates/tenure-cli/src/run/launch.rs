//! The last step before the command: a process that binds its life to that of the guardian, and becomes the command.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use nix::{
    sys::{
        prctl,
        signal::{SigSet, Signal},
    },
    unistd::getppid,
};

/// The hidden command that does it: followed by the guardian's process id and the command.
pub(crate) const COMMAND: &str = "launch";

/// What a shell says of a program that was not found, and of one that could not be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Becomes the command.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let complain = |words: String| {
        let _ = writeln!(io::stderr(), "tenure run: {words}");
    };
    let [guardian, program, rest @ ..] = arguments else {
        complain("only a guardian starts this".to_owned());
        return ExitCode::from(NOT_RUN);
    };
    if let Err(error) = prctl::set_pdeathsig(Signal::SIGKILL) {
        complain(format!("can't bind the command to its guardian: {error}"));
        return ExitCode::from(NOT_RUN);
    }
    // The guardian hears no signals; the command hears all of them.
    if let Err(error) = SigSet::empty().thread_set_mask() {
        complain(format!("can't let the command hear signals: {error}"));
        return ExitCode::from(NOT_RUN);
    }
    // It may have died before that.
    if guardian.to_str() != Some(&getppid().to_string()) {
        return ExitCode::from(NOT_RUN);
    }
    let error = Command::new(program).args(rest).exec();
    complain(format!("can't run {}: {error}", program.to_string_lossy()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}
