//! The etcd store beside a bare client that does the same.

use tenure_bench::bare::BareEtcd;

use crate::server::{self, CROWD, Limit};

const TXNS_EACH: u64 = 300;
const RANGES_EACH: u64 = 1000;

pub(crate) fn measure(url: &str) {
    let runtime = tenure_bench::runtime();
    let bare = BareEtcd::connect(&runtime, url);
    let limit = Limit {
        name: "a bare client",
        commits: Box::new(|| bare.commits(CROWD, TXNS_EACH)),
        reads: Box::new(|| bare.reads(CROWD, RANGES_EACH)),
    };
    server::measure(&runtime, url, &limit);
}
