//! Many servers that nobody uses: how long it takes to make them, and what they cost a process that serves them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};
use tenure_bench::{
    counted::{Counted, Counts},
    figures::resident_kib,
    load,
};
use tenure_cluster::Cluster;
use tenure_server::{CallOptions, Serve as _, ServerRef};
use tenure_store::Env;

use crate::{
    bench::Bench,
    crowd::{PATIENCE, Pace, Work, at_work},
    kinds::Counter,
    process::{self, Task},
};

/// What the row of a new process is called, which has the figure for its memory.
pub(crate) const TOUCHED: &str = "calling 1,000 of them in a new process, 20 callers";

/// How many are made at once.
const MAKERS: u64 = 256;

/// How many are used after all: by so many callers, each so many.
const CALLERS: u64 = 20;
const TURNS: u64 = 50;

/// Servers that nobody uses, but for some.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Touch {
    idle: u64,
}

pub(crate) fn measure(bench: &mut Bench) {
    let idle = bench.options.idle();
    bench.row(&format!("making {idle} servers, 256 at once"), |bench| make(bench, idle), |_| String::new());
    // All of them are the new process's.
    if let Some(cluster) = bench.cluster.take() {
        bench.runtime.block_on(cluster.leave());
    }
    let task = Task::Touch(Touch { idle });
    let measure = |bench: &Bench| process::done_elsewhere(&bench.url, &task, &Counts::default);
    bench.row(TOUCHED, measure, |work| {
        format!("{:.1} MiB with {idle} idle servers", work.resident_kib.unwrap_or(0) as f64 / 1024.0)
    });
}

fn server(cluster: &Cluster, number: u64) -> ServerRef<Counter> {
    cluster.server(&format!("idle-{number}")).unwrap()
}

/// Makes them all, by a cast to each.
fn make(bench: &Bench, idle: u64) -> Work {
    let (env, next, made) = (Env::system(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (start, before) = (env.now(), bench.counted.counts());
    bench.runtime.block_on(load::at_once(MAKERS, |_| {
        let (cluster, next, made) = (bench.cluster(), Arc::clone(&next), Arc::clone(&made));
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= idle {
                    return;
                }
                server(&cluster, number).cast(1).await.unwrap();
                made.fetch_add(1, Ordering::Relaxed);
            }
        }
    }));
    let applied = made.load(Ordering::Relaxed);
    let counts = bench.counted.counts() - before;
    Work { messages: idle, seconds: (env.now() - start).as_secs_f64(), counts, applied, ..Work::default() }
}

impl Touch {
    /// Serves all of them, and calls some, over the whole range.
    pub(crate) async fn run(&self, cluster: &Cluster, counted: &Counted, ready: impl FnOnce()) -> Work {
        cluster.serve::<Counter>().unwrap();
        // One more, so that the process is warm.
        cluster.server::<Counter>("warm").unwrap().call(1).await.unwrap();
        ready();
        let (asked, idle) = (cluster.clone(), self.idle);
        let answers = Arc::new(AtomicU64::new(0));
        let heard = Arc::clone(&answers);
        let ask = move |caller, turn| {
            let at = (caller * TURNS + turn) * (idle / (CALLERS * TURNS)).max(1) % idle;
            let (server, heard) = (server(&asked, at), Arc::clone(&heard));
            async move {
                let total = server.call_with(0, CallOptions::default().timeout(PATIENCE)).await?;
                heard.fetch_add(total, Ordering::Relaxed);
                Ok(())
            }
        };
        let pace = Pace { callers: CALLERS, seconds: f64::from(u32::MAX), turns: TURNS, rests: false };
        let mut work = at_work(pace, counted, ask).await;
        println!("done");
        // Each of them has got one cast, and says so.
        work.applied = answers.load(Ordering::Relaxed);
        work.resident_kib = Some(resident_kib());
        work
    }
}
