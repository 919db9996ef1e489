//! Every store, opened by its URL alone, works; and every one keeps its password to itself.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use tenure::prelude::*;

/// Opens the store, uses it, and returns how it prints.
async fn used(url: &str) -> String {
    let store = tenure::open(url).await.unwrap();
    let key = Tuple::new().text("open").key();
    store.commit(Commit::new().set(key.clone(), "v")).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().unwrap().value, "v");
    store.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemes_pick_stores() {
    assert_eq!(used("memory:").await, "memory");
    assert_eq!(used("sqlite::memory:").await, "sqlite::memory:");
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("store.db").display());
    assert_eq!(used(&url).await, url);
    for url in [tenure_testbed::postgres(), tenure_testbed::mariadb(), tenure_testbed::etcd()] {
        let printed = used(&url).await;
        assert!(printed.starts_with(&url), "{url} prints as {printed}");
    }
}

#[tokio::test]
async fn passwords_are_not_repeated() {
    // Nobody listens on this port.
    for scheme in ["postgres", "postgresql", "mysql", "mariadb", "etcd"] {
        for rest in [
            "user:secret@127.0.0.1:1/x",
            "user:secret",
            "user:secret@127.0.0.1:1/x?option=secret",
            "user:secret%@127.0.0.1:1/x",
        ] {
            let error = tenure::open(&format!("{scheme}://{rest}")).await.unwrap_err();
            let mut words = format!("{error} {error:?}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                words += &cause.to_string();
                source = cause.source();
            }
            assert!(!words.contains("secret"), "{scheme}://{rest}: {words}");
        }
    }
}
