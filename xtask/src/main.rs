//! Tenure's gate: `cargo xtask test` checks everything, `cargo xtask fix` repairs what a machine can repair, `cargo xtask services` runs
//! servers for tests by hand.
//!
//! | to find | look in |
//! | --- | --- |
//! | the steps of the gate, in order | [`gate`] |
//! | what a machine must have, and how it gets it | [`needs`] |
//! | the servers that the tests need | [`services`] |
//! | the room that a run takes on disks | [`disk`] |
//! | how tests are built and run | [`suite`] |
//! | how test results are counted | [`tally`] |
//! | rules about the text of the repository | [`tidy`] |
//! | running a process with a bound and live output | [`task`] |

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this program is for")]

mod bench;
mod disk;
mod fix;
mod gate;
mod needs;
mod services;
mod suite;
mod tally;
mod task;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::workspace::Workspace;

const HELP: &str = "\
Usage: cargo xtask <command>

  test                  check everything: toolchain, tidy, format, lints, docs, tests, examples
  fix                   repair what a machine can repair: lints, format, white space
  tidy                  only the rules about the repository's text (a part of test)
  services start        start servers for tests that are run by hand, and print how tests find them;
                        with --galera a Galera cluster too
  services status       print whether these servers answer
  services stop         end them
  bench <name> [args]   run one comparison of the bench crate, of store, server, run, registry, http or start, built for
                        release
  help                  this text

test ends with a line `N passed, M failed`, and fails unless everything ran and nothing failed. It starts servers of its own.";

/// The exit code for a command line that makes no sense, as in most tools.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ["test"] => Ok(gate::run(&Workspace::here())),
        ["fix"] => fix::run(&Workspace::here()).map(|()| ExitCode::SUCCESS),
        ["tidy"] => tidy_alone(&Workspace::here()),
        ["services", rest @ ..] => match services::run(&Workspace::here(), rest) {
            Some(outcome) => outcome.map(success_if),
            None => return usage("services takes one of: start [--galera], status, stop"),
        },
        ["bench", name, rest @ ..] if !name.starts_with('-') => bench::run(&Workspace::here(), name, rest),
        ["bench"] => return usage("bench needs the name of a comparison, as in `cargo xtask bench store`"),
        [command @ ("test" | "fix" | "tidy" | "help" | "bench"), extra, ..] => {
            return usage(&format!("{command} does not take the argument `{extra}`"));
        }
        [unknown, ..] => return usage(&format!("there is no command `{unknown}`")),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn tidy_alone(workspace: &Workspace) -> Result<ExitCode> {
    let findings = tidy::check(workspace)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} rules, {} findings", tidy::RULES.len(), findings.len());
    Ok(success_if(findings.is_empty()))
}

fn success_if(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("error: {problem}\n\n{HELP}");
    ExitCode::from(USAGE)
}
