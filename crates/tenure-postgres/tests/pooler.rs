//! Behind a pooler in transaction mode, where LISTEN can't work.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure_postgres::PostgresStore;
use tenure_store::{Commit, Env, Key, Range, Store, StoreExt as _};

mod schemas;

/// What was logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deaf_store_says_so_once_and_polls() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let schema =
        schemas::Schema::new(&tenure_testbed::pgbouncer(), &format!("pooler_{}", std::process::id()));
    let watching = PostgresStore::open(&schema.url("&poll=20ms")).await.unwrap();
    let writing = PostgresStore::open(&schema.url("")).await.unwrap();
    let env = Env::system();
    for round in 0..2_u8 {
        let key = Key::from(format!("k{round}").as_str());
        let mut watch = watching.watch(Range::Key(key.clone()));
        watch.changed().await;
        while env.timeout(Duration::from_millis(2500), watch.changed()).await.is_ok() {}
        writing.commit(Commit::new().set(key.clone(), "v")).await.unwrap();
        env.timeout(Duration::from_secs(30), watch.changed()).await.unwrap();
        assert!(watching.get(&key).await.unwrap().is_some());
        drop(watch);
        // Long enough for it to find that nobody watches any more.
        env.sleep(Duration::from_millis(100)).await;
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.matches("LISTEN does not work here").count(), 1, "{log}");
    assert!(log.contains("WARN"), "{log}");
}
