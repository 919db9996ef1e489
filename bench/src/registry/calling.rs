//! Calls to mailboxes on another node.

use crate::{bench::Bench, task::Task};

pub(crate) const ONE: &str = "calls through a link, 1 in flight";
pub(crate) const CROWD: &str = "calls through a link, 256 in flight";

pub(crate) fn measure(bench: &mut Bench) {
    bench.fill();
    let seconds = bench.options.seconds();
    for (name, flights) in [(ONE, 1), (CROWD, 256)] {
        let caller = bench.follower();
        let (from, to) = bench.share((caller + 1) % bench.nodes.len());
        bench.row(name, caller, &Task::Call { from, to, flights, seconds });
    }
}
