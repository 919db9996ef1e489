//! Never two: real `tenure run` processes on real stores, and a command that tells by lines in one file when it
//! lived. Whatever happens to the processes or to the store, no two lives may overlap.
//!
//! The test program starts itself again as the command. What was measured is printed at the end, as a table. A round
//! takes about a second and a half; `TENURE_NEVER_TWO_ROUNDS` says how many there are on each store.
//!
//! The order of the faults follows from a seed, which is printed; `TENURE_NEVER_TWO_SEED` gives it back.
//!
//! | to find | look in |
//! | --- | --- |
//! | what happens | `fault` |
//! | what the command does | `command`, `log` |
//! | the rounds of a case | `fleet`, `node`, `store` |
//! | what must never be seen | `check` |
//! | that it would be seen | `rival` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what was measured and found is shown")]

mod check;
mod command;
mod fault;
mod fleet;
mod log;
mod node;
mod process;
mod rival;
mod store;
mod table;

use std::{
    process::ExitCode,
    sync::{Arc, Mutex},
};

use libtest_mimic::{Arguments, Trial};
use tenure::store::Env;

use self::{
    fleet::{Fleet, Outcome},
    node::Program,
    store::Place,
    table::Table,
};

/// The name of the file, in the folder of a case.
pub(crate) const LOG: &str = "log";

/// How many rounds there are on each store, if [`ROUNDS_VARIABLE`] does not say: each kind of fault about seven times.
const ROUNDS: usize = 100;

const ROUNDS_VARIABLE: &str = "TENURE_NEVER_TWO_ROUNDS";
const SEED_VARIABLE: &str = "TENURE_NEVER_TWO_SEED";

/// All cases at a time: they wait most of the time.
const CASES_AT_A_TIME: usize = 5;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if command::perform(&words) {
        return ExitCode::SUCCESS;
    }
    let number =
        |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect("a number"));
    let rounds = number(ROUNDS_VARIABLE).map_or(ROUNDS, |rounds| usize::try_from(rounds).unwrap());
    let seed = number(SEED_VARIABLE).unwrap_or_else(|| Env::system().random_u64());
    let given = Arguments::from_args();
    let arguments = Arguments { test_threads: given.test_threads.or(Some(CASES_AT_A_TIME)), ..given };
    let table = Arc::new(Mutex::new(Table::default()));
    let mut trials = check::trials();
    for place in Place::ALL {
        let table = Arc::clone(&table);
        trials.push(Trial::test(format!("{place}::never_two"), move || {
            let mut fleet = Fleet::start(place, Program::Tenure, seed);
            (0..rounds).for_each(|_| fleet.round());
            let Outcome { flaws, row, .. } = fleet.end();
            table.lock().unwrap().add(row);
            if flaws.is_empty() {
                return Ok(());
            }
            let words = flaws.join("\n");
            // At once as well: another case may hang, and the summary never come.
            eprintln!("{place}::never_two has found:\n{words}");
            Err(words.into())
        }));
    }
    trials.push(Trial::test("etcdctl_lock::two", move || {
        rival::run(seed);
        Ok(())
    }));
    // So guardians that outlive their `tenure run` become ours, and the kernel has no reason to wake those that were
    // stopped.
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    println!("{rounds} rounds on each store, {SEED_VARIABLE}={seed}");
    let conclusion = libtest_mimic::run(&arguments, trials);
    print!("{}", table.lock().unwrap());
    conclusion.exit_code()
}
