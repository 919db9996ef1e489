//! Hand-over: how long nobody can register while another node takes the lead.

use std::{thread, time::Duration};

use tenure_bench::figures::{line, median, quantile};

use crate::{bench::Bench, task::Task};

/// How long the node that measures is at work before the leader goes.
const BEFORE: Duration = Duration::from_millis(200);

pub(crate) fn measure(bench: &mut Bench) {
    bench.fill();
    for _ in 0..bench.options.rounds() {
        let left = pass(bench, false);
        bench.figures.left.push(left);
        let killed = pass(bench, true);
        bench.figures.killed.push(killed);
    }
    let names = bench.options.names();
    for (what, mut times) in
        [("leaves", bench.figures.left.clone()), ("is killed", bench.figures.killed.clone())]
    {
        let what = format!("hand-over at {names} names, the leader {what}");
        let beside = format!(
            "median of {}, from {:.0} to {:.0} ms",
            times.len(),
            quantile(&mut times, 0.0),
            quantile(&mut times, 1.0)
        );
        line(&what, format!("{:.0} ms", median(times)), beside);
    }
}

/// The leader goes, and another follows. Returns how long that took, in milliseconds, and puts a new node in its place.
fn pass(bench: &mut Bench, kill: bool) -> f64 {
    let (leader, epoch) = bench.leader();
    let probe = (leader + 1) % bench.nodes.len();
    bench.nodes[probe].tell(&Task::Probe { epoch });
    thread::sleep(BEFORE);
    let going = bench.nodes.remove(leader);
    let begun = if kill { going.kill() } else { going.leave() };
    let probe = if probe > leader { probe - 1 } else { probe };
    let done = bench.nodes[probe].moment();
    // Behind all others: but its share is that of the one that has gone.
    let (from, to) = bench.share(leader);
    bench.join().does(&Task::Own { from, to });
    let last = bench.nodes.pop().expect("it was just added");
    bench.nodes.insert(leader, last);
    bench.await_names(bench.options.names());
    done.saturating_sub(begun) as f64 / 1e6
}
