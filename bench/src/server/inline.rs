//! Callers in the process that serves.

use crate::{bench::Bench, crowd::Crowd};

pub(crate) const IDLE: &str = "inline, 1 caller that rests between calls";
pub(crate) const CROWD: &str = "inline, 256 callers, 1 server";

/// Who calls what: the name of the row, callers, servers, rests.
const ROWS: [(&str, u64, u64, bool); 5] = [
    (IDLE, 1, 1, true),
    ("inline, 1 caller, 1 server", 1, 1, false),
    ("inline, 32 callers, 1 server", 32, 1, false),
    (CROWD, 256, 1, false),
    ("inline, 256 callers, 1,000 servers", 256, 1000, false),
];

pub(crate) fn measure(bench: &mut Bench) {
    for (name, callers, servers, rests) in ROWS {
        if !bench.options.wants_row(name) {
            continue;
        }
        let seconds = bench.options.seconds();
        let crowd = Crowd { name: name.replace(", ", "-"), callers, servers, seconds, rests };
        let measure = |bench: &Bench| {
            let cluster = bench.cluster();
            bench.runtime.block_on(async {
                crowd.look(&cluster).await.unwrap();
                let mut work = crowd.call(&cluster, &bench.counted).await;
                work.applied = crowd.look(&cluster).await.unwrap();
                work
            })
        };
        bench.row(name, measure, |_| String::new());
    }
}
