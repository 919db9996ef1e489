//! Many processes on one file: killed, stopped, crowded, idle, on a full disk.
//!
//! The test program starts itself again as a worker, which talks to it by lines on its standard output.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]
#![allow(clippy::print_stdout, reason = "workers talk on their standard output")]

mod child;
mod disk;
mod history;
mod trials;
mod worker;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(child::WORKER) {
        return worker::main(args.collect());
    }
    let trials = vec![
        trial("killed_processes_lose_nothing", trials::killed_processes_lose_nothing),
        trial("stopped_processes_lose_nothing", trials::stopped_processes_lose_nothing),
        trial("turns_are_shared_fairly", trials::turns_are_shared_fairly),
        trial(
            "twenty_processes_open_an_empty_file_at_once",
            trials::twenty_processes_open_an_empty_file_at_once,
        ),
        trial("a_commit_wakes_another_process", trials::a_commit_wakes_another_process),
        trial(
            "a_waking_lost_with_its_process_comes_later",
            trials::a_waking_lost_with_its_process_comes_later,
        ),
        trial("an_idle_process_uses_no_processor", trials::an_idle_process_uses_no_processor),
        trial("a_failed_flush_is_an_unknown_outcome", disk::a_failed_flush_is_an_unknown_outcome),
        trial("a_full_disk_is_an_error_and_loses_nothing", disk::a_full_disk_is_an_error_and_loses_nothing),
        trial("a_read_only_directory_is_an_error", disk::a_read_only_directory_is_an_error),
    ];
    // One at a time: each of them wants the whole machine.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}
