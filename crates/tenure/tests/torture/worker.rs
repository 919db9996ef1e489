//! What a worker does: it consumes, or sends, or both, until it is told to leave.
//!
//! It is told to rest, and then sends no more; when its input is closed, it leaves.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tenure::{
    cluster::{Cluster, Settings},
    prelude::Serve as _,
    store::Env,
};
use tokio::sync::watch;

use crate::{
    journal::Journal,
    log::{Id, Log, SERVERS},
    sender::Sender,
    support::{
        process,
        worker::{LEAVE_TIME, listen, run, say},
    },
};

/// Short, so that processes which are stopped are given up soon; those that are killed are known to be dead.
const TTL: Duration = Duration::from_secs(2);

/// How many tasks of a process send.
const TASKS: u64 = 2;

/// How often a worker tries to join a store that may be away, and the pause between.
const JOIN_TRIES: usize = 100;
const JOIN_PAUSE: Duration = Duration::from_millis(200);

/// What a worker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Consumer,
    Sender,
    /// It consumes, and sends as well, so that what it sends need not go through the queue.
    Both,
}

impl Role {
    const ALL: [Self; 3] = [Self::Consumer, Self::Sender, Self::Both];

    pub(crate) fn serves(self) -> bool {
        self != Self::Sender
    }

    pub(crate) fn sends(self) -> bool {
        self != Self::Consumer
    }
}

/// What a worker needs to know, as its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) url: String,
    pub(crate) cluster: String,
    pub(crate) node: String,
    pub(crate) role: Role,
    /// Which of all processes of the case it is.
    pub(crate) process: u64,
    pub(crate) seed: u64,
    pub(crate) journal: PathBuf,
}

impl process::Post for Post {
    fn name(&self) -> &str {
        &self.node
    }

    fn to_arguments(&self) -> Vec<String> {
        let (role, journal) = (format!("{:?}", self.role), self.journal.display().to_string());
        let (process, seed) = (self.process.to_string(), self.seed.to_string());
        vec![self.url.clone(), self.cluster.clone(), self.node.clone(), role, process, seed, journal]
    }
}

impl Post {
    fn from_arguments(arguments: Vec<String>) -> Self {
        let [url, cluster, node, role, process, seed, journal] =
            arguments.try_into().expect("what a worker is told");
        let role = Role::ALL.into_iter().find(|known| format!("{known:?}") == role).expect("a role");
        let (process, seed) = (process.parse().unwrap(), seed.parse().unwrap());
        Self { url, cluster, node, role, process, seed, journal: journal.into() }
    }
}

/// The settings of a node.
pub(crate) fn settings(cluster: &str, node: &str) -> Settings {
    Settings::new(cluster, node).unwrap().with_ttl(TTL)
}

pub(crate) fn main(arguments: Vec<String>) {
    run(work(&Post::from_arguments(arguments)));
}

async fn work(post: &Post) {
    let (resting, rest) = watch::channel(false);
    let (leaving, mut leave) = watch::channel(false);
    listen(move |line| match line {
        Some("rest") => drop(resting.send_replace(true)),
        Some(other) => panic!("{other:?} is nothing that a worker does"),
        None => {
            resting.send_replace(true);
            leaving.send_replace(true);
        }
    });
    let journal = Arc::new(Journal::create(&post.journal));
    let cluster = join(post).await;
    let serves = post.role.serves();
    let serving = serves
        .then(|| cluster.serve_with(Log { journal: Arc::clone(&journal), process: post.process }).unwrap());
    say("joined");
    if post.role.sends() {
        let dice = Env::simulated(post.seed);
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let logs = SERVERS.iter().map(|id| cluster.server(id).unwrap()).collect();
                let next = Id { process: post.process, task, number: 0 };
                let sender = Sender { logs, journal: Arc::clone(&journal), dice: dice.fork(), next };
                tokio::spawn(sender.run(rest.clone()))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        say("resting");
    }
    // The thread that listens lives as long as the process.
    leave.wait_for(|leave| *leave).await.unwrap();
    // The others just leave, which must do as well.
    if let Some(serving) = serving.filter(|_| post.role == Role::Both) {
        serving.stop().await.unwrap();
    }
    // If it can't be done in time, the store is away, and with it the test.
    let _ = Env::system().timeout(LEAVE_TIME, cluster.leave()).await;
}

/// Joins, even if the store is away for now.
async fn join(post: &Post) -> Cluster {
    let env = Env::system();
    let mut failed = String::new();
    for _ in 0..JOIN_TRIES {
        match tenure::open(&post.url).await {
            Ok(store) => match Cluster::join(store, settings(&post.cluster, &post.node)).await {
                Ok(cluster) => return cluster,
                Err(error) => failed = error.to_string(),
            },
            Err(error) => failed = error.to_string(),
        }
        env.sleep(JOIN_PAUSE).await;
    }
    panic!("{} could not join: {failed}", post.node);
}
