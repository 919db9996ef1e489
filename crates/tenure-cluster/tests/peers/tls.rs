//! Links under TLS: only who has a certificate of the same authority is a peer.

use std::{path::Path, process::Command};

use tempfile::TempDir;
use tenure_cluster::peer::{BoundLinks, LinkSettings, LinkTls, Outcome};
use tenure_store::Password;
use tenure_testbed::program;

use crate::fleet::{SECRET, bare, pair, receive_text, silent};

/// A certificate authority, and a certificate that it has signed.
struct Authority {
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let authority = Self { folder: TempDir::new().unwrap() };
        authority.make("ca", &["-addext", "keyUsage=critical,keyCertSign"]);
        let (ca, key) = (authority.path("ca.pem"), authority.path("ca.key"));
        let leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
        let names = ["-addext", "subjectAltName=DNS:node.test,IP:127.0.0.1"];
        let usage = ["-addext", "extendedKeyUsage=serverAuth,clientAuth"];
        authority.make("node", &[&["-CA", &ca, "-CAkey", &key][..], &leaf, &names, &usage].concat());
        authority
    }

    fn make(&self, name: &str, more: &[&str]) {
        let mut openssl = Command::new(program("openssl").unwrap());
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]);
        openssl.args(["-days", "7", "-subj", &format!("/CN={name}")]);
        openssl.args([
            "-keyout",
            &self.path(&format!("{name}.key")),
            "-out",
            &self.path(&format!("{name}.pem")),
        ]);
        let made = openssl.args(more).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn tls(&self) -> LinkTls {
        let path = |name: &str| Path::new(&self.path(name)).to_owned();
        LinkTls {
            ca: path("ca.pem"),
            certificate: path("node.pem"),
            key: path("node.key"),
            server_name: None,
        }
    }

    fn settings(&self) -> LinkSettings {
        LinkSettings { tls: Some(self.tls()), ..bare() }
    }
}

#[tokio::test]
async fn peers_of_one_authority_talk() {
    let authority = Authority::new();
    let (a, b) = pair(authority.settings(), authority.settings()).await;
    let (mut at_a, mut at_b) = (a.subscribe("t"), b.subscribe("t"));
    a.send(&b, "t", "there").await.unwrap();
    b.send(&a, "t", "and back").await.unwrap();
    assert_eq!(receive_text(&mut at_b).await, "there");
    assert_eq!(receive_text(&mut at_a).await, "and back");
}

#[tokio::test]
async fn a_foreign_authority_is_refused_on_both_sides() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (a, b) = pair(ours.settings(), theirs.settings()).await;
    let (mut at_a, mut at_b) = (a.subscribe("t"), b.subscribe("t"));
    for (from, to) in [(&a, &b), (&b, &a)] {
        let outcome = from.fail(to, "t", "?").await;
        assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("authority")), "{outcome}");
    }
    silent(&mut at_a).await;
    silent(&mut at_b).await;
}

#[tokio::test]
async fn who_trusts_us_but_has_no_certificate_of_ours_is_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    // Would take our certificate, and shows one of its own.
    let tls = LinkTls { ca: ours.tls().ca, ..theirs.tls() };
    let (a, b) = pair(ours.settings(), LinkSettings { tls: Some(tls), ..bare() }).await;
    let mut subscription = a.subscribe("t");
    let outcome = b.fail(&a, "t", "?").await;
    assert!(matches!(outcome, Outcome::Refused(_) | Outcome::Unreachable(_)), "{outcome}");
    silent(&mut subscription).await;
}

#[tokio::test]
async fn who_does_not_encrypt_is_no_peer() {
    let authority = Authority::new();
    let secret = Some(Password::new(SECRET));
    let encrypted = LinkSettings { secret: secret.clone(), ..authority.settings() };
    let (a, b) = pair(encrypted, LinkSettings { secret, ..bare() }).await;
    let (mut at_a, mut at_b) = (a.subscribe("t"), b.subscribe("t"));
    for (from, to) in [(&a, &b), (&b, &a)] {
        let outcome = from.fail(to, "t", "?").await;
        assert!(!outcome.is_delivered(), "{outcome}");
    }
    silent(&mut at_a).await;
    silent(&mut at_b).await;
}

#[tokio::test]
async fn a_secret_is_asked_for_under_tls_too() {
    let authority = Authority::new();
    let with = |secret: &str| LinkSettings { secret: Some(Password::new(secret)), ..authority.settings() };
    let (a, b) = pair(with(SECRET), with("another secret of enough bytes")).await;
    let outcome = a.fail(&b, "t", "?").await;
    assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("secret")), "{outcome}");
}

#[tokio::test]
async fn certificates_are_for_a_name() {
    let authority = Authority::new();
    let named = |name: &str| {
        let tls = LinkTls { server_name: Some(name.into()), ..authority.tls() };
        LinkSettings { tls: Some(tls), ..bare() }
    };
    let (a, b) = pair(named("node.test"), named("other.test")).await;
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "by name").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "by name");
    let outcome = b.fail(&a, "t", "?").await;
    assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("authority")), "{outcome}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let good = authority.tls();
    let (missing, key) = (Path::new("no such file").to_owned(), good.key.clone());
    let bad = [
        (LinkTls { ca: missing.clone(), ..good.clone() }, "ca of tls is no such file"),
        (LinkTls { certificate: missing.clone(), ..good.clone() }, "certificate of tls is no such file"),
        (LinkTls { key: missing, ..good.clone() }, "key of tls is no such file"),
        (LinkTls { ca: key.clone(), ..good.clone() }, "ca of tls"),
        (LinkTls { certificate: key, ..good.clone() }, "tls"),
        (LinkTls { key: good.ca.clone(), ..good }, "tls"),
    ];
    for (tls, words) in bad {
        let error =
            BoundLinks::bind(LinkSettings { tls: Some(tls), ..bare() }).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
