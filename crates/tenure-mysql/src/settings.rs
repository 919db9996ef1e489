//! [`Settings`]: where the database is, and how it is used.

use std::{fmt, path::PathBuf, time::Duration};

use tenure_store::{Host, Password, StoreError, StoreUrl};

/// The options of a URL.
const OPTIONS: &[&str] = &[
    "prefix",
    "tls",
    "tls_ca",
    "connections",
    "readers",
    "connect_timeout",
    "request_timeout",
    "poll",
    "durability",
];

/// The port of MySQL and MariaDB.
pub(crate) const PORT: u16 = 3306;

/// The longest prefix of tables: with what is put behind it, a name of at most 64 characters, as the servers take them.
const PREFIX_BYTES_MAX: usize = 32;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the servers are. With several, as the nodes of a Galera cluster, the first that accepts writes is used.
    pub hosts: Vec<Host>,
    /// Who connects. Default: `root`.
    pub user: String,
    /// With which password.
    pub password: Option<Password>,
    /// To which database, which must be there.
    pub database: String,
    /// What the names of tables and procedures start with. Default: `tenure_`.
    pub prefix: String,
    /// Whether connections are encrypted. Default: [`Tls::Prefer`].
    pub tls: Tls,
    /// The certificate authority that must have signed the server's certificate. Default: any that the system trusts.
    pub tls_ca: Option<PathBuf>,
    /// At most how many connections commit. Each is opened when it is first needed. Default: 8.
    pub connections: usize,
    /// At most how many connections read. Default: 2.
    pub readers: usize,
    /// How long a connection may take to be made. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long an answer may take before the request is given up, a commit with an unknown outcome. Default: 30 s.
    pub request_timeout: Duration,
    /// How often watches look for what other processes changed, at rest; right after a change or a new watch it is more often. Nothing looks
    /// while there is no watch. Default: 20 ms.
    pub poll: Duration,
    /// What to do about a server that acknowledges what it may lose. Default: [`Durability::Require`].
    pub durability: Durability,
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Never.
    Disable,
    /// If the server can; its certificate is not verified.
    Prefer,
    /// Always; the certificate is not verified.
    Require,
    /// Always, with a certificate that is valid for the name of the host.
    Verify,
}

/// What to do about a server that acknowledges commits before they are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Refuse it: the contract says that what was acknowledged survives every crash.
    Require,
    /// Take it, and log a warning: a crash of the server may lose acknowledged commits.
    Relax,
}

impl Settings {
    /// The defaults for a database on a host.
    pub fn new(host: Host, database: impl Into<String>) -> Self {
        Self {
            hosts: vec![host],
            user: "root".into(),
            password: None,
            database: database.into(),
            prefix: "tenure_".into(),
            tls: Tls::Prefer,
            tls_ca: None,
            connections: 8,
            readers: 2,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            poll: Duration::from_millis(20),
            durability: Durability::Require,
        }
    }

    /// The settings in a URL: `mysql://user:password@host:port,host:port/database?option=value`. `mariadb://` means the same.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is not such a URL; nothing in it that may be a secret is repeated.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let mut url = StoreUrl::parse(url)?;
        if !["mysql", "mariadb"].contains(&url.scheme.as_str()) {
            return Err(StoreError::invalid("this is no MySQL URL: write mysql://user@host/database"));
        }
        let mut settings = Self::new(url.hosts[0].clone(), url.path.clone());
        settings.hosts.clone_from(&url.hosts);
        settings.user = url.user.clone().unwrap_or(settings.user);
        settings.password.clone_from(&url.password);
        settings.prefix = url.take_text("prefix").unwrap_or(settings.prefix);
        if let Some(mode) = url.take_text("tls") {
            settings.tls = Tls::from_mode(&mode)?;
        }
        settings.tls_ca = url.take_text("tls_ca").map(PathBuf::from);
        let number = "a number of connections, as 8";
        settings.connections = url.take("connections", number)?.unwrap_or(settings.connections);
        settings.readers = url.take("readers", number)?.unwrap_or(settings.readers);
        settings.connect_timeout = url.take_time("connect_timeout")?.unwrap_or(settings.connect_timeout);
        settings.request_timeout = url.take_time("request_timeout")?.unwrap_or(settings.request_timeout);
        settings.poll = url.take_time("poll")?.unwrap_or(settings.poll);
        if let Some(durability) = url.take_text("durability") {
            settings.durability = Durability::from_text(&durability)?;
        }
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
        if self.database.is_empty() {
            return Err(StoreError::invalid("the URL names no database: write mysql://user@host/database"));
        }
        admit_prefix(&self.prefix)?;
        for (name, value) in [("connections", self.connections), ("readers", self.readers)] {
            if !(1..=64).contains(&value) {
                return Err(StoreError::invalid(format!("{name} is {value}: choose from 1 to 64")));
            }
        }
        for (name, time) in [("connect_timeout", self.connect_timeout), ("poll", self.poll)] {
            if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&time) {
                return Err(StoreError::invalid(format!("{name} is {time:?}: choose from 1ms to 1h")));
            }
        }
        // The server's own bound on waiting for a lock counts in seconds, and must end first.
        if !(Duration::from_secs(2)..=Duration::from_secs(3600)).contains(&self.request_timeout) {
            let time = self.request_timeout;
            return Err(StoreError::invalid(format!("request_timeout is {time:?}: choose from 2s to 1h")));
        }
        if self.tls != Tls::Verify && self.tls_ca.is_some() {
            return Err(StoreError::invalid(
                "tls_ca is given and tls is not verify: choose tls=verify, or leave it out",
            ));
        }
        Ok(())
    }
}

