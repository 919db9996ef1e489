//! Callers in another process, which serves nothing: what they send goes through the store, and so do the answers.

use crate::{bench::Bench, crowd::Crowd, process::Task};

pub(crate) const IDLE: &str = "queued, 1 caller that rests between calls";
pub(crate) const CROWD: &str = "queued, 256 callers, 1 server";

/// Who calls what: the name of the row, callers, servers, rests.
const ROWS: [(&str, u64, u64, bool); 5] = [
    (IDLE, 1, 1, true),
    ("queued, 1 caller, 1 server", 1, 1, false),
    ("queued, 32 callers, 1 server", 32, 1, false),
    (CROWD, 256, 1, false),
    ("queued, 256 callers, 1,000 servers", 256, 1000, false),
];

pub(crate) fn measure(bench: &mut Bench) {
    for (name, callers, servers, rests) in ROWS {
        if !bench.options.wants_row(name) {
            continue;
        }
        let seconds = bench.options.seconds();
        let crowd = Crowd { name: name.replace(", ", "-"), callers, servers, seconds, rests };
        let task = Task::Call(crowd);
        bench.row(name, |bench| bench.done_elsewhere(&task), |_| String::new());
    }
}
