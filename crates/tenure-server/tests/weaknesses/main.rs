//! Weaknesses of the server that this one learns from, each shown to be absent, on simulated time.
//!
//! Names begin with the number of the weakness in the list that they come from:
//!
//! | number | weakness | look in |
//! | --- | --- | --- |
//! | 1, 2, 3, 6 | locked work: waits for an operator, trusts wall clocks, is lost, overwrites | `locks` |
//! | 4, 5, 10 | sending: twice, not durable, no long waits | `sending` |
//! | 7, 8, 9 | failures: effects are dropped, poison is endless, faults of the store count | `failures` |
//! | 11, 12 | what is kept for ever | `leftovers` |
//! | 13 | what is too large | `sizes` |
//! | 14 | consumers that fight | `sharing` |
//! | 15 | late answers, timers, queues without a limit | `abilities` |
//! | 15 | states of other releases, and of none | `schemas` |
//! | 16 | stop, and repeated calls | `repeats` |
//! | 18 | nothing to see | `measures` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

#[path = "../fleet/mod.rs"]
mod fleet;

mod abilities;
mod failures;
mod leftovers;
mod locks;
mod measures;
mod repeats;
mod schemas;
mod sending;
mod sharing;
mod sizes;
