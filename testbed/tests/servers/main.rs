//! Every kind of server, started, killed and restarted; and that nothing is left of any, whatever became of its owner.
//!
//! Not under the standard harness: a test here must be able to start this program as another process, the owner that is killed.

mod clients;
mod leftovers;
mod options;
mod proxy;
mod restarts;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(leftovers::OWNER) => leftovers::own(),
        Some(leftovers::ASKER) => {
            leftovers::ask();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let trials = [restarts::trials(), options::trials(), leftovers::trials(), proxy::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}

/// A test by its name.
fn trial(name: &str, test: fn() -> Result<()>) -> Trial {
    Trial::test(name, move || test().map_err(|error| format!("{error:#}").into()))
}
