//! Whoever means no good: too much, too slow, too many, not what it says. It is refused or closed; the daemon's memory stays within bounds, and others are served meanwhile.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use tenure::store::Env;

use crate::daemon::{Daemon, heard};

/// More connections than the daemon takes at a time.
const CROWD: usize = 3000;

/// Large bodies that would be more than that together.
const LARGE: usize = 1200;

/// What a daemon may have in memory at most, whatever is done to it: 2,048 connections with their buffers, and all bodies that it reads at once.
const MEMORY_MIB: u64 = 512;

/// Sends this, and reads what comes until the daemon closes; an empty answer if it does so without a word.
fn exchange(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut stream = daemon.connect();
    // It may close before everything is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn head(daemon: &Daemon, method_and_path: &str, lines: &str) -> String {
    format!(
        "{method_and_path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{lines}\r\n",
        daemon.address
    )
}

/// Others are served: what changes something, what looks, and what is always open.
fn serves(daemon: &Daemon) {
    for number in 0..10 {
        let claim = r#"{"holder": "a", "ttl_ms": 60000, "term": null}"#;
        assert_eq!(daemon.ask("POST", &format!("/locks/x-{number}/claim"), "", claim).status, 200);
        assert_eq!(daemon.ask("GET", "/v1/elections", "", "").status, 200);
        assert_eq!(daemon.ask("GET", "/healthz", "", "").status, 200);
    }
    assert!(daemon.memory_mib() < MEMORY_MIB, "it has had {} MiB", daemon.memory_mib());
}

#[test]
fn what_is_too_large_is_refused_before_it_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &[]);
    for path in
        ["POST /locks/x/claim", "POST /v1/sessions", "POST /v1/servers/k/s/cast", "POST /v1/broadcast"]
    {
        // Nothing of it is sent.
        let mut stream = daemon.connect();
        write!(stream, "{}", head(&daemon, path, "Content-Length: 10000000000\r\nConnection: close\r\n"))
            .unwrap();
        let answer = heard(&mut stream);
        assert!(answer.status == 413 && answer.is_problem(), "{path}: {}", answer.head);
        // It does not say how much it is.
        let mut stream = daemon.connect();
        write!(stream, "{}", head(&daemon, path, "Transfer-Encoding: chunked\r\nConnection: close\r\n"))
            .unwrap();
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        let sent = (0..1000).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
        assert!(sent < 1000, "{path}: it reads on");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
    }
    serves(&daemon);
}

#[test]
fn what_is_no_json_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &["--links", "127.0.0.1:0"]);
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let deep = format!("{open}{close}");
    for (path, body) in [
        ("/locks/x/claim", deep.clone()),
        ("/locks/x/claim", format!(r#"{{"holder": {deep}}}"#)),
        ("/v1/sessions", format!(r#"{{"name": {deep}}}"#)),
        ("/v1/servers/k/s/call", format!(r#"{{"message": {deep}}}"#)),
        (
            "/v1/servers/k/s/cast",
            format!(r#"{{"message": {}1{}}}"#, r#"{"a":"#.repeat(10_000), "}".repeat(10_000)),
        ),
        ("/v1/broadcast", format!(r#"{{"topic": "t", "message": {open}"#)),
        ("/v1/elections/x/ask", "{\"to\": \"\\ud800\"}".to_owned()),
        ("/v1/elections/x/claim", "NaN".to_owned()),
    ] {
        let answer = daemon.ask("POST", path, "", &body);
        assert!(answer.status == 400 && answer.is_problem(), "{path}: {} {}", answer.head, answer.text);
    }
    let bad = b"{\"holder\": \"\xff\xfe\"}";
    let lines = format!("Content-Length: {}\r\nConnection: close\r\n", bad.len());
    let request = [head(&daemon, "POST /locks/x/claim", &lines).as_bytes(), bad].concat();
    assert!(exchange(&daemon, &request).starts_with("HTTP/1.1 400"));
    serves(&daemon);
}

#[test]
fn heads_that_are_none_are_refused_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &[]);
    let host = format!("Host: {}\r\n", daemon.address);
    let long = format!("GET /healthz HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET /healthz HTTP/1.1\r\n{host}{}\r\n", "X: y\r\n".repeat(5000));
    for (bytes, statuses) in [
        (long.as_bytes(), &["431"][..]),
        (many.as_bytes(), &["431"]),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "x".repeat(200_000)).as_bytes(), &["414", "431"]),
        (b"\x16\x03\x01\x02\x00\x01\x00", &["400"]),
        (b"GET /healthz HTTP/9.9\r\n\r\n", &["400"]),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", &["400", "404"]),
        (b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", &["400"]),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", &["403"]),
        (format!("GET /healthz HTTP/1.1\r\n{host}Host: evil.example\r\nConnection: close\r\n\r\n").as_bytes(), &["400"]),
        (format!("POST /locks/x/claim HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 6\r\n\r\n").as_bytes(), &["400"]),
        (format!("POST /locks/x/claim HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n").as_bytes(), &["400"]),
        (format!("POST /locks/x/claim HTTP/1.1\r\n{host}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").as_bytes(), &["413", "400"]),
    ] {
        let answer = exchange(&daemon, bytes);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
        assert!(statuses.contains(&status), "{shown:?}: {answer:?}");
    }
    serves(&daemon);
}

#[test]
fn what_is_sent_ahead_is_answered_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &[]);
    let mut stream = daemon.connect();
    let mut requests = String::new();
    for number in 0..500 {
        requests += &head(&daemon, &format!("GET /locks/n-{number}"), "");
    }
    requests += &head(&daemon, "GET /healthz", "Connection: close\r\n");
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut answers = String::new();
        reader.read_to_string(&mut answers).unwrap();
        answers
    });
    stream.write_all(requests.as_bytes()).unwrap();
    let answers = reading.join().unwrap();
    let found: Vec<usize> =
        (0..500).map(|number| answers.find(&format!("nobody holds n-{number}\"")).unwrap()).collect();
    assert!(found.is_sorted(), "{found:?}");
    assert!(answers.ends_with("ok\n"), "{answers}");
}

