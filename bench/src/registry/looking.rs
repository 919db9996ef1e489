//! Look-ups among many names, and newcomers that load them.

use tenure_bench::figures::{line, median};

use crate::{bench::Bench, task::Task};

pub(crate) const LOOK_UPS: &str = "look-ups from two threads";
const CONSISTENT: &str = "consistent look-ups, 256 in flight, on another node";

/// How many newcomers are measured.
const NEWCOMERS: usize = 3;

pub(crate) fn measure(bench: &mut Bench) {
    bench.fill();
    let (names, seconds) = (bench.options.names(), bench.options.seconds());
    let follower = bench.follower();
    bench.memory(LOOK_UPS, follower, &Task::LookUp { names, threads: 2, seconds });
    bench.row(CONSISTENT, follower, &Task::Ask { names, flights: 256, seconds });
    for _ in 0..NEWCOMERS {
        let newcomer = bench.join();
        let (started, resident) = (newcomer.started.clone(), newcomer.look().resident_kib);
        assert_eq!(started.names, names, "a newcomer knows all names from the start");
        bench.figures.loads.push(started.load_ms);
        bench.figures.resident_full = Some(resident);
        bench.nodes.pop().expect("it is the last one").leave();
    }
    let loads = bench.figures.loads.clone();
    line(
        &format!("a newcomer loads {names} names"),
        format!("{:.0} ms", median(loads)),
        "median of 3".into(),
    );
    if let Some(bytes) = bench.bytes_a_name() {
        line("memory a name, of a process that follows", format!("{bytes:.0} B"), String::new());
    }
}

impl Bench {
    /// What a process has more with all names than with none, by all of them.
    pub(crate) fn bytes_a_name(&self) -> Option<f64> {
        let (empty, full) = (self.figures.resident_empty?, self.figures.resident_full?);
        Some(full.saturating_sub(empty) as f64 * 1024.0 / self.options.names() as f64)
    }
}
