//! [`Client`]: one connection that stays open, with as little of HTTP as is needed.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// A connection to the daemon.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), address }
    }

    /// Sends this, and returns the status of the answer when it has come as a whole.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> io::Result<u16> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all((head + body).as_bytes()).await?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "this is no answer");
        let (mut line, mut status, mut length) = (String::new(), None, 0);
        loop {
            line.clear();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let text = line.trim_end().to_ascii_lowercase();
            if text.is_empty() {
                break;
            }
            match status {
                None => {
                    status = Some(text.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(bad)?);
                }
                Some(_) => {
                    if let Some(value) = text.strip_prefix("content-length:") {
                        length = value.trim().parse().map_err(|_| bad())?;
                    }
                }
            }
        }
        let mut rest = vec![0; length];
        self.stream.read_exact(&mut rest).await?;
        status.ok_or_else(bad)
    }
}
