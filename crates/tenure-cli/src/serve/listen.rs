//! Connections: how many, for how long, with TLS or without, and how they end.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{Router, body::Body, http::Request};
use clap::Args;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tenure::store::Env;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use super::{
    access::{ClientCertificate, fingerprint_of},
    connections::{CONNECTIONS_MAX, Connections, Line},
};

/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// How many files are needed beside those of connections.
const FILES_BESIDE: u64 = 256;

/// How long a TLS handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The most bytes of a head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How long requests that are under way may take to end when the daemon does.
const FAREWELL: Duration = Duration::from_secs(10);

/// TLS, if there is to be any.
#[derive(Args, Clone, Debug)]
pub(crate) struct TlsOptions {
    /// The daemon's certificate, and those that it rests on, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// The authorities of clients' certificates, in PEM: then every client must show one
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    client_ca: Option<PathBuf>,
}

impl TlsOptions {
    pub(crate) fn is_on(&self) -> bool {
        self.tls_certificate.is_some()
    }

    pub(crate) fn wants_clients(&self) -> bool {
        self.client_ca.is_some()
    }

    /// What accepts connections.
    ///
    /// # Errors
    /// When a file can't be used.
    pub(crate) fn acceptor(&self) -> anyhow::Result<Option<TlsAcceptor>> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else { return Ok(None) };
        let chain = certificates(certificate).context("--tls-certificate")?;
        let key = PrivateKeyDer::from_pem_file(key)
            .with_context(|| format!("--tls-key {}: there is no key in it", key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let config = match &self.client_ca {
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(authorities).context("--client-ca")? {
                    roots.add(authority).context("--client-ca")?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
                config.with_client_cert_verifier(verifier)
            }
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_single_cert(chain, key).context("--tls-certificate and --tls-key")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }
}

fn certificates(file: &PathBuf) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let name = file.display();
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).with_context(|| format!("can't read {name}"))?.collect();
    let found = found.with_context(|| format!("{name} is no PEM"))?;
    anyhow::ensure!(!found.is_empty(), "there is no certificate in {name}");
    Ok(found)
}

/// Serves connections until it is told to stop; then those that are under way end, or are cut off.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routes: Router,
    stop: CancellationToken,
    env: Env,
) {
    let connections = Connections::new(env.clone());
    let tracker = TaskTracker::new();
    loop {
        let next = async {
            let (stream, _) = listener.accept().await?;
            Ok::<_, io::Error>((stream, connections.admit().await))
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of files, as a rule: it passes.
                tracing::warn!(%error, "a connection could not be accepted");
                env.sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Answers are small, and waited for.
        let _ = stream.set_nodelay(true);
        let (tls, routes, stop, env) = (tls.clone(), routes.clone(), stop.clone(), env.clone());
        tracker.spawn(async move {
            let line = Arc::clone(&place.line);
            let served = async {
                match tls {
                    Some(tls) => match env.timeout(HANDSHAKE_TIME, tls.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            let shown =
                                stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                            let shown = shown.map(|shown| ClientCertificate(fingerprint_of(shown)));
                            connection(stream, routes, shown, &line, stop).await
                        }
                        Ok(Err(error)) => Err(error.to_string()),
                        Err(_) => Err("the handshake took too long".to_owned()),
                    },
                    None => connection(stream, routes, None, &line, stop).await,
                }
            };
            let done = tokio::select! {
                done = served => done,
                () = place.line.hang_up.cancelled() => Err("it was closed from here".to_owned()),
            };
            if let Err(error) = done {
                tracing::debug!(error, "a connection ended badly");
            }
        });
    }
    // Whoever comes now is refused, and goes to another daemon, instead of waiting for nobody.
    drop(listener);
    tracker.close();
    if env.timeout(FAREWELL, tracker.wait()).await.is_err() {
        tracing::warn!("{} connections did not end in time, and were cut off", tracker.len());
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Router,
    certificate: Option<ClientCertificate>,
    line: &Arc<Line>,
    stop: CancellationToken,
) -> Result<(), String> {
    let line = Arc::clone(line);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(&line));
        if let Some(certificate) = certificate {
            request.extensions_mut().insert(certificate);
        }
        routes.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
    }
    connection.await.map_err(|error| error.to_string())
}

/// Raises how many files this process may have open to what the system allows, as far as it needs them: each connection is one.
pub(crate) fn raise_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let wanted = CONNECTIONS_MAX as u64 + FILES_BESIDE;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let most = wanted.min(hard).max(soft);
    let raised = soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, most, hard).is_ok();
    if !raised || most < wanted {
        tracing::warn!(
            "this process may have {most} files open, and needs {wanted} for {CONNECTIONS_MAX} connections: raise the limit (LimitNOFILE)"
        );
    }
}

/// Listens on an address. Returns where, with the port that the system chose if it was 0.
///
/// # Errors
/// When it can't be had.
pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("can't listen on {address}"))?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}
