//! What ten thousand watches cost that wait for nothing.

use std::{path::Path, sync::Arc, time::Duration};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};
use tenure_bench::figures::{line, median, rate, resident_kib};
use tenure_sqlite::SqliteStore;
use tenure_store::{Commit, Env, Key, Range, Store as _, Watch};

const WATCHES: usize = 10_000;
const IDLE: Duration = Duration::from_secs(4);
const ROUNDS: usize = 7;
const COMMITS: u64 = 800;

pub(crate) fn measure(dir: &Path) {
    let runtime = tenure_bench::runtime();
    let url = format!("sqlite:{}", dir.join("watches.db").display());
    let store = Arc::new(runtime.block_on(SqliteStore::open(&url)).unwrap());
    let watch_all = || -> Vec<Watch> {
        (0..WATCHES).map(|n| store.watch(Range::Key(Key::from(format!("watched/{n}").as_str())))).collect()
    };

    let before = resident_kib();
    let watches = watch_all();
    let memory = (resident_kib() - before) as f64 * 1024.0 / WATCHES as f64;
    line("memory of an idle watch", format!("{memory:.0} bytes"), format!("measured over {WATCHES}"));
    let before = processor_us();
    runtime.block_on(Env::system().sleep(IDLE));
    let used = (processor_us() - before) as f64 / IDLE.as_micros() as f64;
    line(
        &format!("processor, {WATCHES} watches and nothing going on"),
        format!("{:.3} %", used * 100.0),
        "of one core".into(),
    );
    drop(watches);

    let commits = || rate(COMMITS, || runtime.block_on(commit_alone(&store)));
    let ratios = (0..ROUNDS).map(|_| {
        let without = commits();
        let _watches = watch_all();
        commits() / without
    });
    let ratio = median(ratios.collect());
    line(
        &format!("commits, 1 committer, beside {WATCHES} idle watches"),
        format!("{ratio:.2}"),
        "of those without".into(),
    );
}

async fn commit_alone(store: &SqliteStore) {
    for _ in 0..COMMITS {
        store.commit(Commit::new().set(Key::from("other"), "v")).await.unwrap();
    }
}

fn processor_us() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
}
