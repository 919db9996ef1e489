//! What the demo and its nodes say to each other: a line of JSON each, through pipes.

use serde::{Deserialize, Serialize};

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Add one to the counter. Whoever is told the same number again counts the same increment.
    Count { number: u64 },
    /// Read the counter.
    Read,
}

/// What a node tells. Moments are nanoseconds on the boot-time clock, which all processes of a machine share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It stands for the office, and has its names.
    Ready,
    /// It leads, in this term, since then.
    Leads { term: u64, at: u64 },
    /// It does not any more.
    Lost { term: u64 },
    /// It runs the singleton, in this term.
    Works { term: u64 },
    /// What the singleton found the counter at.
    Audited { total: u64 },
    /// How many names it knows.
    Names { count: usize },
    /// An increment was made: the counter was then at this.
    Counted { number: u64, total: u64 },
    /// It may have been made, or not: ask again.
    Uncounted { number: u64, why: String },
    /// The counter is at this.
    Value { total: u64 },
    /// It could not be read.
    Unread { why: String },
}
