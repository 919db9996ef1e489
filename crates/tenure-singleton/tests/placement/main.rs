//! Many singletons, spread over nodes.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(clippy::print_stderr, reason = "measurements are for whoever reads the log")]
#![allow(clippy::cast_precision_loss, reason = "counts are small")]

mod changes;
mod failures;
mod fleet;
mod measure;
mod spread;
