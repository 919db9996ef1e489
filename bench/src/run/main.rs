//! `cargo xtask bench run`: how long it takes from the start of `tenure run` to the first instruction of its
//! command, beside a bare start of the same command.
//!
//! The store is the default one: a file in an empty working directory, which is made with it. The command is this
//! program itself, which writes the moment at which it began.

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tenure_bench::{
    figures::{line, median, milliseconds, spread, verdict},
    program,
};
use tenure_store::Env;

/// The first argument that makes this program the command.
const COMMAND: &str = "--command";

const ROUNDS: usize = 20;

/// What `tenure run` may take.
const BAR: Duration = Duration::from_millis(50);

fn main() {
    let now = Env::system().now();
    if std::env::args().nth(1).as_deref() == Some(COMMAND) {
        print!("{}", now.since_start().as_nanos());
        return;
    }
    let this = std::env::current_exe().unwrap();
    let tenure = program::tenure();
    let (mut bare, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(measure(Command::new(&this).arg(COMMAND)));
        let mut run = Command::new(&tenure);
        run.args(["run", "--quiet", "job", "--"]).arg(&this).arg(COMMAND);
        through.push(measure(&mut run));
    }
    println!("{ROUNDS} rounds: min / median / max");
    line("the command alone", spread(&mut bare), String::new());
    line("tenure run, until its command begins", spread(&mut through), String::new());
    let median = Duration::from_secs_f64(median(through));
    line("the bar, for the median", milliseconds(BAR), verdict(median <= BAR));
}

/// From just before the start to the moment that the command writes, in seconds.
fn measure(command: &mut Command) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let start = Env::system().now().since_start();
    let command = command.current_dir(folder.path()).env_remove("TENURE_STORE").env_remove("TENURE_CLUSTER");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let began: u64 = String::from_utf8(output.stdout).unwrap().parse().unwrap();
    (Duration::from_nanos(began) - start).as_secs_f64()
}
