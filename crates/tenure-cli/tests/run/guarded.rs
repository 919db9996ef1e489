//! What the guardian is for, and what happens without it.

use std::{thread, time::Duration};

use nix::sys::{prctl, signal::Signal};

use crate::office::{Office, Run, await_that, lives, send, timed};

/// Tells its own id and that of something that left its group, and lost its parent.
const FAMILY: &str =
    "(setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' &); sleep 0.2; echo $$; sleep 60";

/// The processes of such a command, once both run.
fn family(run: &Run) -> Vec<i32> {
    await_that("the family is there", || run.out().lines().count() == 2);
    run.out().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_command_whose_leadership_is_lost_is_ended_and_told_as_101() {
    let mut run = Office::new().start_shell(&["--ttl=1s", "--json"], FAMILY);
    let family = family(&run);
    run.signal(Signal::SIGSTOP);
    // In time, whatever becomes of us.
    await_that("nothing is left of it", || family.iter().all(|id| !lives(*id)));
    thread::sleep(Duration::from_millis(500));
    run.signal(Signal::SIGCONT);
    assert_eq!(run.end(), 101, "{}", run.err());
    assert!(run.err().contains("\"lost\""), "{}", run.err());
}

#[test]
fn a_command_whose_time_is_over_is_asked_once() {
    let script = "trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done";
    let run = Office::new().start_shell(&["--ttl=3s", "--grace=1s"], script);
    run.await_out("ready");
    run.signal(Signal::SIGSTOP);
    run.await_out("term");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(run.out(), "ready\nterm\n");
}

#[test]
fn a_command_whose_run_is_killed_is_ended_by_the_guardian() {
    let office = Office::new();
    let run = office.start_shell(&[], FAMILY);
    let (family, guardian) = (family(&run), run.guardian());
    run.signal(Signal::SIGKILL);
    await_that("nothing is left of it", || family.iter().all(|id| !lives(*id)));
    await_that("the guardian has done its duty", || !lives(guardian));
}

#[test]
fn a_command_whose_guardian_is_killed_is_ended_and_told_as_103() {
    let office = Office::new();
    let mut run = office.start_shell(&["--json"], FAMILY);
    let family = family(&run);
    send(run.guardian(), Signal::SIGKILL);
    assert_eq!(run.end(), 103);
    for id in family {
        assert!(!lives(id), "{id} lives");
    }
    // It was given up at once.
    let (code, took) = timed(|| office.start(&[], &["true"]).end());
    assert!(code == 0 && took < Duration::from_secs(2), "{code} after {took:?}");
}

/// The next one knows all that the first one knew.
#[test]
fn a_guardian_that_is_killed_is_replaced_where_commands_are_started_again() {
    let office = Office::new();
    let run = office.start_shell(&["--restart=always", "--json"], FAMILY);
    let (first, guardian) = (family(&run), run.guardian());
    send(guardian, Signal::SIGKILL);
    await_that("it was started again", || run.out().lines().count() == 4);
    first.into_iter().for_each(|id| assert!(!lives(id), "{id} lives"));
    run.await_err("\"unguarded\"");
    assert_ne!(run.guardian(), guardian);
    run.signal(Signal::SIGKILL);
    let (code, took) = timed(|| office.start(&[], &["true"]).end());
    assert!(code == 0 && took < Duration::from_secs(10), "{code} after {took:?}: nobody ended the session");
    let all: Vec<i32> = run.out().lines().map(|line| line.parse().unwrap()).collect();
    all.into_iter().for_each(|id| assert!(!lives(id), "{id} lives"));
}

#[test]
fn who_waits_gets_another_guardian_where_commands_are_started_again() {
    let office = Office::new();
    let first = office.start_shell(&[], "echo here; sleep 60");
    first.await_out("here");
    let second = office.start_shell(&["--restart=on-failure"], "echo there; sleep 60");
    second.await_err("waiting");
    let guardian = second.guardian();
    send(guardian, Signal::SIGKILL);
    second.await_err("unguarded");
    assert_ne!(second.guardian(), guardian);
    first.signal(Signal::SIGTERM);
    second.await_out("there");
}

/// Who was asked to end does so, whatever becomes of its guardian.
#[test]
fn who_is_to_end_needs_no_other_guardian() {
    let mut run = Office::new().start_shell(&["--restart=always", "--grace=300ms"], FAMILY);
    let family = family(&run);
    send(run.guardian(), Signal::SIGSTOP);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end(), 103);
    family.into_iter().for_each(|id| assert!(!lives(id), "{id} lives"));
}

/// Whoever became `tenure run` may have had children before.
#[test]
fn children_of_others_are_left_alone() {
    let office = Office::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let script = format!("sleep 20 & echo $! > other; exec {tenure} run job -- sh -c 'echo $$; sleep 60'");
    let mut run = office.start_program("sh", &["-c", &script]);
    run.await_out("\n");
    send(run.guardian(), Signal::SIGKILL);
    assert_eq!(run.end(), 103);
    let other = std::fs::read_to_string(office.path().join("other")).unwrap().trim().parse().unwrap();
    assert!(lives(other));
    send(other, Signal::SIGKILL);
    assert!(!lives(run.out().trim().parse().unwrap()));
}

#[test]
fn a_guardian_that_is_stopped_goes_on_when_the_run_is_killed() {
    // Else the kernel would do so: those who are adopted by nobody of their session are woken.
    prctl::set_child_subreaper(true).unwrap();
    let run = Office::new().start_shell(&[], FAMILY);
    let (family, guardian) = (family(&run), run.guardian());
    send(guardian, Signal::SIGSTOP);
    run.signal(Signal::SIGKILL);
    await_that("nothing is left of it", || family.iter().all(|id| !lives(*id)));
    await_that("the guardian has done its duty", || !lives(guardian));
}

#[test]
fn a_guardian_that_is_stopped_can_not_keep_the_command_alive() {
    let mut run = Office::new().start_shell(&["--grace=300ms"], FAMILY);
    let family = family(&run);
    send(run.guardian(), Signal::SIGSTOP);
    let (code, took) = timed(|| {
        run.signal(Signal::SIGTERM);
        run.end()
    });
    assert!(code == 103 && took < Duration::from_secs(3), "{code} after {took:?}");
    for id in family {
        assert!(!lives(id), "{id} lives");
    }
}

#[test]
fn who_waits_without_a_guardian_gives_up() {
    let office = Office::new();
    let first = office.start_shell(&[], "echo here; sleep 60");
    first.await_out("here");
    let mut second = office.start(&[], &["true"]);
    second.await_err("waiting");
    send(second.guardian(), Signal::SIGKILL);
    assert_eq!(second.end(), 103);
}

#[test]
fn who_leads_with_a_guardian_that_starts_nothing_gives_up() {
    let office = Office::new();
    let first = office.start_shell(&[], "echo here; sleep 60");
    first.await_out("here");
    let mut second = office.start(&[], &["true"]);
    second.await_err("waiting");
    send(second.guardian(), Signal::SIGSTOP);
    first.signal(Signal::SIGTERM);
    assert_eq!(second.end(), 103);
    assert_eq!(office.start(&[], &["true"]).end(), 0);
}