/// As many connections that begin to send this, and do not go on.
fn crowd(daemon: &Daemon, count: usize, begun: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(daemon.address).unwrap();
        // What was closed for others can't be written to.
        let _ = stream.write_all(begun);
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn thousands_who_say_nothing_or_half_of_it_keep_nobody_from_being_served() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &["--log", "error"]);
    let env = Env::system();
    let slow_body = head(&daemon, "POST /locks/x/claim", "Content-Length: 60000\r\n") + &"x".repeat(30_000);
    for begun in [&b""[..], b"GET /healthz HTTP/1.1\r\nX-Slow: ", slow_body.as_bytes()] {
        let start = env.now();
        let crowd = crowd(&daemon, CROWD, begun);
        serves(&daemon);
        // Nobody was kept waiting until the time of those others was over, which is 30 s.
        assert!(env.now() - start < Duration::from_secs(25), "places came free by time alone");
        drop(crowd);
    }
    assert!(daemon.measured("tenure_http_evictions_total").unwrap() > 0.0, "some had to go");
    let open = daemon.measured("tenure_http_connections").unwrap();
    assert!(open <= 2048.0, "{open}");
}

#[test]
fn large_bodies_that_never_end_have_bounded_room() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &["--log", "error"]);
    let begun =
        head(&daemon, "POST /v1/servers/k/s/cast", "Content-Length: 500000\r\n") + &"x".repeat(499_999);
    let crowd = crowd(&daemon, LARGE, begun.as_bytes());
    serves(&daemon);
    // It never ends: told so, or closed.
    let mut last = crowd.into_iter().next_back().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = last.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 503") || answer.starts_with("HTTP/1.1 408"), "{answer:?}");
    serves(&daemon);
}

#[test]
fn who_takes_too_long_is_told_so_or_closed() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &[]);
    let mut slow_head = daemon.connect();
    slow_head.write_all(b"GET /healthz HTTP/1.1\r\nX: ").unwrap();
    let mut slow_body = daemon.connect();
    write!(
        slow_body,
        "{}{{",
        head(&daemon, "POST /locks/x/claim", "Content-Length: 10\r\nConnection: close\r\n")
    )
    .unwrap();
    let answer = heard(&mut slow_body);
    assert!(answer.status == 408 && answer.is_problem(), "{}", answer.head);
    let mut answer = Vec::new();
    slow_head.read_to_end(&mut answer).expect("it is closed within a minute");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
}

#[test]
fn streams_never_take_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &["--log", "error"]);
    let streams = crowd(&daemon, CROWD / 2, head(&daemon, "GET /v1/events", "").as_bytes());
    let mut refused = 0;
    for mut stream in &streams {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        refused += usize::from(&status == b"HTTP/1.1 503");
    }
    assert_eq!(refused, CROWD / 2 - 1024, "half of all connections is for streams");
    serves(&daemon);
    drop(streams);
}
