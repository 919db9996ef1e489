//! A lease service over HTTP, as somebody else may have written it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

/// A service with one lease, which never expires: as little as there can be.
pub(crate) fn start() -> std::io::Result<std::net::SocketAddr> {
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
