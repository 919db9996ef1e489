//! [`Daemon`]: a real daemon on a store of its own, and plain requests to it.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

/// What was answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Answer {
    /// Whether it tells of a problem as the document says.
    pub(crate) fn is_problem(&self) -> bool {
        self.head.contains("application/problem+json") && self.body["status"] == self.status
    }
}

/// A daemon. Killed when dropped.
pub(crate) struct Daemon {
    pub(crate) process: Child,
    pub(crate) address: SocketAddr,
}

impl Daemon {
    pub(crate) fn start(folder: &Path, options: &[&str]) -> Self {
        Self::start_on(&store_in(folder), options, Stdio::inherit())
    }

    /// On this store, with its log going there.
    pub(crate) fn start_on(store: &str, options: &[&str], log: Stdio) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("://").expect("it says where it serves").1.parse().unwrap();
        Self { process, address }
    }

    /// One request, with these lines in its head. Of a stream, only the head and whatever has come by then.
    pub(crate) fn ask(&self, method: &str, path: &str, lines: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let host =
            if lines.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{host}{lines}Content-Length: {length}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        heard(&mut stream)
    }

    /// A connection that waits for an answer, but not for ever.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// What it measures.
    pub(crate) fn metrics(&self) -> String {
        self.ask("GET", "/metrics", "", "").text
    }

    /// The value of a row of what it measures.
    pub(crate) fn measured(&self, row: &str) -> Option<f64> {
        let metrics = self.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }

    /// How much memory it has had at most, in MiB.
    pub(crate) fn memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
    }
}

/// Reads an answer to its end; of a stream, its head.
pub(crate) fn heard(stream: &mut impl Read) -> Answer {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        // Who answers before it has read everything may cut off the rest.
        let read = match stream.read(&mut part) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset && !answer.is_empty() => 0,
            Err(error) => panic!("no answer: {error}"),
        };
        answer.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&answer);
        let is_stream =
            text.split_once("\r\n\r\n").is_some_and(|(head, _)| head.contains("text/event-stream"));
        if read == 0 || is_stream {
            break;
        }
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let value = serde_json::from_str(body).unwrap_or(Value::Null);
    Answer { status, head: head.to_lowercase(), text: body.to_owned(), body: value }
}

/// The store in a folder.
pub(crate) fn store_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("store.db").display())
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file that nobody else may read; its path.
pub(crate) fn secret_file(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}
