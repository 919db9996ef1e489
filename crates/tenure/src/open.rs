//! [`open`]: a store by its URL.

use std::sync::Arc;

use tenure_store::{MemoryStore, Store, StoreError};

/// Opens the store that a URL names.
///
/// | URL | store |
/// | --- | --- |
/// | `memory:` | in this process, gone with it: for tests |
/// | `sqlite:path` | one file, shared by all processes of this machine |
/// | `sqlite::memory:` | SQLite without a file, gone with this process |
///
/// # Errors
/// [`StoreError::Invalid`] for a URL that names no store of ours, or one that this program was built without; what the store itself
/// has to say otherwise.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        "memory" if url == "memory:" => Ok(Arc::new(MemoryStore::new())),
        "memory" => {
            Err(StoreError::invalid(format!("{url:?} has something behind memory: write memory: alone")))
        }
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(tenure_sqlite::SqliteStore::open(url).await?)),
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => Err(StoreError::invalid(
            "this program was built without SQLite: turn on the feature sqlite of tenure",
        )),
        // Only the scheme is repeated: what stands behind it may hold a password.
        other => Err(StoreError::invalid(format!(
            "no store goes by the scheme {other:?}: write sqlite:path, sqlite::memory: or memory:"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn schemes_pick_stores() {
        assert_eq!(open("memory:").await.unwrap().to_string(), "memory");
        assert_eq!(open("sqlite::memory:").await.unwrap().to_string(), "sqlite::memory:");
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("store.db").display());
        assert_eq!(open(&url).await.unwrap().to_string(), url);
    }

    #[tokio::test]
    async fn what_names_no_store_is_refused_without_repeating_secrets() {
        for url in ["", "store.db", "oracle://user:secret@host/x", "memory:x", "sqlite:"] {
            let error = open(url).await.unwrap_err();
            assert!(matches!(error, StoreError::Invalid(_)), "{url}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
