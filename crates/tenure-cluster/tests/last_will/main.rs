//! The last will with real processes: nodes that are killed, that leave, that drop it, and the process that keeps it.
//!
//! The test program starts itself again as a node, which starts it once more as the executor of its will.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "nodes talk on their standard output, and what was measured is shown"
)]

mod node;
mod roles;
mod trials;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some(roles::EXECUTOR), Some(folder)) => return roles::executor(folder),
        (Some(roles::NODE), Some(folder)) => return roles::node(&folder),
        _ => {}
    }
    let trials = vec![
        trial("a_killed_nodes_will_is_carried_out", trials::a_killed_nodes_will_is_carried_out),
        trial("a_node_that_just_ends_has_died_too", trials::a_node_that_just_ends_has_died_too),
        trial("a_revoked_will_is_not_carried_out", trials::a_revoked_will_is_not_carried_out),
        trial("only_the_latest_will_is_carried_out", trials::only_the_latest_will_is_carried_out),
        trial("a_dropped_will_waits_for_the_death", trials::a_dropped_will_waits_for_the_death),
        trial("dropped_wills_are_bounded", trials::dropped_wills_are_bounded),
        trial("a_stopped_node_is_not_dead", trials::a_stopped_node_is_not_dead),
        trial(
            "the_executor_outlives_signals_to_the_group",
            trials::the_executor_outlives_signals_to_the_group,
        ),
        trial("the_executor_does_not_listen_to_signals", trials::the_executor_does_not_listen_to_signals),
        trial("a_lost_executor_is_noticed_and_replaced", trials::a_lost_executor_is_noticed_and_replaced),
        trial("the_executor_has_little_and_no_secret", trials::the_executor_has_little_and_no_secret),
        trial("a_program_that_cannot_be_started_is_named", trials::a_program_that_cannot_be_started_is_named),
        trial("a_program_that_is_no_executor_is_named", trials::a_program_that_is_no_executor_is_named),
        trial("garbage_is_refused", trials::garbage_is_refused),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}
