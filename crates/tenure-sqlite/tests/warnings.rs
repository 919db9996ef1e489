//! What is warned about when a store is opened. In a file of its own, since it listens to everything that this process logs.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex},
};

use tenure_sqlite::SqliteStore;

const WARNING: &str = "last opened on another machine";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// What was logged since the last call.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_file_that_was_last_opened_on_another_machine_is_warned_about_once() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).init();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let open = async || drop(SqliteStore::open(&format!("sqlite:{}", path.display())).await.unwrap());
    open().await;
    open().await;
    assert_eq!(log.take(), "", "nothing is unusual");

    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("INSERT OR REPLACE INTO facts VALUES ('machine', 'another')", []).unwrap();
    open().await;
    // Not every machine has an id; without one, nothing can be told.
    assert_eq!(log.take().contains(WARNING), Path::new("/etc/machine-id").exists());
    open().await;
    assert_eq!(log.take(), "");
}
