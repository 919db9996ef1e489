//! [`Settings`]: where the cluster is, what the store is called in it, and how patient it is.

use std::{fmt, path::PathBuf, time::Duration};

use tenure_store::{Host, Password, StoreError, StoreUrl};

/// The port on which etcd serves clients.
pub(crate) const PORT: u16 = 2379;

/// The longest prefix, in bytes. Each key that is sent has it in front: the largest commit must fit all the same.
const PREFIX_BYTES_MAX: usize = 128;

/// The options of a URL.
const OPTIONS: &[&str] =
    &["connect_timeout", "request_timeout", "reread", "tls", "tls_ca", "tls_cert", "tls_key"];

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The members of the cluster, or some of them. Requests go to one at a time; which is first is left to chance, so that many
    /// processes spread over them. The port is 2379 unless it is given.
    pub hosts: Vec<Host>,
    /// Who asks. Default: nobody, for clusters without authentication.
    pub user: Option<String>,
    /// With which password.
    pub password: Option<Password>,
    /// What the keys of this store begin with, up to the first `//` in them. Default: `tenure`.
    pub prefix: String,
    /// Whether connections are encrypted. Default: `false`, or `true` if any other setting of TLS is given.
    pub tls: bool,
    /// A file with the certificates of the authorities that may have signed the servers'. Default: those that the system trusts.
    pub tls_ca: Option<PathBuf>,
    /// A file with our own certificate, for clusters that demand one, and one with its key.
    pub tls_identity: Option<(PathBuf, PathBuf)>,
    /// How long a connection may take to be made. Default: 2 s.
    pub connect_timeout: Duration,
    /// How long an answer may take before the request is given up, a commit with an unknown outcome. Default: 3 s.
    pub request_timeout: Duration,
    /// How often watches look for themselves, in case a message got lost. Default: 5 s.
    pub reread: Duration,
}

impl Settings {
    /// The defaults for a cluster.
    #[must_use]
    pub fn new(hosts: Vec<Host>) -> Self {
        Self {
            hosts,
            user: None,
            password: None,
            prefix: "tenure".into(),
            tls: false,
            tls_ca: None,
            tls_identity: None,
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(3),
            reread: Duration::from_secs(5),
        }
    }

    /// The settings in a URL: `etcd://user:password@host:port,host:port/prefix?option=value`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is not such a URL; nothing in it that may be a secret is repeated.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let mut url = StoreUrl::parse(url)?;
        if url.scheme != "etcd" {
            return Err(StoreError::invalid("this is no etcd URL: write etcd://host:port,host:port/prefix"));
        }
        let mut settings = Self::new(url.hosts.clone());
        settings.user.clone_from(&url.user);
        settings.password.clone_from(&url.password);
        if !url.path.is_empty() {
            settings.prefix.clone_from(&url.path);
        }
        settings.tls_ca = url.take_text("tls_ca").map(PathBuf::from);
        settings.tls_identity = match (url.take_text("tls_cert"), url.take_text("tls_key")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            _ => {
                return Err(StoreError::invalid(
                    "tls_cert and tls_key belong together: give both of them, or none",
                ));
            }
        };
        let encrypted = settings.tls_ca.is_some() || settings.tls_identity.is_some();
        settings.tls = url.take("tls", "true or false")?.unwrap_or(encrypted);
        settings.connect_timeout = url.take_time("connect_timeout")?.unwrap_or(settings.connect_timeout);
        settings.request_timeout = url.take_time("request_timeout")?.unwrap_or(settings.request_timeout);
        settings.reread = url.take_time("reread")?.unwrap_or(settings.reread);
        url.finish(OPTIONS)?;
        Ok(settings)
    }

    /// Refuses settings that can't work.
    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        if self.hosts.is_empty() {
            return Err(StoreError::invalid("hosts is empty: name at least one"));
        }
        if self.user.is_some() != self.password.is_some() {
            return Err(StoreError::invalid(
                "a user and a password belong together: write etcd://user:password@host, or neither",
            ));
        }
        let prefix = &self.prefix;
        if prefix.is_empty() || prefix.starts_with('/') || prefix.ends_with('/') || prefix.contains("//") {
            return Err(StoreError::invalid(format!(
                "the prefix is {prefix:?}: write names with one / between them, as in etcd://host/name or etcd://host/name/name"
            )));
        }
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(StoreError::invalid(format!(
                "the prefix has {} bytes: choose one of at most {PREFIX_BYTES_MAX}",
                prefix.len()
            )));
        }
        if !self.tls && (self.tls_ca.is_some() || self.tls_identity.is_some()) {
            return Err(StoreError::invalid(
                "tls is false and certificates are given: write tls=true, or leave them out",
            ));
        }
        let times = [
            ("connect_timeout", self.connect_timeout),
            ("request_timeout", self.request_timeout),
            ("reread", self.reread),
        ];
        for (name, time) in times {
            if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&time) {
                return Err(StoreError::invalid(format!("{name} is {time:?}: choose from 1ms to 60m")));
            }
        }
        Ok(())
    }
}

/// Prints where the store is, without the password.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("etcd://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        write!(f, "{}/{}", hosts.join(","), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_everything() {
        let settings = Settings::from_url(
            "etcd://al:pw@a,b:7/one/two?tls_ca=ca.pem&tls_cert=c.pem&tls_key=k.pem&connect_timeout=1s&request_timeout=2s&reread=6ms",
        )
        .unwrap();
        settings.validate().unwrap();
        let expected = Settings {
            hosts: vec![Host { name: "a".into(), port: None }, Host { name: "b".into(), port: Some(7) }],
            user: Some("al".into()),
            password: Some(Password::new("pw")),
            prefix: "one/two".into(),
            tls: true,
            tls_ca: Some("ca.pem".into()),
            tls_identity: Some(("c.pem".into(), "k.pem".into())),
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
            reread: Duration::from_millis(6),
        };
        assert_eq!(settings, expected);
        assert_eq!(settings.to_string(), "etcd://al@a,b:7/one/two");
        assert!(!format!("{settings:?}").contains("pw"));
    }

    #[test]
    fn a_host_alone_is_enough() {
        let settings = Settings::from_url("etcd://h").unwrap();
        settings.validate().unwrap();
        assert_eq!(settings, Settings::new(vec![Host { name: "h".into(), port: None }]));
        assert_eq!(settings.to_string(), "etcd://h/tenure");
        assert!(Settings::from_url("etcd://h?tls=true").unwrap().tls);
    }

    #[test]
    fn what_cannot_work_names_itself() {
        let long = format!("etcd://h/{}", "p".repeat(PREFIX_BYTES_MAX + 1));
        let bad = [
            ("mysql://h/d", "etcd://"),
            ("etcd://h?tsl=true", "tsl"),
            ("etcd://h?tls=yes", "true or false"),
            ("etcd://h?tls=false&tls_ca=x", "tls is false"),
            ("etcd://h?tls_cert=x", "tls_key"),
            ("etcd://user@h", "password"),
            ("etcd://h//a", "prefix"),
            ("etcd://h/a/", "prefix"),
            ("etcd://h/a//b", "prefix"),
            (long.as_str(), "129 bytes"),
            ("etcd://h?reread=0ms", "reread"),
            ("etcd://h?request_timeout=61m", "request_timeout"),
        ];
        for (url, word) in bad {
            let settings = Settings::from_url(url).and_then(|settings| settings.validate());
            assert!(settings.unwrap_err().to_string().contains(word), "{url}");
        }
    }
}
