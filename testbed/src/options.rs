//! [`Options`]: how a private server differs from a plain one.

use anyhow::{Result, ensure};

/// How a private server differs from a plain one. The default is what a careful user would run in production.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Settings of the server, by name: lines of `postgresql.conf`, options of `mariadbd` or flags of `etcd`, without dashes.
    /// They win over what this crate sets.
    pub settings: Vec<(String, String)>,
    /// Whether the server's clock can be stepped, with `step_clock`. PostgreSQL and MariaDB only.
    pub faketime: bool,
    /// Whether the server offers TLS, with a certificate for `localhost` and 127.0.0.1. PostgreSQL and MariaDB still accept plain
    /// connections, etcd then does not.
    pub tls: bool,
    /// Whether etcd demands a certificate of its clients, with [`tls`](Self::tls).
    pub client_certificates: bool,
    /// A password. PostgreSQL and MariaDB get a user `tenure` who needs it and may do everything; etcd demands it of everyone, the user is
    /// `root`. The server's URL then has the user and the password. Letters and digits only.
    pub password: Option<String>,
}

impl Options {
    /// These options, and one more setting of the server.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// `user:password@` for a URL, or `otherwise`.
    pub(crate) fn login(&self, user: &str, otherwise: &str) -> String {
        self.password.as_ref().map_or(otherwise.to_owned(), |password| format!("{user}:{password}@"))
    }

    /// Refuses what would need quoting in URLs and statements.
    pub(crate) fn check(&self) -> Result<()> {
        let plain =
            |text: &String| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric());
        ensure!(
            self.password.as_ref().is_none_or(plain),
            "a password for a test server has letters and digits only"
        );
        ensure!(!self.client_certificates || self.tls, "`client_certificates` needs `tls`");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_would_need_quoting_are_refused() {
        for (password, fine) in [("secret1", true), ("", false), ("a'b", false), ("a@b", false)] {
            let options = Options { password: Some(password.to_owned()), ..Options::default() };
            assert_eq!(options.check().is_ok(), fine, "{password:?}");
        }
    }
}
