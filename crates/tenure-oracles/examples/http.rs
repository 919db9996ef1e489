//! Two nodes ask a lease service over HTTP who leads. The service is somebody else's: three routes and their status codes are all that is known of it.
//!
//! With an argument, such as `http://127.0.0.1:4040`, they ask the service there: `tenure serve` is one.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    error::Error,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use tenure_oracles::{HttpLease, HttpSettings};
use tenure_singleton::{Mandate, Singleton, SingletonBuilder};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => format!("http://{}", service()?),
    };
    let (a, b) = (node(&url, "a")?, node(&url, "b")?);
    a.leads().await;
    println!("a leads; it is shut down");
    a.shutdown().await;
    b.leads().await;
    println!("b leads");
    b.shutdown().await;
    Ok(())
}

fn node(url: &str, name: &'static str) -> Result<Singleton, Box<dyn Error>> {
    // This service does not say how long a lease lives, so we must know: it is asked every second whether we still have it.
    let settings = HttpSettings::from_url(&format!("{url}?plain=true&ttl=5s&refresh=1s"), "nightly", name)?;
    let child = move |mandate: Mandate| async move {
        println!("  the child of {name} runs");
        mandate.cancelled().await;
        println!("  the child of {name} ends");
    };
    // The second claims later, so that the first is elected.
    let delay = if name == "a" { 0 } else { 500 };
    let builder = SingletonBuilder::with_oracle("nightly", HttpLease::new(settings)?, child);
    Ok(builder.policy(|policy| policy.claim_delay = std::time::Duration::from_millis(delay)).start()?)
}

/// A service with one lease, which never expires: as little as there can be.
fn service() -> std::io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let mut held: Option<String> = None;
        for stream in listener.incoming().flatten() {
            // Whoever hangs up early gets no answer.
            let _ = answer(&stream, &mut held);
        }
    });
    Ok(address)
}

fn answer(mut stream: &TcpStream, held: &mut Option<String>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut holder = vec![0; length];
    reader.read_exact(&mut holder)?;
    let holder = String::from_utf8_lossy(&holder).into_owned();
    let ours = held.as_ref() == Some(&holder);
    let status = if request.starts_with("DELETE") {
        if ours {
            *held = None;
        }
        "204 No Content"
    } else if ours || request.contains("/claim") && held.is_none() {
        *held = Some(holder);
        "200 OK"
    } else {
        "409 Conflict"
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
