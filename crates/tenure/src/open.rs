//! [`open`]: a store by its URL.

use std::sync::Arc;

use tenure_store::{MemoryStore, Store, StoreError};

/// How the URLs of stores are written, for errors.
const URLS: &str =
    "sqlite:path, postgres://user@host/database, mysql://user@host/database, etcd://host,host or memory:";

/// Opens the store that a URL names.
///
/// | URL | store |
/// | --- | --- |
/// | `memory:` | in this process, gone with it: for tests |
/// | `sqlite:path` | one file, shared by all processes of this machine |
/// | `sqlite::memory:` | SQLite without a file, gone with this process |
/// | `postgres://user:password@host:port/database` | PostgreSQL |
/// | `mysql://user:password@host:port/database` | MySQL, MariaDB and Galera |
/// | `etcd://user:password@host:port,host:port` | etcd |
///
/// The page of each store lists the options that may stand behind a `?`.
///
/// # Errors
/// [`StoreError::Invalid`] for a URL that names no store of ours, or one that this program was built without; what the store itself
/// has to say otherwise. No error repeats a password.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        "memory" if url == "memory:" => Ok(Arc::new(MemoryStore::new())),
        "memory" => {
            Err(StoreError::invalid(format!("{url:?} has something behind memory: write memory: alone")))
        }
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(tenure_sqlite::SqliteStore::open(url).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(tenure_postgres::PostgresStore::open(url).await?)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(tenure_mysql::MysqlStore::open(url).await?)),
        #[cfg(feature = "etcd")]
        "etcd" => Ok(Arc::new(tenure_etcd::EtcdStore::open(url).await?)),
        // Only these are left when a feature is off.
        #[allow(unreachable_patterns, reason = "with all features none is left")]
        "sqlite" | "postgres" | "postgresql" | "mysql" | "mariadb" | "etcd" => Err(missing(scheme)),
        _ => Err(unknown(url, scheme)),
    }
}

/// The answer to a scheme whose store was left out.
#[cfg_attr(
    all(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "etcd"),
    allow(dead_code, reason = "nothing was left out")
)]
fn missing(scheme: &str) -> StoreError {
    let feature = match scheme {
        "postgresql" => "postgres",
        "mariadb" => "mysql",
        other => other,
    };
    StoreError::invalid(format!(
        "this program was built without the store for {scheme}: turn on the feature {feature} of tenure"
    ))
}

/// The answer to a scheme that nobody goes by.
fn unknown(url: &str, scheme: &str) -> StoreError {
    // Only the scheme is repeated: what stands behind it may hold a password. Without one, so may all of it.
    let words = if url.contains(':') {
        format!("no store goes by the scheme {scheme:?}")
    } else {
        "the URL of the store has no scheme".into()
    };
    StoreError::invalid(format!("{words}: write {URLS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_names_no_store_is_refused_without_repeating_secrets() {
        for url in ["", "store.db", "secret", "oracle://user:secret@host/x", "memory:x", "sqlite:"] {
            let error = open(url).await.unwrap_err();
            assert!(matches!(error, StoreError::Invalid(_)), "{url}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_missing_feature_is_named() {
        for (scheme, feature) in [("postgresql", "postgres"), ("mariadb", "mysql"), ("etcd", "etcd")] {
            let words = missing(scheme).to_string();
            assert!(words.contains(scheme) && words.contains(&format!("feature {feature} of")), "{words}");
        }
    }
}
