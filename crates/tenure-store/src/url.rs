//! [`StoreUrl`]: the address of a store on the network, and its password, which is never printed.
//!
//! ```text
//! scheme://user:password@host:port,host:port/path?option=value&option=value
//! ```
//! Everything but the scheme and a host may be left out. What has a meaning in a URL is written as `%` and two hexadecimal digits. All
//! stores read their URLs with this one parser, so that all are written alike, and no error repeats a secret.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use crate::StoreError;

/// A URL of a store, taken apart.
///
/// It prints without the password and without options, which may hold secrets of their own.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// What stands before `://`.
    pub scheme: String,
    /// Who connects.
    pub user: Option<String>,
    /// With which password.
    pub password: Option<Password>,
    /// Where to, at least one.
    pub hosts: Vec<Host>,
    /// What stands behind the first `/`.
    pub path: String,
    /// What stands behind `?` and was not taken yet.
    options: BTreeMap<String, String>,
}

/// One host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address; an IPv6 address without its brackets.
    pub name: String,
    /// Its port, if it was given.
    pub port: Option<u16>,
}

/// A password. It can be used, but not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A password of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be given to the server and to nobody else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

impl StoreUrl {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the part that is wrong and repeating nothing that might be a secret.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| wrong("it has no ://, as in scheme://host/name"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (decode("user", user)?, decode("password", password)?),
            None => (String::new(), String::new()),
        };
        Ok(Self {
            scheme: scheme.to_owned(),
            user: (!user.is_empty()).then_some(user),
            password: (!password.is_empty()).then_some(Password(password)),
            hosts: hosts.split(',').map(host).collect::<Result<_, _>>()?,
            path: decode("path", path)?,
            options: options
                .split('&')
                .filter(|option| !option.is_empty())
                .map(option)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Takes an option out, as text.
    pub fn take_text(&mut self, name: &str) -> Option<String> {
        self.options.remove(name)
    }

    /// Takes an option out, if it is there. `rule` says what it should look like.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it does not.
    pub fn take<T: FromStr>(&mut self, name: &str, rule: &str) -> Result<Option<T>, StoreError> {
        let Some(text) = self.options.remove(name) else { return Ok(None) };
        let value = text.parse();
        value.map(Some).map_err(|_| wrong(format!("its option {name} is {text:?}: write {rule}")))
    }

    /// Takes out an option that is a time, such as `500ms` or `2s`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is no time.
    pub fn take_time(&mut self, name: &str) -> Result<Option<Duration>, StoreError> {
        let Some(text) = self.options.remove(name) else { return Ok(None) };
        time(&text).map(Some).ok_or_else(|| {
            wrong(format!("its option {name} is {text:?}: write a number with ms, s, m or h, as 500ms"))
        })
    }

    /// Refuses options that nobody took: a misspelled one must not be ignored. `known` lists those there are.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the first.
    pub fn finish(&self, known: &[&str]) -> Result<(), StoreError> {
        match self.options.keys().next() {
            None => Ok(()),
            Some(name) => {
                Err(wrong(format!("there is no option {name:?} here: there are {}", known.join(", "))))
            }
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        for (index, host) in self.hosts.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{host}")?;
        }
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        match (name.contains(':'), port) {
            (true, Some(port)) => write!(f, "[{name}]:{port}"),
            (true, None) => write!(f, "[{name}]"),
            (false, Some(port)) => write!(f, "{name}:{port}"),
            (false, None) => f.write_str(name),
        }
    }
}

fn wrong(rule: impl fmt::Display) -> StoreError {
    StoreError::invalid(format!("the URL of the store can't be read: {rule}"))
}

fn host(text: &str) -> Result<Host, StoreError> {
    let (name, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err(wrong("it names no host: write scheme://host/name"));
    }
    // Behind a colon may stand a password whose @ was forgotten: it is not repeated.
    let port = port.map(|port| {
        port.parse().map_err(|_| wrong(format!("the port of host {name:?} is no number from 0 to 65535")))
    });
    Ok(Host { name: decode("host", name)?, port: port.transpose()? })
}

fn option(text: &str) -> Result<(String, String), StoreError> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| wrong("an option behind ? has no =: write name=value"))?;
    Ok((decode("option", name)?, decode("option", value)?))
}

fn decode(part: &str, text: &str) -> Result<String, StoreError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let byte = byte.ok_or_else(|| {
            wrong(format!(
                "a % in its {part} has no two hexadecimal digits behind it: write a % itself as %25"
            ))
        })?;
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong(format!("its {part} is not UTF-8")))
}

fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_url_comes_apart() {
        let mut url = StoreUrl::parse(
            "postgres://al%40ice:p%3A%2Fss@db1:5433,[::1]:7,db3/ten%20ure?size=4&wait=250ms&name=a%26b",
        )
        .unwrap();
        assert_eq!((url.scheme.as_str(), url.user.as_deref()), ("postgres", Some("al@ice")));
        assert_eq!(url.password.as_ref().map(Password::reveal), Some("p:/ss"));
        let hosts: Vec<String> = url.hosts.iter().map(Host::to_string).collect();
        assert_eq!(hosts, ["db1:5433", "[::1]:7", "db3"]);
        assert_eq!(url.path, "ten ure");
        assert_eq!(url.take::<usize>("size", "a number").unwrap(), Some(4));
        assert_eq!(url.take_time("wait").unwrap(), Some(Duration::from_millis(250)));
        assert!(url.finish(&["size"]).unwrap_err().to_string().contains("\"name\""));
        assert_eq!(url.take_text("name").as_deref(), Some("a&b"));
        url.finish(&[]).unwrap();
        assert_eq!(url.to_string(), "postgres://al@ice@db1:5433,[::1]:7,db3/ten ure");
    }

    #[test]
    fn a_host_alone_is_enough() {
        let url = StoreUrl::parse("etcd://localhost").unwrap();
        assert_eq!(url.hosts, [Host { name: "localhost".into(), port: None }]);
        assert_eq!((url.user, url.password, url.path.as_str()), (None, None, ""));
    }

    #[test]
    fn what_is_wrong_is_named_and_secrets_are_not_repeated() {
        let bad = [
            ("postgres:host", "://"),
            ("postgres://", "no host"),
            ("postgres://u:secret@", "no host"),
            ("postgres://u:secret@a,,b", "no host"),
            ("postgres://u:secret%zz@h", "password"),
            ("postgres://u:secret%ff@h", "UTF-8"),
            ("postgres://user:secret", "port of host"),
            ("postgres://h:70000", "port of host"),
            ("postgres://h/d?secret", "name=value"),
        ];
        for (url, word) in bad {
            let error = StoreUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn options_of_the_wrong_kind_are_named() {
        let mut url = StoreUrl::parse("x://h?size=many&wait=3&long=5d&more=18446744073709551615m").unwrap();
        assert!(url.take::<usize>("size", "a number").unwrap_err().to_string().contains("\"many\""));
        for name in ["wait", "long", "more"] {
            assert!(url.take_time(name).unwrap_err().to_string().contains(name));
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let url = StoreUrl::parse("x://u:secret@h/d?token=secret").unwrap();
        assert!(!url.to_string().contains("secret"));
        assert!(!format!("{url:?} {:?}", url.password).contains("secret"));
    }
}
