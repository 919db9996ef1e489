//! How links are encrypted: what we show to peers, and whom we trust.

use std::{fmt, fs, path::Path, sync::Arc};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    },
};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{LinkError, LinkTls, error::chain};

/// Both sides of TLS. A peer must show a certificate of our authority, whichever side it is.
#[derive(Clone)]
pub(super) struct Tls {
    /// For links that peers open.
    pub(super) acceptor: TlsAcceptor,
    /// For links that we open.
    pub(super) connector: ClientTlsConfig,
}

impl Tls {
    /// Reads the files.
    pub(super) fn load(settings: &LinkTls) -> Result<Self, LinkError> {
        let connector = connector(settings)?;
        // Tried here once: what is wrong with the files should not show at the first link.
        let tried = Endpoint::from_static("https://localhost").tls_config(connector.clone());
        tried.map_err(|error| {
            LinkError::invalid(format!("the files of tls can't be used: {}", chain(&error)))
        })?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(server(settings)?)), connector })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(hidden)")
    }
}

fn connector(settings: &LinkTls) -> Result<ClientTlsConfig, LinkError> {
    let identity =
        Identity::from_pem(read("certificate", &settings.certificate)?, read("key", &settings.key)?);
    let config = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(read("ca", &settings.ca)?))
        .identity(identity);
    Ok(match &settings.server_name {
        Some(name) => config.domain_name(name),
        None => config,
    })
}

/// Made by hand and not by tonic, which panics in programs that have linked a second provider of cryptography.
fn server(settings: &LinkTls) -> Result<ServerConfig, LinkError> {
    let unusable = |name: &str, path: &Path, error: &dyn fmt::Display| {
        LinkError::invalid(format!("{name} of tls is {}, which can't be used: {error}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", &settings.ca)? {
        roots.add(certificate).map_err(|error| unusable("ca", &settings.ca, &error))?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| unusable("ca", &settings.ca, &error))?;
    let key = PrivateKeyDer::from_pem_file(&settings.key)
        .map_err(|error| unusable("key", &settings.key, &error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| LinkError::invalid(format!("set up TLS: {error}")))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates("certificate", &settings.certificate)?, key)
        .map_err(|error| unusable("certificate", &settings.certificate, &error))?;
    config.alpn_protocols.push(b"h2".to_vec());
    Ok(config)
}

fn certificates(name: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, LinkError> {
    let bytes = read(name, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let refuse = |error: &dyn fmt::Display| {
        LinkError::invalid(format!(
            "{name} of tls is {}, which is no certificate in PEM: {error}",
            path.display()
        ))
    };
    match found {
        Err(error) => Err(refuse(&error)),
        Ok(found) if found.is_empty() => Err(refuse(&"it holds none")),
        Ok(found) => Ok(found),
    }
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>, LinkError> {
    fs::read(path).map_err(|error| {
        LinkError::invalid(format!("{name} of tls is {}, which can't be read: {error}", path.display()))
    })
}
