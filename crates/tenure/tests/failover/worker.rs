//! What a worker does: it stands for the office, and leads whenever it has won.
//!
//! It is told what to do by lines on its standard input, and says what happens to its session by lines on its standard output. When its input
//! is closed, it leaves.

use std::{path::PathBuf, pin::pin, sync::Arc, time::Duration};

use tenure::{
    cluster::{Cluster, Event, Leadership, will::WillProgram},
    store::{Commit, CommitError, Conflict, Env, Faults, Faulty, Key, Store},
};
use tokio::sync::mpsc;

use crate::{
    belief::Watched,
    ledger::{Belief, Ledger, Record, Testimony},
    scenario::Scenario,
    support::{
        process,
        worker::{self, LEAVE_TIME, run, say},
    },
};

/// What all workers of a cluster want.
const ELECTION: &str = "office";

/// Between two guarded commits: often enough to land between any two leaders, seldom enough to leave the machine to the others.
const COMMIT_PAUSE: Duration = Duration::from_millis(10);

/// What a worker needs to know, as its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) url: String,
    pub(crate) cluster: String,
    pub(crate) node: String,
    pub(crate) scenario: &'static Scenario,
    pub(crate) ledger: PathBuf,
}

impl process::Post for Post {
    fn name(&self) -> &str {
        &self.node
    }

    fn to_arguments(&self) -> Vec<String> {
        let ledger = self.ledger.display().to_string();
        vec![self.url.clone(), self.cluster.clone(), self.node.clone(), self.scenario.to_string(), ledger]
    }
}

impl Post {
    /// What the worker has believed so far.
    pub(crate) fn beliefs(&self) -> Vec<Belief> {
        Testimony { path: self.ledger.clone() }.read()
    }

    fn from_arguments(arguments: Vec<String>) -> Self {
        let [url, cluster, node, scenario, ledger] = arguments.try_into().expect("what a worker is told");
        Self { url, cluster, node, scenario: Scenario::named(&scenario), ledger: ledger.into() }
    }
}

/// The list that every leader of a cluster appends to.
pub(crate) fn commits(cluster: &str) -> Key {
    Key::from(format!("failover/{cluster}/commits").as_str())
}

/// What it is told that concerns its leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Resign,
    Leave,
}

pub(crate) fn main(arguments: Vec<String>) {
    let post = Post::from_arguments(arguments);
    run(serve(&post));
}

async fn serve(post: &Post) {
    let env = Env::system();
    let opened = tenure::open(&post.url).await.unwrap();
    let store = Arc::new(Faulty::new(opened, env.clone(), Faults::NONE));
    let mut told = listen(Arc::clone(&store));
    let mut settings = post.scenario.settings(&post.cluster, &post.node);
    if post.scenario.last_will {
        let program = WillProgram::new(env!("CARGO_BIN_EXE_tenure-will"), &post.url).unwrap();
        settings.last_will = Some(program);
    }
    let cluster = Cluster::join(Arc::clone(&store) as Arc<dyn Store>, settings).await.unwrap();
    tell_events(&cluster);
    say("joined");
    let mut ledger = Ledger::create(&post.ledger);
    let held = loop {
        let Some(leadership) = win(&cluster, &mut told).await else { break None };
        let Some(watched) = Watched::start(leadership, &mut ledger) else { continue };
        if let Some(held) = lead(watched, post, &store, &mut told).await {
            break Some(held);
        }
    };
    // If it can't be done in time, the store is away, and with it the test.
    let _ = env.timeout(LEAVE_TIME, cluster.leave()).await;
    // It is asked on until here: leaving must end the belief by itself.
    if let Some(mut held) = held {
        held.lost().await;
    }
}

/// Waits until it leads; `None` if it is to leave.
async fn win(cluster: &Cluster, told: &mut mpsc::UnboundedReceiver<Told>) -> Option<Leadership> {
    let election = cluster.election(ELECTION).unwrap();
    let mut campaign = pin!(election.campaign());
    loop {
        tokio::select! {
            won = &mut campaign => return Some(won.unwrap()),
            told = told.recv() => match told {
                // There is nothing to resign.
                Some(Told::Resign) => {}
                Some(Told::Leave) | None => return None,
            },
        }
    }
}

/// Leads until that is over. Returns what it holds when it is to leave.
async fn lead(
    mut watched: Watched,
    post: &Post,
    store: &Arc<Faulty>,
    told: &mut mpsc::UnboundedReceiver<Told>,
) -> Option<Watched> {
    let entry = format!("{} {}", watched.term, post.node);
    let commit = watched.guarded(Commit::new().append(commits(&post.cluster), entry));
    tokio::spawn(commit_until_refused(Arc::clone(store), commit, Arc::clone(&watched.record)));
    let told = tokio::select! {
        () = watched.lost() => return None,
        told = told.recv() => told,
    };
    if told == Some(Told::Resign) {
        watched.resign().await.unwrap();
        return None;
    }
    watched.record.give_up();
    Some(watched)
}

/// Makes one guarded commit after the other, whether the office is still held or not, until one is refused: the guard alone
/// must keep the late ones out.
async fn commit_until_refused(store: Arc<Faulty>, commit: Commit, record: Arc<Record>) {
    let env = Env::system();
    loop {
        match store.commit(commit.clone()).await {
            Ok(_) => record.committed(),
            Err(CommitError::Conflict(Conflict::Check { .. })) => return record.refused(),
            // The store is away, or busy.
            Err(_) => {}
        }
        env.sleep(COMMIT_PAUSE).await;
    }
}

/// Does what it reads.
fn listen(store: Arc<Faulty>) -> mpsc::UnboundedReceiver<Told> {
    let (tell, told) = mpsc::unbounded_channel();
    worker::listen(move |line| match line {
        Some("resign") => drop(tell.send(Told::Resign)),
        Some("cut") => store.cut(),
        Some("heal") => store.heal(),
        Some(other) => panic!("{other:?} is nothing that a worker does"),
        None => drop(tell.send(Told::Leave)),
    });
    told
}

fn tell_events(cluster: &Cluster) {
    let mut events = cluster.events();
    tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            match event {
                Event::Ended { cause, .. } => say(&format!("ended: {cause}")),
                Event::Joined { .. } => say("joined"),
                Event::Resumed { .. } => say("resumed"),
                other => say(&format!("{other:?}")),
            }
        }
    });
}
