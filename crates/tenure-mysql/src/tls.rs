//! How connections are encrypted.

use mysql_async::SslOpts;
use rustls::crypto::{CryptoProvider, ring};
use tenure_store::{Reason, StoreError};

use crate::{Settings, Tls};

/// What the driver needs to encrypt connections as the settings want it.
pub(crate) fn options(settings: &Settings) -> Result<Option<SslOpts>, StoreError> {
    let verified = match settings.tls {
        Tls::Disable => return Ok(None),
        Tls::Prefer | Tls::Require => false,
        Tls::Verify => true,
    };
    // The driver takes the provider of the process. It would panic if several are linked and none was chosen.
    if CryptoProvider::get_default().is_none() {
        // Only if another thread was quicker, which is as good.
        let _ = ring::default_provider().install_default();
    }
    let options = SslOpts::default().with_disable_built_in_roots(true);
    if verified {
        return Ok(Some(options.with_root_certs(roots(settings)?.into_iter().map(Into::into).collect())));
    }
    // The driver wants a root certificate even where it verifies nothing; its own will do.
    Ok(Some(options.with_disable_built_in_roots(false).with_danger_accept_invalid_certs(true)))
}

fn roots(settings: &Settings) -> Result<Vec<Vec<u8>>, StoreError> {
    if let Some(path) = &settings.tls_ca {
        let refuse = |words: &str| {
            StoreError::invalid(format!("tls_ca is {}, {words}: name a certificate in PEM", path.display()))
        };
        let text = std::fs::read(path).map_err(|error| {
            StoreError::invalid(Reason::caused(format!("read tls_ca, {}: {error}", path.display()), error))
        })?;
        if !String::from_utf8_lossy(&text).contains("BEGIN CERTIFICATE") {
            return Err(refuse("which holds none"));
        }
        return Ok(vec![text]);
    }
    let roots: Vec<_> = rustls_native_certs::load_native_certs()
        .certs
        .into_iter()
        .map(|certificate| certificate.as_ref().to_vec())
        .collect();
    if roots.is_empty() {
        return Err(StoreError::invalid(
            "the system trusts no certificate authority: name the server's with tls_ca",
        ));
    }
    Ok(roots)
}
