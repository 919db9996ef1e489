//! `cargo xtask bench server`: what durable servers cost, beside the store's raw rate of single commits, in the same run.
//!
//! Without `--store URL` it measures SQLite, in a directory beside the project. With it, it writes to that store under a cluster of its own, and deletes what it wrote: two runs at once on
//! one store would disturb each other.
//!
//! # What is measured
//! - **Raw**: one committer that sets one small key through our store, one commit after another. It is measured before and after every row, and a row's ratio is to the median of both.
//!   The rate of a bare client is printed once, for comparison.
//! - **Commits and round trips a message** are counted, not estimated, at every store of every process that takes part, from the first message of a row to the last answer, and further in the
//!   process that serves until it is at rest, since what it tidies up belongs to the row. A round trip is a commit
//!   or a read that is asked of the store. What keeps sessions alive is not counted: a few requests in five seconds.
//! - **Queued** rows: the callers are in another process, which serves nothing.
//!
//! | file | what it has |
//! | --- | --- |
//! | `bench.rs` | the run: store, node, raw rates, rows |
//! | `inline.rs`, `queued.rs`, `casts.rs`, `large.rs`, `idle.rs` | the rows |
//! | `crowd.rs`, `kinds.rs` | callers, and what they call |
//! | `process.rs` | other processes |
//! | `table.rs`, `bars.rs` | what is printed |

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

mod bars;
mod bench;
mod casts;
mod crowd;
mod idle;
mod inline;
mod kinds;
mod large;
mod options;
mod process;
mod queued;
mod table;

use crate::{bench::Bench, options::Options};

/// Measures the rows of a group.
type Group = fn(&mut Bench);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == process::WORKER) {
        return process::work();
    }
    let Some(options) = Options::parse(&args) else {
        println!("{}", options::USAGE);
        std::process::exit(2);
    };
    let mut bench = Bench::start(options);
    let groups: [(&str, Group); 5] = [
        ("inline", inline::measure),
        ("queued", queued::measure),
        ("casts", casts::measure),
        ("large", large::measure),
        // The last one, since this process takes no part in it.
        ("idle", idle::measure),
    ];
    for (name, measure) in groups {
        if bench.options.wants(name) {
            measure(&mut bench);
        }
    }
    bars::print(&bench);
    bench.end();
}
