//! Each command from outside: real processes against a real cluster, in text and as JSON that its schema describes.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod codes;
mod diagnose;
mod help;
mod keeper;
mod look;
mod operate;
mod schema;
mod servers;
mod stage;
