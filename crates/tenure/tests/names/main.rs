//! Names under fire: real processes on real stores register, take back, look up and call, while whoever leads is killed, again and again.
//!
//! The test program starts itself again as nodes. Each keeps a share of many names, and fights with the others for a few more. Each writes a journal that
//! survives it. In the end, the journals are compared with each other and with what all nodes know: no name that was acknowledged is lost while its owner lives, none
//! is owned twice at once, and nobody was told "taken" without reason. How long nobody led is printed at the end, as a table, and decides
//! nothing: that is a matter of the machine.
//!
//! | to find | look in |
//! | --- | --- |
//! | what a process does | `worker`, `rivals` |
//! | what it leaves behind | `journal` |
//! | what happens to processes | `fleet` |
//! | what must be so afterwards | `check` |
//! | that the checks would find it | `trials` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(clippy::print_stdout, reason = "what happened is shown")]

mod check;
mod fleet;
mod journal;
mod rivals;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../support/mod.rs"]
mod support;
mod table;
mod trials;
mod worker;

use std::{
    process::ExitCode,
    sync::{Arc, Mutex},
};

use libtest_mimic::{Arguments, Trial};
use tenure::store::Env;

use self::{
    fleet::{Case, Fleet},
    support::{place::Place, process},
    table::Table,
};

/// How often the leader is killed on each store, and how many names there are, if the variables do not say. The page about the registry has the figures of more.
const KILLS: u64 = 10;
const NAMES: u64 = 20_000;

const KILLS_VARIABLE: &str = "TENURE_NAMES_KILLS";
const NAMES_VARIABLE: &str = "TENURE_NAMES_COUNT";
const SEED_VARIABLE: &str = "TENURE_NAMES_SEED";

/// Both stores at a time, unless the arguments say otherwise: what the processes wait for, another can use. The table on the page about the registry is of a run with one at a time.
const CASES_AT_A_TIME: usize = 2;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(process::WORKER) {
        worker::main(args.collect());
        return ExitCode::SUCCESS;
    }
    let given = Arguments::from_args();
    let arguments = Arguments { test_threads: given.test_threads.or(Some(CASES_AT_A_TIME)), ..given };
    let table = Arc::new(Mutex::new(Table::default()));
    let mut trials = trials::all();
    for place in [Place::Postgres, Place::Etcd] {
        let table = Arc::clone(&table);
        trials.push(Trial::test(format!("{place}::leaders_are_killed"), move || {
            let row = Fleet::start(case(place)).run();
            table.lock().unwrap().add(row);
            Ok(())
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    print!("{}", table.lock().unwrap());
    conclusion.exit_code()
}

fn case(place: Place) -> Case {
    let given = |variable| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect("a number"));
    Case {
        place,
        kills: given(KILLS_VARIABLE).unwrap_or(KILLS),
        names: given(NAMES_VARIABLE).unwrap_or(NAMES),
        seed: given(SEED_VARIABLE).unwrap_or_else(|| Env::system().random_u64()),
    }
}
