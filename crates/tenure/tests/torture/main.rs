//! Torture of durable servers: real processes on real stores send and consume, and are killed one after the other.
//!
//! The test program starts itself again as workers: some consume, some send messages of every sort, one does both. Each keeps a journal that
//! survives it. In the end, the journals are compared with what the servers hold, and with what is left in the store. What happened is printed at the end, as a
//! table.
//!
//! | to find | look in |
//! | --- | --- |
//! | what the servers do | `log` |
//! | what a process does | `worker`, `sender` |
//! | what it leaves behind | `journal` |
//! | what happens to processes and stores | `fleet`, `trouble` |
//! | what must be so afterwards | `check`, `leftover` |
//! | that the checks would find it | `trials` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(clippy::print_stdout, reason = "what happened is shown")]

mod check;
mod fleet;
mod journal;
mod leftover;
mod log;
mod sender;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod trials;
mod trouble;
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
    trouble::Trouble,
};

/// How many processes are killed on a store, if [`KILLS_VARIABLE`] does not say.
const KILLS: usize = 100;

/// How many of them, while the store itself is in trouble: of a hundred.
const KILLS_IN_TROUBLE: usize = 20;

const RESTARTS: usize = 5;

const KILLS_VARIABLE: &str = "TENURE_TORTURE_KILLS";
const SEED_VARIABLE: &str = "TENURE_TORTURE_SEED";

/// How many cases run at a time: each waits about half of the time.
const CASES_AT_A_TIME: usize = 3;

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
    for (name, case) in cases() {
        let table = Arc::clone(&table);
        trials.push(Trial::test(name.clone(), move || {
            let row = Fleet::start(case, name).run();
            table.lock().unwrap().add(row);
            Ok(())
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    print!("{}", table.lock().unwrap());
    conclusion.exit_code()
}

fn cases() -> Vec<(String, Case)> {
    let given = |variable| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect("a number"));
    let kills = given(KILLS_VARIABLE).map_or(KILLS, |kills| usize::try_from(kills).expect("a few"));
    let seed = given(SEED_VARIABLE).unwrap_or_else(|| Env::system().random_u64());
    let case = |name: &str, place: Place, trouble: Trouble, kills: usize| {
        (format!("{place}::{name}"), Case { place, trouble, kills, seed })
    };
    let mut cases = Vec::new();
    for place in Place::ALL {
        cases.push(case("kills", place, Trouble::None, kills));
    }
    let few = kills * KILLS_IN_TROUBLE / 100;
    for place in [Place::Postgres, Place::MariaDb, Place::Etcd] {
        cases.push(case("restarts", place, Trouble::Restarts(RESTARTS), few));
    }
    for place in [Place::Postgres, Place::MariaDb, Place::Etcd] {
        cases.push(case("lost_answers", place, Trouble::Proxy, few));
    }
    cases
}
