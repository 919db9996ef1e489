//! [`Crowd`]: callers at work, and [`Work`]: what came of it.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_bench::{
    counted::{Counted, Counts},
    figures::quantile,
};
use tenure_cluster::Cluster;
use tenure_server::{CallOptions, Serve as _, ServerError, ServerRef};
use tenure_store::Env;

use crate::kinds::Counter;

/// Longer than a call takes on any store, also on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Callers of counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Crowd {
    /// What the servers' names begin with: of each row its own.
    pub(crate) name: String,
    pub(crate) callers: u64,
    pub(crate) servers: u64,
    pub(crate) seconds: f64,
    /// Whether callers pause between calls, for long enough that everything is at rest.
    pub(crate) rests: bool,
}

/// How callers go about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) callers: u64,
    pub(crate) seconds: f64,
    /// How often each asks at most.
    pub(crate) turns: u64,
    pub(crate) rests: bool,
}

/// What came of a row.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) messages: u64,
    pub(crate) seconds: f64,
    /// How long half of the messages, and 99 of 100, took at most, in milliseconds.
    pub(crate) p50_p99: Option<(f64, f64)>,
    pub(crate) counts: Counts,
    /// How many messages the servers have applied, by their own states.
    pub(crate) applied: u64,
    /// The first error, if there was one.
    pub(crate) error: Option<String>,
    /// When the last of what was sent in bulk was durable, in seconds.
    pub(crate) sent: Option<f64>,
    /// The memory of the process at the end.
    pub(crate) resident_kib: Option<u64>,
}

impl Work {
    pub(crate) fn rate(&self) -> f64 {
        self.messages as f64 / self.seconds
    }
}

impl Crowd {
    fn servers(&self, cluster: &Cluster) -> Arc<Vec<ServerRef<Counter>>> {
        let server = |number| cluster.server(&format!("{}-{number}", self.name)).unwrap();
        Arc::new((0..self.servers).map(server).collect())
    }

    /// Lets every server answer once, so that the row begins with all of them in memory. Returns the sum of all.
    pub(crate) async fn look(&self, cluster: &Cluster) -> Result<u64, ServerError> {
        let servers = self.servers(cluster);
        let asked = servers.iter().cloned().map(|server| {
            tokio::spawn(async move { server.call_with(0, CallOptions::default().timeout(PATIENCE)).await })
        });
        let mut sum = 0;
        for answer in asked.collect::<Vec<_>>() {
            sum += answer.await.unwrap()?;
        }
        Ok(sum)
    }

    /// Calls for as long as was asked for.
    pub(crate) async fn call(&self, cluster: &Cluster, counted: &Counted) -> Work {
        let servers = self.servers(cluster);
        let Self { callers, seconds, rests, .. } = *self;
        at_work(Pace { callers, seconds, turns: u64::MAX, rests }, counted, move |caller, turn| {
            // Every caller goes through all servers in an order of its own.
            let at = (caller * 7919 + turn * 31) % servers.len() as u64;
            let server = servers[usize::try_from(at).unwrap()].clone();
            async move { server.call_with(1, CallOptions::default().timeout(PATIENCE)).await.map(|_| ()) }
        })
        .await
    }
}

/// Callers ask, one question after another, as long as their pace says. What they have begun they finish.
pub(crate) async fn at_work<Asking>(
    pace: Pace,
    counted: &Counted,
    ask: impl Fn(u64, u64) -> Asking + Clone + Send + 'static,
) -> Work
where
    Asking: Future<Output = Result<(), ServerError>> + Send + 'static,
{
    let Pace { callers, seconds, turns, rests } = pace;
    let env = Env::system();
    let before = counted.counts();
    let start = env.now();
    let end = start.after(Duration::from_secs_f64(seconds));
    let working: Vec<_> = (0..callers)
        .map(|caller| {
            let (env, ask) = (env.clone(), ask.clone());
            tokio::spawn(async move {
                let (mut times, mut error) = (Vec::new(), None);
                for turn in 0..turns {
                    if rests {
                        // At no particular moment of anybody's poll.
                        env.sleep(Duration::from_millis(10 + turn * 7 % 23)).await;
                    }
                    let asked = env.now();
                    if asked >= end {
                        break;
                    }
                    match ask(caller, turn).await {
                        Ok(()) => times.push((env.now() - asked).as_secs_f64() * 1e3),
                        Err(met) => {
                            error = Some(met.to_string());
                            break;
                        }
                    }
                }
                (times, error)
            })
        })
        .collect();
    let (mut times, mut work) = (Vec::new(), Work::default());
    for one in working {
        let (took, error) = one.await.unwrap();
        times.extend(took);
        work.error = work.error.or(error);
    }
    work.seconds = (env.now() - start).as_secs_f64();
    work.counts = counted.counts() - before;
    work.messages = times.len() as u64;
    if !times.is_empty() {
        work.p50_p99 = Some((quantile(&mut times, 0.5), quantile(&mut times, 0.99)));
    }
    work
}