/// Prints where the store is, without the password.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        let Self { user, database, prefix, .. } = self;
        write!(f, "mysql://{user}@{}/{database}?prefix={prefix}", hosts.join(","))
    }
}

impl Tls {
    fn from_mode(mode: &str) -> Result<Self, StoreError> {
        match mode {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify" => Ok(Self::Verify),
            other => Err(StoreError::invalid(format!(
                "tls is {other:?}: write disable, prefer, require or verify"
            ))),
        }
    }
}

impl Durability {
    fn from_text(text: &str) -> Result<Self, StoreError> {
        match text {
            "require" => Ok(Self::Require),
            "relax" => Ok(Self::Relax),
            other => Err(StoreError::invalid(format!("durability is {other:?}: write require or relax"))),
        }
    }
}

/// Refuses a prefix that would need quoting anywhere: it becomes part of statements.
pub(crate) fn admit_prefix(prefix: &str) -> Result<(), StoreError> {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let good = prefix.starts_with(letter) && prefix.chars().all(|c| letter(c) || c.is_ascii_digit());
    if good && prefix.len() <= PREFIX_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::invalid(format!(
        "prefix is {prefix:?}: write 1 to {PREFIX_BYTES_MAX} of a-z, 0-9 and _, not a digit first"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_everything() {
        let settings = Settings::from_url(
            "mysql://al:pw@a,b:7/db?prefix=p_&tls=verify&tls_ca=ca.pem&connections=3&readers=4\
             &connect_timeout=1s&request_timeout=2s&poll=5ms&durability=relax",
        )
        .unwrap();
        settings.validate().unwrap();
        let expected = Settings {
            hosts: vec![Host { name: "a".into(), port: None }, Host { name: "b".into(), port: Some(7) }],
            user: "al".into(),
            password: Some(Password::new("pw")),
            database: "db".into(),
            prefix: "p_".into(),
            tls: Tls::Verify,
            tls_ca: Some("ca.pem".into()),
            connections: 3,
            readers: 4,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
            poll: Duration::from_millis(5),
            durability: Durability::Relax,
        };
        assert_eq!(settings, expected);
        assert_eq!(settings.to_string(), "mysql://al@a,b:7/db?prefix=p_");
        assert!(!format!("{settings:?}").contains("pw"));
    }

    #[test]
    fn a_host_and_a_database_are_enough() {
        let settings = Settings::from_url("mariadb://h/db").unwrap();
        settings.validate().unwrap();
        assert_eq!(settings, Settings::new(Host { name: "h".into(), port: None }, "db"));
    }

    #[test]
    fn what_is_wrong_names_itself_and_no_secret() {
        let bad = [
            ("postgres://u:secret@h/d", "mysql://"),
            ("mysql://u:secret@h", "no database"),
            ("mysql://u:secret@h/d?tls=maybe", "tls is \"maybe\""),
            ("mysql://u:secret@h/d?tls_ca=ca.pem", "choose tls=verify"),
            ("mysql://u:secret@h/d?prefix=a%60b", "prefix is"),
            ("mysql://u:secret@h/d?prefix=1a", "prefix is"),
            ("mysql://u:secret@h/d?connections=0", "connections is 0"),
            ("mysql://u:secret@h/d?readers=65", "readers is 65"),
            ("mysql://u:secret@h/d?poll=0ms", "poll is"),
            ("mysql://u:secret@h/d?request_timeout=1s", "request_timeout is"),
            ("mysql://u:secret@h/d?durability=some", "durability is"),
            ("mysql://u:secret@h/d?conections=9", "there is no option \"conections\""),
        ];
        for (url, word) in bad {
            let error =
                Settings::from_url(url).and_then(|settings| settings.validate()).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
