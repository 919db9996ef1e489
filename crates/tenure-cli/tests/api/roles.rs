//! Every route of the document, for everybody: a route that is added is tried without a line here.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::daemon::{Daemon, secret_file};

const TOKENS: [(&str, &str); 3] = [
    ("read", "reader-reader-reader"),
    ("take-part", "participant-participant"),
    ("operate", "operator-operator"),
];

/// Routes that everybody may ask.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

/// The least role that a route needs, by its tag; the routes of leases that change something are for those who take part.
fn needed(method: &str, path: &str, operation: &Value) -> Option<usize> {
    if OPEN.contains(&path) {
        return None;
    }
    let tag = operation["tags"][0].as_str().unwrap();
    Some(match (tag, method) {
        ("look", "GET") | ("health", "GET") | ("leases", "GET") => 0,
        ("leases" | "take part", _) => 1,
        ("operate", _) => 2,
        other => panic!("{method} {path} is for nobody that this test knows: {other:?}"),
    })
}

#[test]
fn every_route_is_for_its_role_and_those_above() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = TOKENS.iter().map(|(role, token)| format!("{role} {token}\n")).collect();
    let tokens = secret_file(folder.path(), "tokens", &lines);
    let daemon = Daemon::start(folder.path(), &["--tokens", &tokens, "--links", "127.0.0.1:0"]);
    let document = daemon.ask("GET", "/openapi.json", "", "").body;
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_uppercase();
            let filled = path.replace("{number}", "1").replace('{', "x").replace('}', "");
            let needed = needed(&method, path, operation);
            let strangers =
                ["", "Authorization: Bearer wrong-wrong-wrong\r\n", "Authorization: Basic cmVhZGVy\r\n"];
            for stranger in strangers {
                let answer = daemon.ask(&method, &filled, stranger, "{}");
                assert_eq!(
                    answer.status == 401,
                    needed.is_some(),
                    "{method} {path} {stranger}: {}",
                    answer.head
                );
                if needed.is_some() {
                    assert!(
                        answer.is_problem() && answer.head.contains("www-authenticate: bearer"),
                        "{}",
                        answer.head
                    );
                }
            }
            for (rank, (role, token)) in TOKENS.iter().enumerate() {
                let answer =
                    daemon.ask(&method, &filled, &format!("Authorization: Bearer {token}\r\n"), "{}");
                let refused = needed.is_some_and(|needed| rank < needed);
                assert_eq!(answer.status == 403, refused, "{method} {path} as {role}: {}", answer.head);
                assert!(
                    answer.status != 401 && answer.status < 500,
                    "{method} {path} as {role}: {}",
                    answer.head
                );
                if answer.status >= 400 {
                    assert!(answer.is_problem(), "{method} {path} as {role}: {}", answer.head);
                }
            }
            for foreign in ["Host: evil.example\r\n", "Origin: http://evil.example\r\n"] {
                let [_, _, (_, token)] = TOKENS;
                let lines = format!("{foreign}Authorization: Bearer {token}\r\n");
                let answer = daemon.ask(&method, &filled, &lines, "{}");
                assert!(
                    answer.status == 403 && answer.is_problem(),
                    "{method} {path} {foreign}: {}",
                    answer.head
                );
                assert!(!answer.head.contains("access-control"), "{}", answer.head);
            }
            if method == "GET" {
                let answer = daemon.ask("HEAD", &filled, "", "");
                assert_eq!(answer.status == 401, needed.is_some(), "HEAD {path}: {}", answer.head);
            }
            tried += 1;
        }
    }
    assert!(tried >= 30, "the document has {tried} operations");
}

#[test]
fn what_is_nowhere_or_done_otherwise_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &[]);
    let head = daemon.ask("HEAD", "/v1/members", "", "");
    assert!(head.status == 200 && head.text.is_empty(), "{}", head.head);
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("PUT", "/v1/members", 405),
        ("GET", "/locks/%ff", 400),
        ("GET", "/v1/elections/%ff/watch", 400),
        ("OPTIONS", "/v1/members", 405),
        ("GET", "/v1/members?limit=0", 400),
    ] {
        let answer = daemon.ask(method, path, "", "");
        assert!(answer.status == status && answer.is_problem(), "{method} {path}: {}", answer.head);
        assert_eq!(answer.head.contains("allow: get"), status == 405, "{}", answer.head);
    }
}

/// Starts a daemon that must refuse to run; what it said.
fn refusal(options: &[&str]) -> String {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["serve", "--store", "memory:"])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says where it serves, or ends: then there is nothing to read.
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        process.kill().unwrap();
        process.wait().unwrap();
        panic!("it serves with {options:?}: {line}");
    }
    let output = process.wait_with_output().unwrap();
    assert!(!output.status.success(), "{options:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_daemon_that_would_be_open_to_others_does_not_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let tokens = secret_file(folder.path(), "tokens", "operate operator-operator\n");
    assert!(refusal(&["--listen", "0.0.0.0:0"]).contains("--tokens"));
    assert!(refusal(&["--listen", "0.0.0.0:0", "--tokens", &tokens]).contains("--tls-certificate"));
    for mode in [0o604, 0o620] {
        std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(mode)).unwrap();
        let words = refusal(&["--listen", "127.0.0.1:0", "--tokens", &tokens]);
        assert!(words.contains("chmod 600") && !words.contains("operator-operator"), "{words}");
    }
}
