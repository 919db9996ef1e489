//! [`Certificates`]: a certificate authority of our own, and what it has signed, made by the `openssl` program.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{
    keeper::Keeper,
    programs::{Account, program, run, text},
};

/// Longer than any test, short enough to be of no use to anybody.
const DAYS: &str = "7";

const NAMES: &str = "subjectAltName=DNS:localhost,IP:127.0.0.1";

/// Files in a server's folder.
#[derive(Debug)]
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes an authority, and certificates for a server and a client.
    pub(crate) fn new(keeper: &Keeper) -> Result<Self> {
        let certificates = Self { folder: keeper.folder().to_owned() };
        let usage = ["-addext", "keyUsage=critical,keyCertSign"];
        certificates.make("ca", "Tenure test authority", &usage)?;
        let (ca, ca_key) = (certificates.path("ca.pem"), certificates.path("ca.key"));
        for (name, subject) in [("server", "localhost"), ("client", "tenure")] {
            let signed = ["-CA", text(&ca)?, "-CAkey", text(&ca_key)?];
            let use_as = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", NAMES];
            let both = ["-addext", "extendedKeyUsage=serverAuth,clientAuth"];
            certificates.make(name, subject, &[&signed[..], &use_as, &both].concat())?;
        }
        keeper.account().give(&certificates.path("server.pem"))?;
        keeper.account().give(&certificates.path("server.key"))?;
        Ok(certificates)
    }

    /// The same, in the folder of another server.
    pub(crate) fn copy_to(&self, keeper: &Keeper) -> Result<Self> {
        for name in ["ca.pem", "server.pem", "server.key"] {
            let to = keeper.folder().join(name);
            std::fs::copy(self.path(name), &to)
                .with_context(|| format!("could not write {}", to.display()))?;
            keeper.account().give(&to)?;
        }
        Ok(Self { folder: keeper.folder().to_owned() })
    }

    /// The path of the authority's certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// The paths of the client's certificate and of its key.
    pub(crate) fn client(&self) -> (PathBuf, PathBuf) {
        (self.path("client.pem"), self.path("client.key"))
    }

    fn make(&self, name: &str, subject: &str, more: &[&str]) -> Result<()> {
        let openssl = program("openssl")?;
        let (key, certificate) = (self.path(&format!("{name}.key")), self.path(&format!("{name}.pem")));
        let subject = format!("/CN={subject}");
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"];
        let files = ["-days", DAYS, "-subj", &subject, "-keyout", text(&key)?, "-out", text(&certificate)?];
        let command = [&[&openssl[..], "req", "-x509"], &curve[..], &files, more].concat();
        run(&Account::own(), &command).map(drop)
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.folder).join(name)
    }
}
