//! Thousands of requests that the document allows, and that it does not: schemathesis makes them up, from a fixed seed, and holds each answer against the document.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    daemon::{Daemon, store_in},
    keeper::Keeper,
};

/// How many requests there must be.
const REQUESTS_MIN: f64 = 2000.0;

/// Streams do not end, so that there is no answer to look at. [`crate::roles`] asks for them.
const STREAMS: &str = "/(events|watch)$";

#[test]
fn whatever_is_asked_is_answered_as_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &["--log", "warn"]);
    let mut keeper = Keeper::join(&store_in(folder.path()));
    keeper.refuse(&[700, 800, 900]);
    keeper.furnish();
    let lease = daemon.ask("POST", "/locks/lease/claim", "", r#"{"holder": "a", "ttl_ms": 86400000}"#);
    assert_eq!(lease.status, 200);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api");
    let output = Command::new(python())
        .args(["-m", "schemathesis.cli", "--no-color", "--config-file"])
        .arg(tests.join("schemathesis.toml"))
        .args(["run", &format!("http://{}/openapi.json", daemon.address)])
        // One worker: the seed decides everything.
        .args(["--seed", "4040", "--max-examples", "50", "--workers", "1", "--generation-database", "none"])
        .args(["--exclude-path-regex", STREAMS, "--request-timeout", "30", "--continue-on-failure"])
        .args(["--no-shrink", "--warnings", "off", "--suppress-health-check", "all"])
        .env("SCHEMATHESIS_HOOKS", "requests_made_real")
        .env("PYTHONPATH", &tests)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let metrics = daemon.metrics();
    let rows = metrics.lines().filter(|line| line.starts_with("tenure_http_requests_total{"));
    let rows: Vec<(&str, f64)> = rows
        .map(|row| row.rsplit_once(' ').unwrap())
        .map(|(row, count)| (row, count.parse().unwrap()))
        .collect();
    let requests: f64 = rows.iter().map(|(_, count)| count).sum();
    assert!(requests >= REQUESTS_MIN, "only {requests} requests were made\n{said}");
    // A call that nobody answers in time is no failure of the daemon.
    let failed = rows.iter().find(|(row, _)| row.contains("status=\"5") && !row.contains("status=\"504"));
    assert_eq!(failed, None, "{said}");
    let found = |status: &str| rows.iter().any(|(row, _)| row.contains(&format!("status=\"{status}\"")));
    for status in ["200", "201", "202", "204", "400", "404", "405", "409", "504"] {
        assert!(found(status), "nothing was answered by {status}: the requests are too much alike\n{said}");
    }
}

/// Where the gate has put the packages of Python that a script needs.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    assert!(python.exists(), "{} is missing: `cargo xtask test` makes it", python.display());
    python
}
