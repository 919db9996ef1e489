//! [`HttpSettings`]: where a lease service is, and which lease is wanted.

use std::time::Duration;

use tenure_store::{Host, Name, StoreError, StoreUrl};

use crate::candidate;

/// The options of a URL.
const OPTIONS: &[&str] = &["lock", "ttl", "refresh", "timeout", "holder", "plain"];

/// The shortest lease.
const TTL_LEAST: Duration = Duration::from_secs(1);

/// What an [`HttpLease`](crate::HttpLease) needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Where the service listens.
    pub host: Host,
    /// Whether connections are encrypted, with a certificate that the system trusts.
    pub tls: bool,
    /// What stands before `/locks` in every path, without a slash at its end.
    pub base: String,
    /// The lease.
    pub lock: Name,
    /// The node: part of the holder.
    pub node: Name,
    /// Who we are to the service, if not a name that is made for this oracle alone. Two processes of one name both hold the lease, and a
    /// release whose answer was lost may take what is claimed under it afterwards.
    pub holder: Option<Name>,
    /// How long a lease lives: what is asked for, and what is believed if the service does not say. Default: 15 s.
    pub ttl: Duration,
    /// How often it is renewed, at most a third of its life, and asked for while another holds it. Default: 5 s.
    pub refresh: Duration,
    /// How long an answer may take. Default: a third of the ttl.
    pub timeout: Duration,
    /// Whether nothing is sent that not every such service knows. Default: `false`.
    pub plain: bool,
}

impl HttpSettings {
    /// What a URL says: `http://host:port/base?lock=name&ttl=15s`, or `https`. `name` is the lease if the URL names none.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the value and the rule.
    pub fn from_url(url: &str, name: &str, node: &str) -> Result<Self, StoreError> {
        let mut url = StoreUrl::parse(url)?;
        let tls = match url.scheme.as_str() {
            "http" => false,
            "https" => true,
            other => {
                return Err(StoreError::invalid(format!(
                    "{other:?} is no way to a lease service: write http or https"
                )));
            }
        };
        if url.user.is_some() || url.password.is_some() {
            return Err(StoreError::invalid(
                "this URL has a login, which a lease service does not take: leave it out",
            ));
        }
        let mut hosts = std::mem::take(&mut url.hosts).into_iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(StoreError::invalid("this URL names several hosts: name one"));
        };
        let ttl = url.take_time("ttl")?.unwrap_or(Duration::from_secs(15));
        let settings = Self {
            host,
            tls,
            base: match url.path.trim_end_matches('/') {
                "" => String::new(),
                path => format!("/{path}"),
            },
            lock: candidate::name("lock", &url.take_text("lock").unwrap_or_else(|| name.to_owned()))?,
            node: candidate::name("node", node)?,
            holder: url.take_text("holder").map(|holder| candidate::name("holder", &holder)).transpose()?,
            ttl,
            refresh: url.take_time("refresh")?.unwrap_or(Duration::from_secs(5)),
            timeout: url.take_time("timeout")?.unwrap_or(ttl / 3),
            plain: url.take("plain", "true or false")?.unwrap_or(false),
        };
        url.finish(OPTIONS)?;
        settings.validate()?;
        Ok(settings)
    }

    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        candidate::admit_time("ttl", self.ttl, TTL_LEAST)?;
        candidate::admit_time("refresh", self.refresh, Duration::from_millis(10))?;
        candidate::admit_time("timeout", self.timeout, Duration::from_millis(10))
    }
}
