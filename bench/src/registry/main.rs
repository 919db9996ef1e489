//! `cargo xtask bench registry`: what names cost, beside the store's raw rate of single commits, in the same run.
//!
//! Without `--store URL` it measures SQLite, in a directory beside the project. With it, it writes to that store under a cluster of its own, and deletes what it wrote: two runs at once on
//! one store would disturb each other.
//!
//! # What is measured
//! All nodes are processes of their own, with links between them, proof of death and a last will. This one only tells them what to do.
//! - **Raw**: one committer that sets one small key through our store, one commit after another. It is measured before and after every row, and a row's ratio is to the median of both.
//! - **Registrations**: each of a name that was free, by so many at once; first with one node, then with three, which all apply every batch. Commits and round trips (commits and reads) are counted at the stores of all nodes, from the first request to
//!   the last answer. What keeps sessions alive is not counted.
//! - **Look-ups**: two threads that look up random ones of all names. Their p99 is measured apart, since reading the clock takes as long as a look-up; it includes that.
//! - **Calls**: to mailboxes on another node, which answer at once.
//! - **Hand-over**: from the instant in which the leader begins to leave, or is killed, until another node has registered a name with the next leader. The leader's own share of the names is
//!   freed by that; a new node registers it again before the next round.
//! - **Memory a name**: what a new process that follows has more with all names than with none, by all of them.
//!
//! | file | what it has |
//! | --- | --- |
//! | `bench.rs` | the run: store, nodes, raw rates |
//! | `registering.rs`, `looking.rs`, `calling.rs`, `passing.rs` | the rows: registrations; look-ups, memory and newcomers; calls; hand-over |
//! | `node.rs`, `task.rs`, `crowd.rs` | what a node does, what it is told, and many at once |
//! | `process.rs` | a node as this process sees it |
//! | `table.rs`, `bars.rs` | what is printed |

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

mod bars;
mod bench;
mod calling;
mod crowd;
mod looking;
mod node;
mod options;
mod passing;
mod process;
mod registering;
mod table;
mod task;

use std::process::ExitCode;

use crate::{bench::Bench, options::Options};

/// Measures the rows of a group.
type Group = fn(&mut Bench);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some(process::EXECUTOR) => return node::executor(),
        Some(process::NODE) => {
            node::run();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let Some(options) = Options::parse(&args) else {
        println!("{}", options::USAGE);
        return ExitCode::from(2);
    };
    let mut bench = Bench::start(options);
    if bench.options.wants("registering") {
        registering::measure_alone(&mut bench);
    }
    bench.complete();
    let groups: [(&str, Group); 4] = [
        ("registering", registering::measure),
        ("looking", looking::measure),
        ("calling", calling::measure),
        ("passing", passing::measure),
    ];
    for (name, measure) in groups {
        if bench.options.wants(name) {
            measure(&mut bench);
        }
    }
    bars::print(&bench);
    bench.end();
    ExitCode::SUCCESS
}
