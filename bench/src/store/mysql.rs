//! The MySQL store beside a bare client: a checked update of one row, and a select of one row, both prepared.

use std::sync::Arc;

use mysql_async::{Conn, Opts, prelude::Queryable as _};

use crate::{
    figures::rate,
    load,
    server::{self, CROWD, Limit},
};

const UPDATES_EACH: u64 = 300;
const SELECTS_EACH: u64 = 1000;

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS tenure_bench (id BIGINT PRIMARY KEY, version BIGINT, value BLOB)";

pub(crate) fn measure(url: &str) {
    let runtime = server::runtime();
    let opts = Opts::from_url(url.split('?').next().unwrap()).unwrap();
    runtime.block_on(async {
        let mut conn = Conn::new(opts.clone()).await.unwrap();
        conn.query_drop(TABLE).await.unwrap();
        conn.query_drop("DELETE FROM tenure_bench").await.unwrap();
        for id in 0..CROWD {
            let row = (id, 0, load::value(id));
            conn.exec_drop("INSERT INTO tenure_bench VALUES (?, ?, ?)", row).await.unwrap();
        }
    });
    let crowd: Vec<Arc<tokio::sync::Mutex<Conn>>> = (0..CROWD)
        .map(|_| Arc::new(tokio::sync::Mutex::new(runtime.block_on(Conn::new(opts.clone())).unwrap())))
        .collect();
    let limit = Limit {
        name: "a bare client",
        commits: Box::new(|| {
            rate(CROWD * UPDATES_EACH, || {
                runtime.block_on(load::at_once(CROWD, |id| update(crowd_member(&crowd, id), id)));
            })
        }),
        reads: Box::new(|| {
            rate(CROWD * SELECTS_EACH, || {
                runtime.block_on(load::at_once(CROWD, |id| select(crowd_member(&crowd, id), id)));
            })
        }),
    };
    server::measure(&runtime, url, &limit);
    runtime.block_on(async {
        Conn::new(opts).await.unwrap().query_drop("DROP TABLE tenure_bench").await.unwrap();
    });
}

type Member = Arc<tokio::sync::Mutex<Conn>>;

fn crowd_member(crowd: &[Member], id: u64) -> Member {
    Arc::clone(&crowd[usize::try_from(id).unwrap()])
}

async fn update(member: Member, id: u64) {
    let mut conn = member.lock().await;
    let mut version: u64 =
        conn.exec_first("SELECT version FROM tenure_bench WHERE id = ?", (id,)).await.unwrap().unwrap();
    for number in 0..UPDATES_EACH {
        let statement = "UPDATE tenure_bench SET version = ?, value = ? WHERE id = ? AND version = ?";
        conn.exec_drop(statement, (version + 1, load::value(number), id, version)).await.unwrap();
        assert_eq!(conn.affected_rows(), 1);
        version += 1;
    }
}

async fn select(member: Member, id: u64) {
    let mut conn = member.lock().await;
    for number in 0..SELECTS_EACH {
        let id = (id + number) % CROWD;
        let statement = "SELECT version, value FROM tenure_bench WHERE id = ?";
        let found: Option<(u64, Vec<u8>)> = conn.exec_first(statement, (id,)).await.unwrap();
        assert!(found.is_some());
    }
}
