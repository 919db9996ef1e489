//! Singletons as their users see them, on simulated time, with an oracle that says what a test wants it to.
//!
//! | to find | look in |
//! | --- | --- |
//! | the oracle, and a child that keeps a diary | `stage` |
//! | what happens when an oracle answers | `oracles` |
//! | what happens to children | `children` |
//! | our election as the oracle | `elections` |
//! | what users of Crown know | `crown` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod children;
mod crown;
mod elections;
mod oracles;
mod stage;
