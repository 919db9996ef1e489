//! The MySQL store beside a bare client.

use tenure_bench::bare::BareMysql;

use crate::server::{self, CROWD, Limit};

const UPDATES_EACH: u64 = 300;
const SELECTS_EACH: u64 = 1000;

pub(crate) fn measure(url: &str) {
    let runtime = tenure_bench::runtime();
    let bare = BareMysql::connect(&runtime, url, CROWD);
    let limit = Limit {
        name: "a bare client",
        commits: Box::new(|| bare.commits(UPDATES_EACH)),
        reads: Box::new(|| bare.reads(SELECTS_EACH)),
    };
    server::measure(&runtime, url, &limit);
}
