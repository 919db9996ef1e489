//! Bare SQLite: an update of one row, prepared, with a flush of its own.

use std::path::Path;

use rusqlite::Connection;

use crate::{figures::rate, load};

/// A connection to a file of its own.
#[derive(Debug)]
pub struct BareSqlite(Connection);

impl BareSqlite {
    /// Makes the file, with one row of the usual size.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let raw = Connection::open(path).unwrap();
        raw.pragma_update(None, "journal_mode", "WAL").unwrap();
        raw.pragma_update(None, "synchronous", "FULL").unwrap();
        raw.execute_batch(
            "CREATE TABLE row (id INTEGER PRIMARY KEY, value BLOB); INSERT INTO row VALUES (1, zeroblob(256));",
        )
        .unwrap();
        Self(raw)
    }

    /// Transactions a second, of so many.
    #[must_use]
    pub fn commits(&self, count: u64) -> f64 {
        let mut update = self.0.prepare("UPDATE row SET value = ?1 WHERE id = 1").unwrap();
        rate(count, || {
            for number in 0..count {
                update.execute([load::value(number)]).unwrap();
            }
        })
    }
}
