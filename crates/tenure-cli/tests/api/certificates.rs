//! Clients with certificates, without one, and with one of somebody else's.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};

use crate::daemon::{Answer, Daemon, heard, secret_file};

/// Makes a key and a certificate, `NAME.key` and `NAME.pem`, signed by an authority of that folder or by itself.
fn make(folder: &Path, name: &str, authority: Option<&str>) {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(tenure_testbed::program("openssl").unwrap());
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]);
    command.args(["-days", "7", "-subj", &format!("/CN={name}")]);
    command.args(["-keyout", &file(&format!("{name}.key")), "-out", &file(&format!("{name}.pem"))]);
    match authority {
        Some(authority) => {
            command.args([
                "-CA",
                &file(&format!("{authority}.pem")),
                "-CAkey",
                &file(&format!("{authority}.key")),
            ]);
            command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
            command.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
            command.args(["-addext", "extendedKeyUsage=serverAuth,clientAuth"]);
        }
        None => {
            command.args(["-addext", "keyUsage=critical,keyCertSign"]);
        }
    }
    assert!(command.stderr(Stdio::null()).status().unwrap().success(), "openssl made no {name}");
}

fn certificate(folder: &Path, name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).unwrap()
}

/// The line of a file with roles for a certificate.
fn role(folder: &Path, role: &str, name: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, &certificate(folder, name));
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{role} sha256:{hex}\n")
}

/// Asks over TLS, with a certificate or without; nothing if the connection is refused.
fn ask(folder: &Path, daemon: &Daemon, client: Option<&str>, request: &str) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(folder, "ca")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match client {
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).unwrap();
            config.with_client_auth_cert(vec![certificate(folder, name)], key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, daemon.connect());
    let head =
        format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    // Who is refused learns of it at one of the two.
    stream.write_all(head.as_bytes()).ok()?;
    let mut first = [0; 1];
    stream.read_exact(&mut first).ok()?;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    Some(heard(&mut [&first[..], &rest].concat().as_slice()))
}

#[test]
fn certificates_are_checked_and_have_roles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, "ca", None);
    make(path, "foreign", None);
    for name in ["server", "operator", "reader", "nobody"] {
        make(path, name, Some("ca"));
    }
    make(path, "impostor", Some("foreign"));
    // The impostor's has a role, which a certificate that nobody vouches for must not have.
    let roles = [("operate", "operator"), ("read", "reader"), ("operate", "impostor")];
    let lines: String = roles.iter().map(|(of, name)| role(path, of, name)).collect();
    let tokens = secret_file(path, "tokens", &lines);
    let [ca, pem, key] =
        ["ca.pem", "server.pem", "server.key"].map(|name| path.join(name).display().to_string());
    let options = ["--tls-certificate", &pem, "--tls-key", &key, "--client-ca", &ca, "--tokens", &tokens];
    let daemon = Daemon::start(path, &options);
    let status =
        |client: Option<&str>, request: &str| ask(path, &daemon, client, request).map(|answer| answer.status);
    assert_eq!(status(Some("operator"), "GET /v1/whoami"), Some(200));
    assert_eq!(status(Some("operator"), "POST /v1/elections/x/depose"), Some(200));
    assert_eq!(status(Some("reader"), "GET /v1/whoami"), Some(200));
    assert_eq!(status(Some("reader"), "POST /v1/elections/x/depose"), Some(403));
    assert_eq!(status(Some("nobody"), "GET /v1/whoami"), Some(401), "a good certificate without a role");
    assert_eq!(status(Some("nobody"), "GET /healthz"), Some(200));
    assert_eq!(status(None, "GET /healthz"), None, "no certificate");
    assert_eq!(status(Some("impostor"), "GET /healthz"), None, "a certificate of others");
    // In clear, nothing is answered.
    let mut clear = TcpStream::connect(daemon.address).unwrap();
    clear.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = clear.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
