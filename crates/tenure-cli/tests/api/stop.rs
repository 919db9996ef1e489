//! How a daemon ends.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::ExitStatus,
    time::{Duration, Instant},
};

use crate::daemon::Daemon;

/// Sends a signal, and waits for the daemon to end.
fn signal(daemon: &Daemon, name: &str) {
    let process = daemon.process.id().to_string();
    assert!(std::process::Command::new("kill").args([name, &process]).status().unwrap().success());
}

#[allow(clippy::disallowed_methods, reason = "a real process is waited for")]
fn ended(daemon: &mut Daemon, within: Duration) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = daemon.process.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < within, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn streams_end_and_what_was_granted_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(folder.path(), &[]);
    assert_eq!(daemon.ask("POST", "/locks/x/claim", "", r#"{"holder": "a"}"#).status, 200);
    let mut stream = TcpStream::connect(daemon.address).unwrap();
    write!(stream, "GET /v1/events HTTP/1.1\r\nHost: {}\r\n\r\n", daemon.address).unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    signal(&daemon, "-TERM");
    assert_eq!(ended(&mut daemon, Duration::from_secs(8)).code(), Some(0));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the stream ended, and was not cut off");
    let next = Daemon::start(folder.path(), &[]);
    let answer = next.ask("POST", "/locks/x/refresh", "", r#"{"holder": "a"}"#);
    assert_eq!((answer.status, answer.body["term"].as_u64()), (200, Some(1)));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(folder.path(), &[]);
    // A call that nobody answers keeps it from ending by itself.
    let mut stream = TcpStream::connect(daemon.address).unwrap();
    let body = r#"{"message": 1, "timeout_ms": 60000}"#;
    write!(
        stream,
        "POST /v1/servers/k/s/call HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        daemon.address,
        body.len()
    )
    .unwrap();
    while daemon.ask("GET", "/v1/servers/k/s", "", "").status != 200 {}
    signal(&daemon, "-TERM");
    while TcpStream::connect(daemon.address).is_ok() {}
    signal(&daemon, "-TERM");
    assert_eq!(ended(&mut daemon, Duration::from_secs(3)).code(), Some(143));
}
