//! Casts in bulk, from another process, until the last one is applied.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_bench::counted::Counted;
use tenure_cluster::Cluster;
use tenure_server::{CallOptions, Serve as _, ServerError, ServerRef};
use tenure_store::Env;

use crate::{
    bench::Bench,
    crowd::{PATIENCE, Work},
    kinds::Counter,
    process::Task,
};

/// How many are sent at once.
const BATCH: u64 = 1000;

/// What a sender does when the queue is full.
const PAUSE: Duration = Duration::from_millis(5);

/// Casts to one server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Casts {
    count: u64,
}

pub(crate) fn measure(bench: &mut Bench) {
    let count = bench.options.casts();
    let task = Task::Cast(Casts { count });
    let name = format!("casts, {count} in batches of {BATCH}, until applied");
    let note =
        |work: &Work| format!("all sent after {:.1} of {:.1} s", work.sent.unwrap_or(0.0), work.seconds);
    bench.row(&name, |bench| bench.done_elsewhere(&task), note);
}

impl Casts {
    /// Sends all of them, and waits for a call behind them, whose answer shows that all are applied.
    pub(crate) async fn send(&self, cluster: &Cluster, counted: &Counted, ready: impl FnOnce()) -> Work {
        let env = Env::system();
        let server: ServerRef<Counter> = cluster.server("casts").unwrap();
        let options = || CallOptions::default().timeout(PATIENCE);
        server.call_with(0, options()).await.unwrap();
        ready();
        let (start, before, mut work) = (env.now(), counted.counts(), Work::default());
        while work.messages < self.count {
            let batch = BATCH.min(self.count - work.messages);
            match server.cast_all((0..batch).map(|_| 1)).await {
                Ok(()) => work.messages += batch,
                Err(ServerError::Full { .. }) => env.sleep(PAUSE).await,
                Err(error) => {
                    work.error = Some(error.to_string());
                    break;
                }
            }
        }
        work.sent = Some((env.now() - start).as_secs_f64());
        match server.call_with(0, options()).await {
            Ok(applied) => work.applied = applied,
            Err(error) => work.error = Some(error.to_string()),
        }
        work.seconds = (env.now() - start).as_secs_f64();
        work.counts = counted.counts() - before;
        println!("done");
        work
    }
}
