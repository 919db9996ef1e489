//! Oracles beside those whose elections they share, on real servers. One program, so that tests that wait do so together.
//!
//! | to find | look in |
//! | --- | --- |
//! | databases, rivals that execute the statements of others, and rooms in which two must never be | `arena` |
//! | one oracle at a time | `crown`, `oban`, `sofa` |
//! | elections shared with rivals, through many changes of holder | `crown_mixed`, `sofa_mixed` |
//! | servers that stand still or fail | `crown_outages` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod arena;
mod crown;
mod crown_mixed;
mod crown_outages;
mod oban;
mod sofa;
mod sofa_mixed;
