//! A bare client of MySQL: a checked update of one row, and a select of one row, both prepared.

use std::sync::Arc;

use mysql_async::{Conn, Opts, prelude::Queryable as _};
use tokio::{runtime::Runtime, sync::Mutex};

use crate::{figures::rate, load};

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS tenure_bench (id BIGINT PRIMARY KEY, version BIGINT, value BLOB)";

type Member = Arc<Mutex<Conn>>;

/// Clients with a connection and a row each. Their table goes with them.
#[derive(Debug)]
pub struct BareMysql<'a> {
    runtime: &'a Runtime,
    opts: Opts,
    crowd: Vec<Member>,
}

impl<'a> BareMysql<'a> {
    /// Connects so many clients, and makes their table.
    #[must_use]
    pub fn connect(runtime: &'a Runtime, url: &str, clients: u64) -> Self {
        let opts = Opts::from_url(url.split('?').next().unwrap()).unwrap();
        runtime.block_on(async {
            let mut conn = Conn::new(opts.clone()).await.unwrap();
            conn.query_drop(TABLE).await.unwrap();
            conn.query_drop("DELETE FROM tenure_bench").await.unwrap();
            for id in 0..clients {
                let row = (id, 0, load::value(id));
                conn.exec_drop("INSERT INTO tenure_bench VALUES (?, ?, ?)", row).await.unwrap();
            }
        });
        let connect = |_| Arc::new(Mutex::new(runtime.block_on(Conn::new(opts.clone())).unwrap()));
        let crowd = (0..clients).map(connect).collect();
        Self { runtime, opts, crowd }
    }

    /// Updates a second, of all clients at once that each make so many.
    #[must_use]
    pub fn commits(&self, each: u64) -> f64 {
        let clients = self.crowd.len() as u64;
        rate(clients * each, || {
            self.runtime.block_on(load::at_once(clients, |id| update(self.member(id), id, each)));
        })
    }

    /// Selects a second.
    #[must_use]
    pub fn reads(&self, each: u64) -> f64 {
        let clients = self.crowd.len() as u64;
        rate(clients * each, || {
            self.runtime.block_on(load::at_once(clients, |id| select(self.member(id), id, clients, each)));
        })
    }

    fn member(&self, id: u64) -> Member {
        Arc::clone(&self.crowd[usize::try_from(id).unwrap()])
    }
}

impl Drop for BareMysql<'_> {
    fn drop(&mut self) {
        self.runtime.block_on(async {
            Conn::new(self.opts.clone()).await.unwrap().query_drop("DROP TABLE tenure_bench").await.unwrap();
        });
    }
}

async fn update(member: Member, id: u64, each: u64) {
    let mut conn = member.lock().await;
    let mut version: u64 =
        conn.exec_first("SELECT version FROM tenure_bench WHERE id = ?", (id,)).await.unwrap().unwrap();
    for number in 0..each {
        let statement = "UPDATE tenure_bench SET version = ?, value = ? WHERE id = ? AND version = ?";
        conn.exec_drop(statement, (version + 1, load::value(number), id, version)).await.unwrap();
        assert_eq!(conn.affected_rows(), 1);
        version += 1;
    }
}

async fn select(member: Member, id: u64, clients: u64, each: u64) {
    let mut conn = member.lock().await;
    for number in 0..each {
        let id = (id + number) % clients;
        let statement = "SELECT version, value FROM tenure_bench WHERE id = ?";
        let found: Option<(u64, Vec<u8>)> = conn.exec_first(statement, (id,)).await.unwrap();
        assert!(found.is_some());
    }
}
