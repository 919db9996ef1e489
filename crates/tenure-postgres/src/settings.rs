//! [`Settings`]: where the database is, and how it is used.

use std::{fmt, path::PathBuf, time::Duration};

use tenure_store::{Host, Password, StoreError, StoreUrl};

/// The options of a URL.
const OPTIONS: &[&str] = &[
    "schema",
    "sslmode",
    "sslrootcert",
    "connections",
    "readers",
    "connect_timeout",
    "request_timeout",
    "listen",
    "poll",
    "reread",
];

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the server is. With several, the first that accepts writes is used.
    pub hosts: Vec<Host>,
    /// Who connects. Default: `postgres`.
    pub user: String,
    /// With which password.
    pub password: Option<Password>,
    /// To which database. Default: the one named like the user.
    pub database: String,
    /// In which schema of it the store is. Default: `tenure`.
    pub schema: String,
    /// Whether connections are encrypted. Default: [`Tls::Prefer`].
    pub tls: Tls,
    /// The certificate authority that must have signed the server's certificate. Default: any that the system trusts.
    pub root_certificate: Option<PathBuf>,
    /// At most how many connections commit. Each is opened when it is first needed. Default: 8.
    pub connections: usize,
    /// At most how many connections read. Default: 2.
    pub readers: usize,
    /// How long a connection may take to be made. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long an answer may take before the request is given up, a commit with an unknown outcome. Default: 30 s.
    pub request_timeout: Duration,
    /// Whether to LISTEN for changes that other processes make; else the store polls. Default: `true`.
    pub listen: bool,
    /// How often watches look where LISTEN is off or cannot work. Default: 50 ms.
    pub poll: Duration,
    /// How often watches look all the same, in case the message about a change got lost. Default: 1 s.
    pub reread: Duration,
}

/// Whether connections are encrypted. The names are those of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Never.
    Disable,
    /// If the server can; its certificate is not verified.
    Prefer,
    /// Always; the certificate is verified only if a root certificate is given.
    Require,
    /// Always, with a certificate that is valid for the name of the host.
    VerifyFull,
}

impl Settings {
    /// The defaults for a host.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self {
            hosts: vec![host],
            user: "postgres".into(),
            password: None,
            database: "postgres".into(),
            schema: "tenure".into(),
            tls: Tls::Prefer,
            root_certificate: None,
            connections: 8,
            readers: 2,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            listen: true,
            poll: Duration::from_millis(50),
            reread: Duration::from_secs(1),
        }
    }

    /// The settings in a URL: `postgres://user:password@host:port/database?option=value`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is not such a URL; nothing in it that may be a secret is repeated.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let mut url = StoreUrl::parse(url)?;
        if !["postgres", "postgresql"].contains(&url.scheme.as_str()) {
            return Err(StoreError::invalid(
                "this is no PostgreSQL URL: write postgres://user@host/database",
            ));
        }
        let mut settings = Self::new(url.hosts[0].clone());
        settings.hosts.clone_from(&url.hosts);
        settings.user = url.user.clone().unwrap_or(settings.user);
        settings.password.clone_from(&url.password);
        settings.database = if url.path.is_empty() { settings.user.clone() } else { url.path.clone() };
        settings.schema = url.take_text("schema").unwrap_or(settings.schema);
        if let Some(mode) = url.take_text("sslmode") {
            settings.tls = Tls::from_mode(&mode)?;
        }
        settings.root_certificate = url.take_text("sslrootcert").map(PathBuf::from);
        let number = "a number of connections, as 8";
        settings.connections = url.take("connections", number)?.unwrap_or(settings.connections);
        settings.readers = url.take("readers", number)?.unwrap_or(settings.readers);
        settings.connect_timeout = url.take_time("connect_timeout")?.unwrap_or(settings.connect_timeout);
        settings.request_timeout = url.take_time("request_timeout")?.unwrap_or(settings.request_timeout);
        settings.listen = url.take("listen", "true or false")?.unwrap_or(settings.listen);
        settings.poll = url.take_time("poll")?.unwrap_or(settings.poll);
        settings.reread = url.take_time("reread")?.unwrap_or(settings.reread);
        url.finish(OPTIONS)?;
        Ok(settings)
    }

    /// Refuses settings that can't work.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the value and the rule.
    pub fn validate(&self) -> Result<(), StoreError> {
        if self.hosts.is_empty() {
            return Err(StoreError::invalid("hosts is empty: name at least one"));
        }
        admit_schema(&self.schema)?;
        for (name, value) in [("connections", self.connections), ("readers", self.readers)] {
            if !(1..=64).contains(&value) {
                return Err(StoreError::invalid(format!("{name} is {value}: choose from 1 to 64")));
            }
        }
        let times = [
            ("connect_timeout", self.connect_timeout),
            ("request_timeout", self.request_timeout),
            ("poll", self.poll),
            ("reread", self.reread),
        ];
        for (name, time) in times {
            if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&time) {
                return Err(StoreError::invalid(format!("{name} is {time:?}: choose from 1ms to 1h")));
            }
        }
        if self.tls == Tls::Disable && self.root_certificate.is_some() {
            return Err(StoreError::invalid(
                "sslrootcert is given and sslmode is disable: choose sslmode=verify-full, or leave it out",
            ));
        }
        Ok(())
    }
}

