//! What is the same for all stores on a server: rates beside a limit, and how soon another process is woken.

use std::{sync::Arc, time::Duration};

use tenure_bench::{
    figures::{line, median, milliseconds, per_second, quantile, rate},
    load,
};
use tenure_store::{Commit, Env, Key, Range, Store, StoreExt as _};
use tokio::runtime::Runtime;

/// How many commit, and how many read, at once.
pub(crate) const CROWD: u64 = 32;

const ROUNDS: usize = 5;
const COMMITS_EACH: u64 = 300;
const READS_EACH: u64 = 1000;
const COMMITS_ALONE: u64 = 1000;
const READS_ALONE: u64 = 2000;
const WAKINGS: u64 = 300;

/// What a store is measured against: the rates of [`CROWD`] clients at once.
pub(crate) struct Limit<'a> {
    /// What it is.
    pub(crate) name: &'a str,
    /// Commits a second.
    pub(crate) commits: Box<dyn Fn() -> f64 + 'a>,
    /// Reads a second.
    pub(crate) reads: Box<dyn Fn() -> f64 + 'a>,
}

/// Measures the store at a URL beside its limit.
pub(crate) fn measure(runtime: &Runtime, url: &str, limit: &Limit<'_>) {
    let store = runtime.block_on(tenure::open(url)).unwrap();
    println!("{store}, values of 256 bytes, {CROWD} at once\n");
    runtime.block_on(load::fill(&store));
    rates(runtime, &store, limit);
    wakings(runtime, url, &store);
    runtime.block_on(store.commit(Commit::new().delete_range(Range::Prefix(Key::from("bench/"))))).unwrap();
}

fn rates(runtime: &Runtime, store: &Arc<dyn Store>, limit: &Limit<'_>) {
    let commits =
        || rate(CROWD * COMMITS_EACH, || runtime.block_on(load::commits(store, CROWD, COMMITS_EACH)));
    let reads = || rate(CROWD * READS_EACH, || runtime.block_on(load::reads(store, CROWD, READS_EACH)));
    let rounds = |ours: &dyn Fn() -> f64, theirs: &dyn Fn() -> f64| -> Vec<(f64, f64)> {
        (0..ROUNDS).map(|_| (theirs(), ours())).collect()
    };
    for (what, rounds) in
        [("commits", rounds(&commits, &limit.commits)), ("reads", rounds(&reads, &limit.reads))]
    {
        let theirs = median(rounds.iter().map(|(theirs, _)| *theirs).collect());
        let ours = median(rounds.iter().map(|(_, ours)| *ours).collect());
        let ratio = median(rounds.iter().map(|(theirs, ours)| ours / theirs).collect());
        line(&format!("{what}, {}", limit.name), per_second(theirs), String::new());
        line(&format!("{what}, ours"), per_second(ours), format!("{ratio:.2} of it"));
    }
    let alone = rate(COMMITS_ALONE, || runtime.block_on(load::commits(store, 1, COMMITS_ALONE)));
    line("commits, ours, one after another", per_second(alone), String::new());
    let alone = rate(READS_ALONE, || runtime.block_on(load::reads(store, 1, READS_ALONE)));
    line("reads, ours, one after another", per_second(alone), String::new());
}

/// From the acknowledgement of a commit to the waking of a watch that another store has, which shares nothing with it but the server.
fn wakings(runtime: &Runtime, url: &str, store: &Arc<dyn Store>) {
    let env = Env::system();
    let other = runtime.block_on(tenure::open(url)).unwrap();
    let key = Key::from("bench/watched");
    let mut delays: Vec<f64> = runtime.block_on(async {
        let mut watch = other.watch(Range::Key(key.clone()));
        watch.changed().await;
        let mut delays = Vec::new();
        for number in 0..WAKINGS {
            // At rest in between, longer than any poll: a waking from sleep, at no particular moment, is what is asked for.
            env.sleep(Duration::from_millis(20 + number % 37)).await;
            let version = store.commit(Commit::new().set(key.clone(), "v")).await.unwrap().version;
            let acknowledged = env.now();
            loop {
                watch.changed().await;
                let woken = env.now();
                if other.get(&key).await.unwrap().is_some_and(|found| found.version >= version) {
                    delays.push((woken - acknowledged).as_secs_f64());
                    break;
                }
            }
        }
        delays
    });
    let median = milliseconds(Duration::from_secs_f64(quantile(&mut delays, 0.5)));
    let worst = milliseconds(Duration::from_secs_f64(quantile(&mut delays, 0.99)));
    line("another process's waking, after the acknowledgement", median, format!("99 of 100 within {worst}"));
}
