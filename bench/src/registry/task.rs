//! [`Task`]: what a node is told to do, and [`Done`]: what it says of it.

use serde::{Deserialize, Serialize};
use tenure_bench::counted::Counts;

/// How a node starts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) url: String,
    pub(crate) node: String,
}

/// What a node is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// To say how it is.
    Look,
    /// To register free names, so many at once, for so long, and to take them back afterwards.
    Register { prefix: String, flights: u64, seconds: f64 },
    /// To register these names with a mailbox that answers, and to keep them.
    Own { from: u64, to: u64 },
    /// To take all of them back.
    Disown,
    /// To look all names up for so long, by so many threads.
    LookUp { names: u64, threads: u64, seconds: f64 },
    /// To call these names, so many at once, for so long.
    Call { from: u64, to: u64, flights: u64, seconds: f64 },
    /// To ask the leader for these names, so many at once, for so long.
    Ask { names: u64, flights: u64, seconds: f64 },
    /// To register names until one was registered in a later epoch than this.
    Probe { epoch: u64 },
    /// To leave the cluster.
    Leave,
}

/// How a node is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Look {
    pub(crate) leads: bool,
    pub(crate) epoch: u64,
    pub(crate) names: u64,
    pub(crate) resident_kib: u64,
    pub(crate) counts: Counts,
    /// How long it took to load all names when it started, in milliseconds.
    pub(crate) load_ms: f64,
}

/// What came of many requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    /// How long half of them, and 99 of 100, took at most, in milliseconds.
    pub(crate) p50_p99: Option<(f64, f64)>,
    /// At the stores of all nodes.
    pub(crate) counts: Counts,
    /// The first error, if there was one.
    pub(crate) error: Option<String>,
}

impl Work {
    pub(crate) fn rate(&self) -> f64 {
        self.count as f64 / self.seconds
    }
}

/// What a node says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Done {
    Look(Look),
    Work(Work),
    /// Something happened at this moment of the machine's clock, in nanoseconds.
    At(u64),
    Nothing,
}
