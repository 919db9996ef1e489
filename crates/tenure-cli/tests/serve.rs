//! `tenure serve` as programs in other languages see it: real daemons, plain requests.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tenure::store::Env;
use tenure_oracles::{HttpLease, HttpSettings};
use tenure_singleton::{
    Answer, Oracle,
    oracle::testkit::{Conduct, conforms},
};

/// A daemon. Killed when dropped.
struct Daemon {
    process: Child,
    address: SocketAddr,
}

impl Daemon {
    fn start(folder: &Path) -> Self {
        Self::start_on(&format!("sqlite:{}", folder.join("store.db").display()))
    }

    fn start_on(store: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").expect("it says where it serves").1.parse().unwrap();
        Self { process, address }
    }

    /// One request, and what was answered: the status, the headers, the body.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn status(&self, method: &str, path: &str, body: &str) -> u16 {
        self.ask(method, path, body).0
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The stores on which leases are tested: a file in this folder, and a fresh place in each of the shared servers.
fn stores(folder: &Path) -> [String; 4] {
    let place = format!("serve_{:016x}", Env::system().random_u64());
    [
        format!("sqlite:{}", folder.join("store.db").display()),
        format!("{}?schema={place}", tenure_testbed::postgres()),
        format!("{}?prefix={place}_", tenure_testbed::mariadb()),
        format!("{}/{place}", tenure_testbed::etcd()),
    ]
}

const A: &str = r#"{"holder": "a@host"}"#;
const B: &str = r#"{"holder": "b@host"}"#;

#[test]
fn the_three_routes_answer_as_any_lease_service_does() {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path()).iter().for_each(|store| three_routes(&Daemon::start_on(store)));
}

fn three_routes(daemon: &Daemon) {
    assert_eq!(daemon.status("GET", "/locks/my_worker", ""), 404);
    let (status, _, body) = daemon.ask("POST", "/locks/my_worker/claim", A);
    assert_eq!((status, &body["term"], &body["holder"]), (200, &json!(1), &json!("a@host")));
    assert_eq!((&body["ttl_ms"], &body["refresh_after_ms"]), (&json!(15_000), &json!(5_000)));
    let (status, head, body) = daemon.ask("POST", "/locks/my_worker/claim", B);
    assert_eq!((status, &body["holder"]), (409, &json!("a@host")));
    assert!(head.contains("application/problem+json") && head.contains("retry-after: "), "{head}");
    assert_eq!(daemon.status("POST", "/locks/my_worker/refresh", B), 409);
    assert_eq!(daemon.status("DELETE", "/locks/my_worker", B), 409);
    assert_eq!(daemon.status("POST", "/locks/my_worker/refresh", A), 200);
    assert_eq!(daemon.ask("GET", "/locks/my_worker", "").2["holder"], "a@host");
    assert_eq!(daemon.status("DELETE", "/locks/my_worker", A), 204);
    assert_eq!(daemon.status("DELETE", "/locks/my_worker", A), 204, "it may be said twice");
    assert_eq!(daemon.status("POST", "/locks/my_worker/refresh", A), 409);
    let (status, _, body) = daemon.ask("POST", "/locks/my_worker/claim", B);
    assert_eq!((status, &body["term"]), (200, &json!(2)));
    // Some proxies drop the body of a DELETE.
    assert_eq!(daemon.status("DELETE", "/locks/my_worker?holder=b%40host", ""), 204);
}

#[test]
fn a_lease_survives_its_daemon_and_moves_to_another() {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path()).iter().for_each(|store| moves(store));
}

fn moves(store: &str) {
    let mut first = Daemon::start_on(store);
    let second = Daemon::start_on(store);
    assert_eq!(first.status("POST", "/locks/x/claim", A), 200);
    first.kill();
    assert_eq!(second.status("POST", "/locks/x/claim", B), 409);
    assert_eq!(second.ask("POST", "/locks/x/refresh", A).2["term"], 1);
    drop(second);
    let third = Daemon::start_on(store);
    assert_eq!(third.ask("POST", "/locks/x/refresh", A).2["term"], 1);
    assert_eq!(third.status("POST", "/locks/x/claim", B), 409);
}

