//! The conformance suite on the memory store.

use std::sync::Arc;

use tenure_store::{MemoryStore, Store, testkit::Handles};

mod memory {
    use super::*;

    async fn open(count: usize) -> Handles {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Handles::new(vec![store; count], ())
    }

    tenure_store::conformance!(open);
}
