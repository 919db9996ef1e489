//! What the comparisons share: clocks and figures, loads, a store that counts, and bare clients to be measured against.

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

pub mod bare;
pub mod counted;
pub mod figures;
pub mod load;
pub mod program;

use tokio::runtime::Runtime;

/// A runtime of as many threads as every comparison has.
#[must_use]
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
