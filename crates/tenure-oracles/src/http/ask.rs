//! [`Client`]: one request, one answer, one connection. A lease is asked for a few times a minute: nothing is kept open in between.

use std::{sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use serde_json::Value;
use tenure_store::{Env, Host, StoreError};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::HttpSettings;

/// As much as is read of an answer.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Post,
    Delete,
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// Asks a service.
#[derive(Clone)]
pub(super) struct Client {
    host: Host,
    port: u16,
    tls: Option<TlsConnector>,
    timeout: Duration,
    env: Env,
}

impl Client {
    pub(super) fn new(settings: &HttpSettings) -> Result<Self, StoreError> {
        let tls = settings.tls.then(connector).transpose()?;
        let port = settings.host.port.unwrap_or(if settings.tls { 443 } else { 80 });
        Ok(Self { host: settings.host.clone(), port, tls, timeout: settings.timeout, env: Env::system() })
    }

    /// Asks, and waits for the answer as long as the settings say.
    pub(super) async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Reply, String> {
        match self.env.timeout(self.timeout, self.connect_and_ask(method, path, body)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(format!("the lease service did not answer: {elapsed}")),
        }
    }

    async fn connect_and_ask(&self, method: Method, path: &str, body: &Value) -> Result<Reply, String> {
        let host = self.host.name.as_str();
        let failed = |doing: &str, error: &dyn std::fmt::Display| {
            format!("{doing} the lease service at {host}: {error}")
        };
        let stream =
            TcpStream::connect((host, self.port)).await.map_err(|error| failed("connect to", &error))?;
        let request = Request::builder()
            .method(match method {
                Method::Post => "POST",
                Method::Delete => "DELETE",
            })
            .uri(path)
            .header(header::HOST, format!("{host}:{}", self.port))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| failed("ask", &error))?;
        let answer = match &self.tls {
            None => exchange(stream, request).await,
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned()).map_err(|error| failed("verify", &error))?;
                let stream = tls.connect(name, stream).await.map_err(|error| failed("verify", &error))?;
                exchange(stream, request).await
            }
        };
        answer.map_err(|error| failed("ask", &error))
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let asking = async move {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await?.to_bytes();
        Ok(Reply { status, body })
    };
    let mut asking = std::pin::pin!(asking);
    // The connection does the work that the answer waits for.
    tokio::select! {
        answer = &mut asking => answer,
        ended = connection => {
            ended?;
            asking.await
        }
    }
}

fn connector() -> Result<TlsConnector, StoreError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(StoreError::invalid(
            "the system trusts no certificate authority: install one, or use http",
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::invalid(format!("set up TLS: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A part of a path, or of a query: whatever it contains, it ends neither.
pub(super) fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect()
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_not_leave_their_place_in_a_path() {
        assert_eq!(escape("a-1_b.c~"), "a-1_b.c~");
        assert_eq!(escape("../x?y=1&z#ü 🌙"), "..%2Fx%3Fy%3D1%26z%23%C3%BC%20%F0%9F%8C%99");
    }
}
