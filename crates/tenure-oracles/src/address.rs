//! [`Address`]: a URL of an oracle, which is one of a database with more options.

use tenure_store::{StoreError, StoreUrl};

/// A URL, taken apart.
pub(crate) struct Address {
    /// What is for the oracle: only its options mean something.
    pub(crate) options: StoreUrl,
    /// The rest: how to connect to the database.
    pub(crate) database: String,
}

impl Address {
    /// Takes a URL apart that begins with `kind+`. `own` are the oracle's options, `passed` those of the database
    /// that make sense here.
    pub(crate) fn parse(url: &str, kind: &str, own: &[&str], passed: &[&str]) -> Result<Self, StoreError> {
        let database = url.strip_prefix(kind).and_then(|rest| rest.strip_prefix('+')).ok_or_else(|| {
            StoreError::invalid(format!("the URL of this oracle begins with {kind}+, and this one does not"))
        })?;
        let (place, options) = database.split_once('?').unwrap_or((database, ""));
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let name = option.split_once('=').map_or(option, |(name, _)| name);
            if own.contains(&name) {
                mine.push(option);
            } else if passed.contains(&name) {
                others.push(option);
            } else {
                let known = [own, passed].concat().join(", ");
                return Err(StoreError::invalid(format!(
                    "there is no option {name:?} in the URL of this oracle: there are {known}"
                )));
            }
        }
        Ok(Self {
            options: StoreUrl::parse(&format!("{kind}://options?{}", mine.join("&")))?,
            database: format!("{place}?{}", others.join("&")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_where_they_belong() {
        let url = "crown+postgres://u:p%3f@h:1/d?lock=a%26b&sslmode=disable";
        let mut address = Address::parse(url, "crown", &["lock"], &["sslmode"]).unwrap();
        assert_eq!(address.options.take_text("lock").as_deref(), Some("a&b"));
        assert_eq!(address.database, "postgres://u:p%3f@h:1/d?sslmode=disable");
    }

    #[test]
    fn what_nobody_knows_is_named_with_what_there_is() {
        let refused = |url| Address::parse(url, "crown", &["lock"], &["sslmode"]).err().unwrap().to_string();
        let words = refused("crown+postgres://h/d?lokc=secret");
        assert!(words.contains("\"lokc\"") && words.contains("lock, sslmode"), "{words}");
        assert!(!words.contains("secret"));
        assert!(refused("postgres://h/d").contains("crown+"));
    }
}
