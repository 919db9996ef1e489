//! [`open`]: any oracle, from a URL.

use tenure_singleton::Oracle;
use tenure_store::StoreError;

/// The oracle at a URL, for a candidate on this node. `name` is what is contended for, unless the URL says so itself.
///
/// | URL | options, all of which may be left out |
/// | --- | --- |
/// | `crown+postgres://user@host/database` | `lock`, `duration`, `poll`, `schema` |
/// | `oban+postgres://user@host/database` | `name` (always `Oban` by default), `prefix`, `node`, `interval`, `settle` |
/// | `sofa+mysql://user@host/database` | `data_center`, `lock`, `duration`, `poll` |
/// | `http://host:port/base` or `https` | `lock`, `ttl`, `refresh`, `timeout`, `holder`, `plain` |
///
/// Behind them the options of the database that say how to connect: see [`crate`] for what each oracle is. Nothing is
/// connected to yet.
///
/// ```
/// let oracle = tenure_oracles::open("crown+postgres://localhost/app?duration=15s", "nightly", "worker-1");
/// assert!(oracle.is_ok());
/// assert!(tenure_oracles::open("crown+postgres://localhost/app?duration=0s", "nightly", "worker-1").is_err());
/// ```
///
/// # Errors
/// [`StoreError::Invalid`], naming the value and the rule.
pub fn open(url: &str, name: &str, node: &str) -> Result<Box<dyn Oracle>, StoreError> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let kind = scheme.map(|scheme| scheme.split_once('+').map_or(scheme, |(kind, _)| kind));
    match kind {
        #[cfg(feature = "http")]
        Some("http" | "https") => {
            let settings = crate::HttpSettings::from_url(url, name, node)?;
            Ok(Box::new(crate::HttpLease::new(settings)?))
        }
        #[cfg(not(feature = "http"))]
        Some("http" | "https") => Err(missing("http")),
        #[cfg(feature = "postgres")]
        Some("crown") => {
            let settings = crate::CrownSettings::from_url(url, name, node)?;
            Ok(Box::new(crate::CrownLease::new(settings)?))
        }
        #[cfg(feature = "postgres")]
        Some("oban") => {
            let settings = crate::ObanSettings::from_url(url, node)?;
            Ok(Box::new(crate::ObanPeer::new(settings)?))
        }
        #[cfg(feature = "mysql")]
        Some("sofa") => {
            let settings = crate::SofaSettings::from_url(url, name, node)?;
            Ok(Box::new(crate::DistributeLock::new(settings)?))
        }
        #[cfg(not(feature = "postgres"))]
        Some("crown" | "oban") => Err(missing("postgres")),
        #[cfg(not(feature = "mysql"))]
        Some("sofa") => Err(missing("mysql")),
        // Nothing of a URL is repeated that might be a secret.
        _ => Err(StoreError::invalid(
            "this is no URL of an oracle: write crown+postgres://, oban+postgres:// or sofa+mysql://, a host and a database, or the http:// or https:// URL of a lease service",
        )),
    }
}

#[cfg(not(all(feature = "http", feature = "postgres", feature = "mysql")))]
fn missing(feature: &str) -> StoreError {
    StoreError::invalid(format!(
        "this oracle is not in this program: build it with the feature {feature:?} of tenure-oracles"
    ))
}

#[cfg(all(test, feature = "http", feature = "postgres", feature = "mysql"))]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        open(url, "nightly", "worker-1").err().unwrap_or_else(|| panic!("{url} was taken")).to_string()
    }

    #[test]
    fn good_urls_are_taken() {
        for url in [
            "crown+postgres://al:pw@h:1,i:2/d?lock=Elixir.My.Worker&duration=30s&poll=2s&schema=s&sslmode=disable",
            "crown+postgresql://h",
            "oban+postgres://h/d?name=MyApp.Oban&prefix=private&node=web.1&interval=1s&settle=0s",
            "sofa+mysql://h/d?data_center=dc&lock=META-MASTER&duration=20s&poll=1s&tls=disable&durability=relax",
            "sofa+mariadb://h/d",
            "http://h:4040/base/?lock=a&ttl=15s&refresh=5s&timeout=1s&holder=me&plain=true",
            "https://h",
        ] {
            assert!(open(url, "nightly", "worker-1").is_ok(), "{url}");
        }
    }

    #[test]
    fn bad_urls_name_the_value_and_the_rule_and_no_secret() {
        let bad = [
            ("postgres://u:secret@h/d", "crown+postgres://"),
            ("crown+mysql://u:secret@h/d", "postgres://"),
            ("sofa+postgres://u:secret@h/d", "mysql://"),
            ("crown:secret", "crown+postgres://"),
            ("crown+postgres://u:secret@h/d?duration=9ms", "duration is 9ms"),
            ("crown+postgres://u:secret@h/d?duration=long", "\"long\""),
            ("crown+postgres://u:secret@h/d?poll=0s", "poll is 0ns"),
            ("crown+postgres://u:secret@h/d?lock=", "lock"),
            ("crown+postgres://u:secret@h/d?connections=3", "\"connections\""),
            ("crown+postgres://u:secret@h/d?sslmode=some", "sslmode"),
            ("crown+postgres://u:secret@h/d?schema=", "schema"),
            ("oban+postgres://u:secret@h/d?node=a%20b", "\"a b\""),
            ("oban+postgres://u:secret@h/d?name=", "name"),
            ("oban+postgres://u:secret@h/d?prefix=", "prefix"),
            ("oban+postgres://u:secret@h/d?interval=1ms", "interval is 1ms"),
            ("sofa+mysql://u:secret@h/d?duration=999ms", "duration is 999ms"),
            ("sofa+mysql://u:secret@h/d?data_center=", "data_center"),
            ("sofa+mysql://u:secret@h", "no database"),
            ("http://u:secret@h", "login"),
            ("http://h,i", "several hosts"),
            ("http://h?ttl=1ms", "ttl is 1ms"),
            ("http://h?plain=maybe", "true or false"),
            ("http://h?lokc=1", "\"lokc\""),
        ];
        for (url, word) in bad {
            let words = refusal(url);
            assert!(words.contains(word) && !words.contains("secret"), "{url}: {words}");
        }
        let long = format!("sofa+mysql://h/d?data_center={}", "x".repeat(129));
        assert!(refusal(&long).contains("128"));
        assert!(open("crown+postgres://h/d", "nightly", "").is_err());
        assert!(open("crown+postgres://h/d", "", "worker-1").is_err());
    }
}
