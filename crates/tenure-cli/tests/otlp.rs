//! `tenure serve --otlp`: spans as a collector gets them, over real connections.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

#[allow(dead_code, reason = "the tests of the API use all of it")]
#[path = "api/daemon.rs"]
mod daemon;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value::Value, trace::v1::Span,
};
use prost::Message as _;

use crate::daemon::{Daemon, secret_file};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const TOKEN: &str = "operator-operator";

/// Takes batches, as a collector does.
fn collector() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, batches) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let tell = tell.clone();
            std::thread::spawn(move || take(stream.unwrap(), &tell));
        }
    });
    (address, batches)
}

fn take(stream: TcpStream, tell: &Sender<Vec<u8>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "it broke off: {head}");
    }
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    // The test may have seen enough.
    let _ = tell.send(body);
    let mut stream = stream;
    let _ = stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, name: &str) -> Option<Value> {
    span.attributes.iter().find(|attribute| attribute.key == name)?.value.clone()?.value
}

#[test]
fn each_request_is_a_span_of_its_callers_trace_and_the_stores_are_below_it() {
    let (address, batches) = collector();
    let folder = tempfile::tempdir().unwrap();
    let tokens = secret_file(folder.path(), "tokens", &format!("operate {TOKEN}\n"));
    let url = format!("http://{address}");
    let mut daemon = Daemon::start(folder.path(), &["--otlp", &url, "--tokens", &tokens, "--node", "n1"]);
    let lines = format!("Authorization: Bearer {TOKEN}\r\ntraceparent: 00-{TRACE}-{CALLER}-01\r\n");
    assert_eq!(daemon.ask("POST", "/locks/x/claim", &lines, r#"{"holder": "a"}"#).status, 200);
    assert_eq!(daemon.ask("GET", "/v1/members", "", "").status, 401);
    let process = daemon.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    assert!(daemon.process.wait().unwrap().success(), "what is left is sent before it ends");
    let mut spans = Vec::new();
    for batch in batches.try_iter() {
        assert!(!String::from_utf8_lossy(&batch).contains(TOKEN), "tokens are in no span");
        let request = ExportTraceServiceRequest::decode(batch.as_slice()).unwrap();
        for resource in request.resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            let node = attributes.iter().find(|attribute| attribute.key == "service.instance.id").unwrap();
            assert_eq!(node.value.clone().unwrap().value, Some(Value::StringValue("n1".to_owned())));
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    let named = |name: &str| {
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"))
    };
    let claim = named("POST /locks/{name}/claim");
    assert_eq!((hex(&claim.trace_id), hex(&claim.parent_span_id)), (TRACE.to_owned(), CALLER.to_owned()));
    assert_eq!(attribute(claim, "http.response.status_code"), Some(Value::IntValue(200)));
    let commit = spans.iter().find(|span| span.name == "store.commit" && span.trace_id == claim.trace_id);
    assert_eq!(commit.expect("the store's are below").parent_span_id, claim.span_id);
    let members = named("GET /v1/members");
    assert!(hex(&members.trace_id) != TRACE && members.parent_span_id.is_empty(), "{members:?}");
    assert_eq!(attribute(members, "http.response.status_code"), Some(Value::IntValue(401)));
}

#[test]
fn a_collector_that_is_away_keeps_nobody_waiting() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(folder.path(), &["--otlp", &format!("http://{closed}")]);
    assert_eq!(daemon.ask("POST", "/locks/x/claim", "", r#"{"holder": "a"}"#).status, 200);
    let process = daemon.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    assert!(daemon.process.wait().unwrap().success());
}

#[test]
fn what_is_no_collector_is_refused_before_anything_is_done() {
    for wrong in ["collector:4318", "https://collector", "http://", "x y"] {
        let output = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--otlp", wrong])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.contains("--otlp") && words.contains(wrong), "{words}");
    }
}
