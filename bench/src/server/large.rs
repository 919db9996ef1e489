//! A state of many entries, of which each call changes one.

use tenure_server::{CallOptions, Serve as _, ServerRef};
use tenure_store::{Env, Store as _};

use crate::{
    bench::Bench,
    crowd::{PATIENCE, Pace, Work, at_work},
    kinds::{Entry, Ledger},
};

pub(crate) fn measure(bench: &mut Bench) {
    let entries = bench.options.entries();
    let ledger: ServerRef<Ledger> = bench.cluster().server("large").unwrap();
    bench.runtime.block_on(fill(&ledger, entries, bench.counted.limits().commit_operations as u64 / 2));
    let mut sum = 0;
    for callers in [1, 32] {
        let name = format!("state of {entries} entries, {callers} callers");
        let measure = |bench: &Bench| bench.runtime.block_on(change(bench, &ledger, entries, callers, sum));
        let note = |work: &Work| {
            let each = |count: u64| count as f64 / work.messages.max(1) as f64;
            format!(
                "{:.2} parts, {:.0} bytes written a call",
                each(work.counts.parts),
                each(work.counts.bytes)
            )
        };
        bench.row(&name, measure, note);
        sum += bench.rows.last().map_or(0, |row| row.work.applied);
    }
}

/// As many entries in each commit as surely fit.
async fn fill(ledger: &ServerRef<Ledger>, entries: u64, each: u64) {
    let mut from = 0;
    while from < entries {
        let to = (from + each.min(5000)).min(entries);
        let options = CallOptions::default().timeout(PATIENCE);
        ledger.call_with(Entry::Fill(from, to), options).await.unwrap();
        from = to;
    }
}

async fn change(bench: &Bench, ledger: &ServerRef<Ledger>, entries: u64, callers: u64, before: u64) -> Work {
    let (env, asked) = (Env::system(), ledger.clone());
    let ask = move |_, _| {
        let (ledger, entry) = (asked.clone(), env.random_in(0..entries));
        async move {
            let options = CallOptions::default().timeout(PATIENCE);
            ledger.call_with(Entry::Add(entry), options).await.map(|_| ())
        }
    };
    let pace = Pace { callers, seconds: bench.options.seconds(), turns: u64::MAX, rests: false };
    let mut work = at_work(pace, &bench.counted, ask).await;
    work.applied = ledger.call(Entry::Sum).await.unwrap() - before;
    work
}
