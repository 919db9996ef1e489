//! `cargo xtask bench store`: what the SQLite store costs, beside bare SQLite on the same disk in the same run.
//!
//! Everything that is compared is measured in turns, round by round, so that a neighbour on the machine disturbs all alike; a ratio is
//! the median of the rounds' ratios.

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

mod figures;
mod processes;
mod rates;
mod watches;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [role, rest @ ..] if role == processes::WORKER => processes::worker(rest),
        [] => run(),
        other => {
            println!("bench store takes no arguments, and was given {other:?}");
            std::process::exit(2);
        }
    }
}

fn run() {
    let dir = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    println!(
        "SQLite {}, full sync, values of 256 bytes, in a directory beside the project\n",
        rusqlite::version()
    );
    rates::measure(dir.path());
    watches::measure(dir.path());
    processes::measure(dir.path());
}
