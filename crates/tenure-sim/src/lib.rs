//! Seeded simulation: the real code, on one thread with simulated time, over a store that fails in every way it may.
//!
//! # What it promises
//! One seed decides everything that happens in a run: the dice, the delays, the order of tasks. The same seed gives the same [trace](Trace),
//! byte for byte; a failing seed found by one person fails for everybody.
//!
//! # How
//! - [`simulate`] runs a future on a single-threaded runtime whose clock stands still until nobody has anything to do, and then jumps to
//!   the next moment at which somebody has. A simulated hour takes milliseconds.
//! - Everything that needs time or randomness gets it from the [`Env`](tenure_store::Env) of the [`World`].
//! - [`Node`]s reach one shared store, each over a [`Faulty`](tenure_store::Faulty) link of its own, and everything they ask and hear is in the trace.
//! - A [`Net`] carries messages from process to process: in order, if at all.
//! - An [`invariant`] checks what was acknowledged against what is there: one property a file.
//! - A [`scenario`] is a fleet at work under faults, followed by calm in which everything must settle.
//!
//! # What must not be in simulated code
//! The ambient clock and randomness (clippy refuses them), threads, `tokio::select!` without `biased`, and decisions that
//! depend on the order of a hash map.
//!
//! # Reproducing a failure
//! A failed test prints the seed, and `TENURE_SEED=n cargo test -p tenure-sim` runs that seed alone and prints its trace.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a simulation tells what it found by panicking")]
#![allow(clippy::missing_panics_doc, reason = "a simulation tells what it found by panicking")]

mod ledger;
mod net;
mod node;
mod seeds;
mod trace;
mod world;

pub mod invariant;
pub mod scenario;

pub use ledger::{Auditor, Ledger};
pub use net::{LinkFaults, Net, NetTally};
pub use node::Node;
pub use seeds::for_each_seed;
pub use trace::Trace;
pub use world::{World, simulate, simulate_quietly};
