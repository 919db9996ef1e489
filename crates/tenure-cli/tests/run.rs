//! `tenure run`, from outside: its codes, what its command finds, and what its guardian does.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

#[path = "run/codes.rs"]
mod codes;
#[path = "run/guarded.rs"]
mod guarded;
#[path = "run/office.rs"]
mod office;
#[path = "run/oracles.rs"]
mod oracles;
#[path = "run/work.rs"]
mod work;
