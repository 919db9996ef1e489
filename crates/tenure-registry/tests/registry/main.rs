//! Registries on real links, with a store in memory or a file, and on links and time that a test controls.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;
mod names;
mod processes;

mod net;
mod sim;

mod copies;
mod kept;
mod lifetimes;
mod mailboxes;
mod outcomes;
mod proofs;
mod queries;
mod races;
mod steps;
mod views;
mod watching;
