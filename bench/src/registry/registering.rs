//! Registrations, by one or many at once, where the leader is and elsewhere.

use crate::{bench::Bench, task::Task};

pub(crate) const ONE: &str = "registrations, 1 in flight, where the leader is";
pub(crate) const CROWD: &str = "registrations, 256 in flight, where the leader is";
pub(crate) const FAR: &str = "registrations, 256 in flight, on another node";
const FAR_ONE: &str = "registrations, 1 in flight, on another node";

pub(crate) const ALONE: &str = "registrations, 256 in flight, one node alone";

/// While there is only one node.
pub(crate) fn measure_alone(bench: &mut Bench) {
    row(bench, ALONE, 256, 0);
}

/// With all nodes.
pub(crate) fn measure(bench: &mut Bench) {
    for (name, flights, here) in [(ONE, 1, true), (CROWD, 256, true), (FAR_ONE, 1, false), (FAR, 256, false)]
    {
        let place = if here { bench.leader().0 } else { bench.follower() };
        row(bench, name, flights, place);
    }
}

fn row(bench: &mut Bench, name: &str, flights: u64, place: usize) {
    let (prefix, seconds) = (format!("row/{}", bench.rows.len()), bench.options.seconds());
    bench.row(name, place, &Task::Register { prefix, flights, seconds });
    bench.await_names(0);
}
