//! The daemon's HTTP API: who may use which route, what it does with whatever is sent to it, what it measures, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod certificates;
mod daemon;
mod fuzz;
mod hostile;
#[allow(dead_code, reason = "the tests of the page use all of it")]
#[path = "../page/keeper.rs"]
mod keeper;
mod measures;
mod pages;
mod roles;
mod secrets;
mod stop;

/// What [`keeper`] takes part in.
mod stage {
    /// The daemon's own, by default.
    pub(crate) const CLUSTER: &str = "default";
}
