//! The PostgreSQL store beside pgbench.

use tenure_bench::bare::PgBench;

use crate::server::{self, CROWD, Limit};

/// A million rows.
const SCALE: u64 = 10;

pub(crate) fn measure(url: &str) {
    let bench = PgBench::prepare(url, SCALE);
    let limit = Limit {
        name: "pgbench",
        commits: Box::new(|| bench.commits(CROWD)),
        reads: Box::new(|| bench.reads(CROWD)),
    };
    server::measure(&tenure_bench::runtime(), url, &limit);
}
