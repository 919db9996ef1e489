//! Rates of commits and reads, beside bare transactions.

use std::{path::Path, sync::Arc};

use tenure_bench::{
    bare::BareSqlite,
    figures::{line, median, per_second, rate},
    load,
};
use tenure_sqlite::SqliteStore;
use tenure_store::Store;

const ROUNDS: usize = 7;
const COMMITS: u64 = 1500;
const COMMITTERS: u64 = 64;
const COMMITS_EACH: u64 = 300;
const READS: u64 = 10_000;

/// The rates of one round.
struct Round {
    raw: f64,
    one: f64,
    many: f64,
    read_one: f64,
    read_many: f64,
}

pub(crate) fn measure(dir: &Path) {
    let raw = BareSqlite::open(&dir.join("raw.db"));
    let runtime = tenure_bench::runtime();
    let url = format!("sqlite:{}", dir.join("rates.db").display());
    let sqlite = Arc::new(runtime.block_on(SqliteStore::open(&url)).unwrap());
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as _;
    runtime.block_on(load::fill(&store));
    let before = sqlite.stats();
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|_| Round {
            raw: raw.commits(COMMITS),
            one: rate(COMMITS, || runtime.block_on(load::commits(&store, 1, COMMITS))),
            many: rate(COMMITTERS * COMMITS_EACH, || {
                runtime.block_on(load::commits(&store, COMMITTERS, COMMITS_EACH));
            }),
            read_one: rate(READS, || runtime.block_on(load::reads(&store, 1, READS))),
            read_many: rate(READS, || runtime.block_on(load::reads(&store, COMMITTERS, READS / COMMITTERS))),
        })
        .collect();
    let stats = sqlite.stats();

    let figure = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick).collect());
    let beside = |pick: fn(&Round) -> f64, what: &str| format!("{:.2} of {what}", figure(pick));
    line("bare SQLite, one row a transaction (the raw limit)", per_second(figure(|r| r.raw)), String::new());
    line("commits, 1 committer", per_second(figure(|r| r.one)), beside(|r| r.one / r.raw, "the raw limit"));
    line(
        "commits, 64 committers",
        per_second(figure(|r| r.many)),
        beside(|r| r.many / r.one, "those of 1 committer"),
    );
    let alone = ROUNDS as u64 * COMMITS;
    let grouped = stats.commits - before.commits - alone;
    let flushes = stats.transactions - before.transactions - alone;
    line("commits a flush, 64 committers", format!("{:.1}", grouped as f64 / flushes as f64), String::new());
    line("reads by key, 1 reader", per_second(figure(|r| r.read_one)), String::new());
    line("reads by key, 64 readers", per_second(figure(|r| r.read_many)), String::new());
}