/// Prints where the store is, without the password.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        let Self { user, database, schema, .. } = self;
        write!(f, "postgres://{user}@{}/{database}?schema={schema}", hosts.join(","))
    }
}

impl Tls {
    fn from_mode(mode: &str) -> Result<Self, StoreError> {
        match mode {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-full" => Ok(Self::VerifyFull),
            other => Err(StoreError::invalid(format!(
                "sslmode is {other:?}: write disable, prefer, require or verify-full"
            ))),
        }
    }
}

/// Refuses a schema whose name would need quoting anywhere: it becomes part of statements.
pub(crate) fn admit_schema(schema: &str) -> Result<(), StoreError> {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let good = schema.starts_with(letter) && schema.chars().all(|c| letter(c) || c.is_ascii_digit());
    // PostgreSQL cuts longer names off without an error.
    if good && schema.len() <= 63 && !schema.starts_with("pg_") {
        return Ok(());
    }
    Err(StoreError::invalid(format!(
        "schema is {schema:?}: write up to 63 of a-z, 0-9 and _, not a digit first, nor pg_"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_everything() {
        let settings = Settings::from_url(
            "postgres://al:pw@a,b:7/db?schema=s1&sslmode=verify-full&sslrootcert=ca.pem&connections=3&readers=4\
             &connect_timeout=1s&request_timeout=2s&listen=false&poll=5ms&reread=6ms",
        )
        .unwrap();
        settings.validate().unwrap();
        let expected = Settings {
            hosts: vec![Host { name: "a".into(), port: None }, Host { name: "b".into(), port: Some(7) }],
            user: "al".into(),
            password: Some(Password::new("pw")),
            database: "db".into(),
            schema: "s1".into(),
            tls: Tls::VerifyFull,
            root_certificate: Some("ca.pem".into()),
            connections: 3,
            readers: 4,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
            listen: false,
            poll: Duration::from_millis(5),
            reread: Duration::from_millis(6),
        };
        assert_eq!(settings, expected);
        assert_eq!(settings.to_string(), "postgres://al@a,b:7/db?schema=s1");
        assert!(!format!("{settings:?}").contains("pw"));
    }

    #[test]
    fn the_database_is_named_like_the_user_if_it_is_not_named() {
        assert_eq!(Settings::from_url("postgresql://al@h").unwrap().database, "al");
    }

    #[test]
    fn what_cannot_work_names_itself() {
        let bad = [
            ("mysql://h/d", "postgres://"),
            ("postgres://h?sslmode=verify-ca", "verify-full"),
            ("postgres://h?shcema=x", "shcema"),
            ("postgres://h?schema=Tenure", "Tenure"),
            ("postgres://h?schema=x%22;drop", "a-z"),
            ("postgres://h?schema=pg_x", "pg_"),
            ("postgres://h?connections=0", "connections is 0"),
            ("postgres://h?readers=65", "readers is 65"),
            ("postgres://h?poll=0ms", "poll"),
            ("postgres://h?reread=2h", "reread"),
            ("postgres://h?sslmode=disable&sslrootcert=x", "sslrootcert"),
        ];
        for (url, word) in bad {
            let settings = Settings::from_url(url).and_then(|settings| settings.validate());
            assert!(settings.unwrap_err().to_string().contains(word), "{url}");
        }
    }
}