#[test]
fn bad_requests_name_the_value_and_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path());
    let long = "x".repeat(256);
    for (path, body, words) in [
        ("/locks/x/claim", "", "no holder"),
        ("/locks/x/claim", "{", "the body: EOF"),
        ("/locks/x/claim", r#"["a", 2000]"#, "no JSON object"),
        ("/locks/x/claim", r#"{"holder": 7}"#, "the body: invalid type"),
        ("/locks/x/claim", r#"{"holder": "a", "tttl_ms": 1}"#, "tttl_ms"),
        ("/locks/x/claim", r#"{"holder": ""}"#, "a name is empty"),
        ("/locks/x/claim", r#"{"holder": "a\n"}"#, "control"),
        ("/locks/x/claim", r#"{"holder": "a", "ttl_ms": 10}"#, "10ms"),
        (&format!("/locks/{long}/claim"), A, "255"),
    ] {
        let (status, head, answer) = daemon.ask("POST", path, body);
        assert_eq!(status, 400, "{path} {body}: {answer}");
        assert!(head.contains("application/problem+json"), "{head}");
        assert!(answer["detail"].as_str().unwrap().contains(words), "{path} {body}: {answer}");
    }
    let large = format!(r#"{{"holder": "{}"}}"#, "x".repeat(70_000));
    assert_eq!(daemon.status("POST", "/locks/x/claim", &large), 413);
    assert_eq!(daemon.status("GET", "/nothing", ""), 404);
    assert_eq!(daemon.status("GET", "/locks/x", ""), 404, "nothing of it was taken");
}

#[test]
fn other_machines_are_not_let_in() {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["serve", "--listen", "0.0.0.0:0", "--store", "memory:"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && words.contains("0.0.0.0:0") && words.contains("127.0.0.1"),
        "{words}"
    );
}

#[test]
fn our_client_of_it_is_an_oracle_as_it_should_be() {
    let folder = tempfile::tempdir().unwrap();
    // Side by side: they wait most of the time.
    std::thread::scope(|scope| {
        for store in stores(folder.path()) {
            scope.spawn(move || conforms_on(&store));
        }
    });
}

fn conforms_on(store: &str) {
    let daemon = Daemon::start_on(store);
    let lease = Duration::from_secs(2);
    let conduct = Conduct { lease: Some(lease), slack: 2 * lease, ..Conduct::default() };
    let make = |name: String| async move {
        let url = format!("http://{}?ttl=2s&refresh=200ms", daemon.address);
        let settings = HttpSettings::from_url(&url, &name, "worker").unwrap();
        Box::new(HttpLease::new(settings).unwrap()) as Box<dyn Oracle>
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(conforms(&conduct, make));
}

/// A release whose answer was lost may be carried out yet: it must not take what is claimed afterwards.
#[test]
fn who_may_have_given_up_comes_back_as_another() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (option, stays) in [("", false), ("&holder=me", true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = Daemon::start(folder.path());
        let url = format!("http://{}?timeout=1s{option}", daemon.address);
        let mut oracle = HttpLease::new(HttpSettings::from_url(&url, "x", "n").unwrap()).unwrap();
        let first = oracle.holder().to_owned();
        assert!(matches!(runtime.block_on(oracle.claim()), Answer::Granted(_)));
        assert!(matches!(runtime.block_on(oracle.abdicate(None)), Answer::Denied { .. }));
        assert!(matches!(runtime.block_on(oracle.claim()), Answer::Granted(_)));
        assert_eq!(oracle.holder(), first, "what was given up for sure takes nothing");
        daemon.kill();
        assert!(matches!(runtime.block_on(oracle.abdicate(None)), Answer::Unknown { .. }));
        assert!(matches!(runtime.block_on(oracle.claim()), Answer::Unknown { .. }));
        assert_eq!(oracle.holder() == first, stays, "{option}");
    }
}

#[test]
fn a_service_that_does_not_answer_is_unknown_and_never_a_no() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |url: String| {
        let settings = HttpSettings::from_url(&url, "x", "n").unwrap();
        let mut oracle = HttpLease::new(settings).unwrap();
        runtime.block_on(async move { format!("{:?}", oracle.claim().await) })
    };
    let start = Env::system().now();
    let answer = ask(format!("http://{}?timeout=200ms", silent.local_addr().unwrap()));
    assert!(answer.contains("Unknown") && answer.contains("longer than 200ms"), "{answer}");
    assert!(Env::system().now() - start < Duration::from_secs(5));
    drop(silent);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let answer = ask(format!("http://{closed}"));
    assert!(answer.contains("Unknown") && answer.contains("connect to"), "{answer}");
}
