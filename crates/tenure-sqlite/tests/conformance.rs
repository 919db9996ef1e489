//! The conformance suite on a file shared by several handles, as if by several processes, and in memory.

use std::sync::Arc;

use tenure_sqlite::SqliteStore;
use tenure_store::{Store, testkit::Handles};

async fn open(url: &str) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(url).await.expect("the store opens"))
}

mod file {
    use super::*;

    async fn open(count: usize) -> Handles {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let url = format!("sqlite:{}", dir.path().join("store.db").display());
        let mut stores = Vec::new();
        for _ in 0..count {
            stores.push(super::open(&url).await);
        }
        Handles::new(stores, dir)
    }

    tenure_store::conformance!(open);
}

mod memory {
    use super::*;

    async fn open(count: usize) -> Handles {
        let store = super::open("sqlite::memory:").await;
        Handles::new(vec![store; count], ())
    }

    tenure_store::conformance!(open);
}
