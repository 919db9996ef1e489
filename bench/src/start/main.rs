//! `cargo xtask bench start`: how large the program `tenure` is, and how long it takes to start and end.

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tenure_bench::{
    figures::{line, median, milliseconds, spread, verdict},
    program,
};
use tenure_store::Env;

const ROUNDS: usize = 200;

/// What `tenure --version` may take.
const BAR: Duration = Duration::from_millis(5);

fn main() {
    let tenure = program::tenure();
    let bytes = std::fs::metadata(&tenure).unwrap().len();
    let env = Env::system();
    let measure = |program: &std::ffi::OsStr, word: &str| {
        let begun = env.now();
        let status = Command::new(program).arg(word).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{status}");
        (env.now() - begun).as_secs_f64()
    };
    let (mut bare, mut started) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(measure("true".as_ref(), "--version"));
        started.push(measure(tenure.as_os_str(), "--version"));
    }
    line(
        "the program, with debug lines",
        format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        String::new(),
    );
    println!("{ROUNDS} rounds: min / median / max");
    line("true --version", spread(&mut bare), String::new());
    line("tenure --version", spread(&mut started), String::new());
    let median = Duration::from_secs_f64(median(started));
    line("the bar, for the median", milliseconds(BAR), verdict(median <= BAR));
}
