//! Peer links over real sockets on 127.0.0.1.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;
mod forger;

mod bounds;
mod broadcast;
mod lifecycle;
mod measures;
mod order;
mod secrets;
mod sessions;
mod tls;
