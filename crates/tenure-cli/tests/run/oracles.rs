//! `tenure run --oracle`: somebody else decides.

use crate::office::{Office, Run, await_that};

/// A lease service, and the URL of its leases.
fn service(office: &Office) -> (Run, String) {
    let words = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:leases.db"];
    let daemon = office.start_program(env!("CARGO_BIN_EXE_tenure"), &words);
    let mut url = None;
    await_that("it says where it serves", || {
        url = daemon.out().trim().rsplit_once(' ').map(|(_, url)| url.to_owned());
        url.is_some()
    });
    (daemon, url.unwrap())
}

/// Leases that are shorter than the usual grace leave time for the command all the same.
#[test]
fn a_command_runs_for_longer_than_a_short_lease() {
    let office = Office::new();
    let (_daemon, url) = service(&office);
    let oracle = format!("--oracle={url}?ttl=3s");
    let mut run = office.start_shell(&[&oracle], "echo term $TENURE_TERM; sleep 5; echo done");
    assert_eq!(run.end(), 0, "{}", run.err());
    assert_eq!(run.out(), "term 1\ndone\n");
}

#[test]
fn the_command_runs_in_one_place_at_a_time_and_moves_on() {
    let office = Office::new();
    let (_daemon, url) = service(&office);
    let oracle = format!("--oracle={url}?ttl=3s&refresh=200ms");
    let script = "echo begins; sleep 4; echo ends";
    let mut first = office.start_shell(&[&oracle, "--node=one"], script);
    first.await_out("begins");
    let mut second = office.start_shell(&[&oracle, "--node=two"], script);
    second.await_err("waiting");
    assert_eq!(office.start(&[&oracle, "--no-wait"], &["true"]).end(), 100);
    assert_eq!(first.end(), 0, "{}", first.err());
    second.await_out("begins");
    assert_eq!(first.out(), "begins\nends\n");
    assert_eq!(second.end(), 0, "{}", second.err());
    assert_eq!(office.start(&[&oracle, "--no-wait"], &["true"]).end(), 0);
}

#[test]
fn an_oracle_that_nobody_knows_is_refused_before_anything_is_asked() {
    let mut run = Office::new().start(&["--oracle=dice://host"], &["true"]);
    assert_eq!(run.end(), 2);
    assert!(run.err().contains("no URL of an oracle"), "{}", run.err());
}
