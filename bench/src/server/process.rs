//! Other processes: this program again, told by a line what to do, and telling by lines what came of it.
//!
//! 1. It is told its [`Task`], with the store's URL: not by an argument, which everybody on the machine could read.
//! 2. It says `ready` when it has joined the cluster and everything is warm.
//! 3. It is told to go, and says `done` when the last answer is there: both sides count what is between.
//! 4. It tells its [`Work`], and goes.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tenure_bench::counted::{Counted, Counts};
use tenure_cluster::{Cluster, Settings};
use tenure_store::Store;

use crate::{
    bench::CLUSTER,
    casts::Casts,
    crowd::{Crowd, Work},
    idle::Touch,
};

/// The first argument that makes this program a worker.
pub(crate) const WORKER: &str = "--worker";

/// What another process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Call counters.
    Call(Crowd),
    /// Send casts in bulk.
    Cast(Casts),
    /// Serve counters that nobody uses, and touch some.
    Touch(Touch),
}

/// Another process.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(url: &str, task: &Task) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut worker = Self { child, input, output: BufReader::new(output).lines() };
        worker.tell(&serde_json::to_string(&(url, task)).unwrap());
        worker
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        self.output.next().expect("a worker that has begun tells what came of it").unwrap()
    }
}

/// Has a task done by another process. What this process asks of its own store meanwhile is added.
pub(crate) fn done_elsewhere(url: &str, task: &Task, here: &dyn Fn() -> Counts) -> Work {
    let mut worker = Worker::start(url, task);
    assert_eq!(worker.hear(), "ready");
    let before = here();
    worker.tell("go");
    assert_eq!(worker.hear(), "done");
    let counts = here() - before;
    let mut work: Work = serde_json::from_str(&worker.hear()).unwrap();
    work.counts = work.counts + counts;
    worker.child.wait().unwrap();
    work
}

/// What a worker does.
pub(crate) fn work() {
    let mut input = std::io::stdin().lines().map(|line| line.unwrap());
    let (url, task): (String, Task) = serde_json::from_str(&input.next().unwrap()).unwrap();
    let runtime = tenure_bench::runtime();
    let store = runtime.block_on(tenure::open(&url)).unwrap();
    let counted = Arc::new(Counted::new(store, &CLUSTER.parse().unwrap()));
    let cluster = runtime.block_on(join(&counted, "worker"));
    let ready = || {
        println!("ready");
        input.next().unwrap();
    };
    let work = runtime.block_on(async {
        match task {
            Task::Call(crowd) => call(&crowd, &cluster, &counted, ready).await,
            Task::Cast(casts) => casts.send(&cluster, &counted, ready).await,
            Task::Touch(touch) => touch.run(&cluster, &counted, ready).await,
        }
    });
    println!("{}", serde_json::to_string(&work).unwrap());
    runtime.block_on(cluster.leave());
}

async fn call(crowd: &Crowd, cluster: &Cluster, counted: &Counted, ready: impl FnOnce()) -> Work {
    crowd.look(cluster).await.unwrap();
    ready();
    let mut work = crowd.call(cluster, counted).await;
    println!("done");
    work.applied = crowd.look(cluster).await.unwrap();
    work
}

/// Takes part in the cluster of this comparison.
pub(crate) async fn join(counted: &Arc<Counted>, node: &str) -> Cluster {
    let store = Arc::clone(counted) as Arc<dyn Store>;
    let mut settings = Settings::new(CLUSTER, node).unwrap();
    // One after another has this name.
    settings.take_over = true;
    Cluster::join(store, settings).await.unwrap()
}
