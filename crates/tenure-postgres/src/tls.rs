//! How connections are encrypted.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tenure_store::{Reason, StoreError};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{Settings, Tls};

/// What encrypts connections as the settings want it.
pub(crate) fn connector(settings: &Settings) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::invalid(Reason::caused(format!("set up TLS: {error}"), error)))?;
    let verified = match settings.tls {
        Tls::VerifyFull => true,
        Tls::Require => settings.root_certificate.is_some(),
        Tls::Disable | Tls::Prefer => false,
    };
    let config = if verified {
        builder.with_root_certificates(roots(settings)?).with_no_client_auth()
    } else {
        let anybody = Arc::new(Anybody { provider });
        builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(settings: &Settings) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &settings.root_certificate else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(StoreError::invalid(
                "the system trusts no certificate authority: name the server's with sslrootcert",
            ));
        }
        return Ok(roots);
    };
    let refuse = |error: &dyn std::fmt::Display| {
        let path = path.display();
        StoreError::invalid(format!("sslrootcert is {path}, which is no certificate in PEM: {error}"))
    };
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refuse(&error))? {
        roots.add(certificate.map_err(|error| refuse(&error))?).map_err(|error| refuse(&error))?;
    }
    if roots.is_empty() { Err(refuse(&"it holds none")) } else { Ok(roots) }
}

/// Takes any certificate, as `sslmode=prefer` and `require` do: nobody who only listens can read, but who answers is not verified.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
