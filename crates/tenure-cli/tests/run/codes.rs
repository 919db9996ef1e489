//! How `tenure run` ends.

use std::{net::TcpListener, os::unix::fs::PermissionsExt as _, time::Duration};

use nix::sys::signal::Signal;

use crate::office::{Office, timed};

fn code(options: &[&str], command: &[&str]) -> i32 {
    Office::new().start(options, command).end()
}

#[test]
fn the_code_is_the_commands() {
    assert_eq!(code(&[], &["true"]), 0);
    assert_eq!(code(&[], &["sh", "-c", "exit 7"]), 7);
    assert_eq!(code(&[], &["sh", "-c", "exit 255"]), 255);
}

#[test]
fn a_command_that_a_signal_ends_has_128_and_its_number() {
    for (signal, expected) in [("KILL", 137), ("USR1", 138), ("TERM", 143), ("HUP", 129)] {
        assert_eq!(code(&[], &["sh", "-c", &format!("kill -{signal} $$; sleep 5")]), expected, "{signal}");
    }
}

#[test]
fn a_command_that_can_not_be_run_has_126_and_one_that_is_missing_127() {
    let office = Office::new();
    let file = office.path().join("program");
    std::fs::write(&file, "no program").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut run = office.start(&[], &["./program"]);
    assert_eq!(run.end(), 126);
    assert!(run.err().contains("can't run ./program"), "{}", run.err());
    let mut run = office.start(&[], &["no-such-program"]);
    assert_eq!(run.end(), 127);
    assert!(run.err().contains("can't run no-such-program"), "{}", run.err());
}

#[test]
fn who_does_not_wait_ends_with_100_while_another_leads() {
    let office = Office::new();
    let first = office.start_shell(&[], "echo here; sleep 60");
    first.await_out("here");
    assert_eq!(office.start(&["--no-wait"], &["true"]).end(), 100);
    let (code, took) = timed(|| office.start(&["--timeout", "800ms"], &["true"]).end());
    assert_eq!(code, 100);
    assert!(took >= Duration::from_millis(800) && took < Duration::from_secs(5), "{took:?}");
    // Who may wait as long as it needs, gets it.
    let mut patient = office.start(&["--timeout", "25s"], &["true"]);
    patient.await_err("waiting");
    first.signal(Signal::SIGTERM);
    assert_eq!(patient.end(), 0);
}

#[test]
fn a_store_that_is_not_there_is_102() {
    let mut run = Office::new().start(&["--store", "postgres://u:secret@127.0.0.1:1/d"], &["true"]);
    assert_eq!(run.end(), 102);
    let told = run.err();
    assert!(told.contains("can't open the store") && told.contains("127.0.0.1"), "{told}");
    assert!(!told.contains("secret"), "{told}");
}

#[test]
fn a_signal_ends_who_waits_for_a_store_that_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://u@127.0.0.1:{}/d", silent.local_addr().unwrap().port());
    let mut run = Office::new().start(&["--store", &store], &["true"]);
    // It has connected, so it is under way.
    let _held = silent.accept().unwrap();
    let (code, took) = timed(|| {
        run.signal(Signal::SIGTERM);
        run.end()
    });
    assert_eq!(code, 143);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn arguments_that_can_not_be_followed_are_2_and_say_what_to_do() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--ttl", "5"], &["'5'", "--ttl", "a number and a unit", "15s"]),
        (&["--ttl", "100ms"], &["ttl 100ms", "ttl >= 1 s must hold", "use a longer ttl"]),
        (&["--ttl", "2s", "--grace", "1s"], &["--grace 1s", "grace x 3 <= ttl must hold", "shorter grace"]),
        (&["--grace", "0s"], &["grace is 0 s", "must be more"]),
        (&["--restart", "sometimes"], &["'sometimes'", "never", "on-failure", "always"]),
        (&["--no-wait", "--timeout", "1s"], &["--no-wait", "--timeout", "cannot be used with"]),
        (&["--store", "redis://here"], &["redis", "sqlite:", "postgres://", "etcd://"]),
        (&["--store", "sqlite:no/such/folder/a.db"], &["no/such/folder", "create the directory first"]),
        (&["--node", ""], &["--node \"\"", "a name is empty", "at least one character"]),
        (&["--cluster", ""], &["--cluster", "a name is empty"]),
        (&["--no-such-option"], &["--no-such-option"]),
    ];
    for (options, expected) in cases {
        let mut run = Office::new().start(options, &["true"]);
        let code = run.end();
        let told = run.err();
        assert_eq!(code, 2, "{options:?}: {told}");
        for text in *expected {
            assert!(told.contains(text), "{options:?} should tell of {text:?}: {told}");
        }
    }
    let mut run = Office::new().start_program(env!("CARGO_BIN_EXE_tenure"), &["run", "job"]);
    assert_eq!(run.end(), 2);
    assert!(run.err().contains("COMMAND"), "{}", run.err());
}

/// Whoever started us may not care for its children. We do.
#[test]
fn the_code_is_told_where_ends_of_children_are_ignored() {
    let office = Office::new();
    let script = format!("trap '' CHLD; exec {} run job -- sh -c 'exit 7'", env!("CARGO_BIN_EXE_tenure"));
    // Other shells do not ignore it.
    assert_eq!(office.start_program("bash", &["-c", &script]).end(), 7);
}
