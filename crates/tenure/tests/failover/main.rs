//! Failover, measured from outside: real processes on real stores, one of them the leader, to whom something happens.
//!
//! The test program starts itself again as a worker, which keeps a ledger of when it believed to lead, and makes guarded commits as long as
//! they are accepted. After all rounds of a case the ledgers are compared with each other and with what was committed. What was measured is
//! printed at the end, as a table; `docs/failover.md` says how to read it.
//!
//! | to find | look in |
//! | --- | --- |
//! | what happens to leaders | `scenario` |
//! | what a worker does | `worker`, `belief` |
//! | what it leaves behind | `ledger` |
//! | the rounds of a case | `fleet` |
//! | what must never be seen | `check` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(clippy::print_stdout, reason = "what was measured is shown")]

mod belief;
mod check;
mod fleet;
mod ledger;
mod scenario;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod worker;

use std::{
    process::ExitCode,
    sync::{Arc, Mutex},
};

use libtest_mimic::{Arguments, Trial};

use self::{
    fleet::Fleet,
    scenario::Scenario,
    support::{place::Place, process},
    table::{Row, Table},
};

/// How many rounds there are in a case, if [`ROUNDS_VARIABLE`] does not say.
const ROUNDS: usize = 3;

const ROUNDS_VARIABLE: &str = "TENURE_FAILOVER_ROUNDS";

/// How many cases run at a time when nobody has asked for figures: they wait most of the time.
const CASES_AT_A_TIME: usize = 4;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(process::WORKER) {
        worker::main(args.collect());
        return ExitCode::SUCCESS;
    }
    let asked = std::env::var(ROUNDS_VARIABLE).ok();
    let rounds = asked.as_ref().map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    // Whoever measures wants the machine for one case alone.
    let threads = if asked.is_some() { 1 } else { CASES_AT_A_TIME };
    let given = Arguments::from_args();
    let arguments = Arguments { test_threads: given.test_threads.or(Some(threads)), ..given };
    let table = Arc::new(Mutex::new(Table::default()));
    let mut trials = check::trials();
    for scenario in Scenario::ALL {
        for place in Place::ALL {
            let table = Arc::clone(&table);
            trials.push(Trial::test(format!("{place}::{scenario}"), move || {
                let row = run(place, scenario, rounds);
                table.lock().unwrap().add(row);
                Ok(())
            }));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    print!("{}", table.lock().unwrap());
    conclusion.exit_code()
}

/// All rounds of one case, and all checks.
fn run(place: Place, scenario: &'static Scenario, rounds: usize) -> Row {
    let mut fleet = Fleet::start(place, scenario);
    let mut row = Row::new(place, scenario);
    // Rounds in which nothing could be measured are made again, but not without end.
    let tries_max = 3 * rounds + 5;
    for _ in 0..tries_max {
        if row.rounds() == rounds {
            break;
        }
        row.add(fleet.round());
    }
    assert_eq!(row.rounds(), rounds, "of {tries_max} rounds so many could be measured");
    fleet.end();
    row
}
