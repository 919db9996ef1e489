//! What a worker does: it takes part in the registry until it is told to leave.
//!
//! It is told to rest, and then changes no more names; to list them all, into a file; when its input is closed, it leaves.

use std::{
    collections::hash_map::DefaultHasher,
    fmt::Write as _,
    hash::{Hash as _, Hasher as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tenure::{
    cluster::{Cluster, Settings, peer::LinkSettings, will::WillProgram},
    registry::{Query, Registries as _, Registry},
    store::Env,
};
use tokio::sync::{mpsc, watch};

use crate::{
    journal::Journal,
    rivals::Rival,
    support::{
        process,
        worker::{LEAVE_TIME, listen, run, say},
    },
};

/// So long that no session ends but by the last will of its process.
const TTL: Duration = Duration::from_secs(15);

/// How many tasks of a process register its share, fight for names, and look.
const KEEPERS: u64 = 64;
const FIGHTERS: u64 = 4;
const LOOKERS: u64 = 4;

/// How often a worker tries to join, and the pause between: the session of the one before it may not have ended yet.
const JOIN_TRIES: usize = 400;
const JOIN_PAUSE: Duration = Duration::from_millis(20);

/// What a worker needs to know, as its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) url: String,
    pub(crate) cluster: String,
    pub(crate) node: String,
    /// Its share: every so many of all names, from this one on.
    pub(crate) first: u64,
    pub(crate) step: u64,
    pub(crate) names: u64,
    pub(crate) seed: u64,
    pub(crate) journal: PathBuf,
}

impl process::Post for Post {
    fn name(&self) -> &str {
        &self.node
    }

    fn to_arguments(&self) -> Vec<String> {
        let numbers = [self.first, self.step, self.names, self.seed].map(|number| number.to_string());
        let mut all = vec![self.url.clone(), self.cluster.clone(), self.node.clone()];
        all.extend(numbers);
        all.push(self.journal.display().to_string());
        all
    }
}

impl Post {
    fn from_arguments(arguments: Vec<String>) -> Self {
        let [url, cluster, node, first, step, names, seed, journal] =
            arguments.try_into().expect("what a worker is told");
        let number = |text: String| text.parse().unwrap();
        let (first, step, names, seed) = (number(first), number(step), number(names), number(seed));
        Self { url, cluster, node, first, step, names, seed, journal: journal.into() }
    }
}

pub(crate) fn main(arguments: Vec<String>) {
    run(work(&Post::from_arguments(arguments)));
}

async fn work(post: &Post) {
    let (resting, rest) = watch::channel(false);
    let (telling, mut told) = mpsc::unbounded_channel();
    listen(move |line| {
        if line.is_none() || line == Some("rest") {
            resting.send_replace(true);
        }
        // When nobody listens any more, the process is about to end.
        let _ = telling.send(line.map(str::to_owned));
    });
    let journal = Arc::new(Journal::create(&post.journal));
    let cluster = join(post).await;
    let session = cluster.session().id().to_string();
    journal.say(format_args!("node {} {session}", post.node));
    let registry = cluster.registry("names").await.unwrap();
    say("joined");
    tokio::spawn(tell_leading(registry.clone(), post.node.clone()));
    let rival = |task: u64| Rival {
        registry: registry.clone(),
        journal: Arc::clone(&journal),
        session: session.clone(),
        dice: Env::simulated(post.seed.wrapping_add(task)),
        rest: rest.clone(),
        names: post.names,
    };
    let fights: Vec<_> = (0..FIGHTERS).map(|task| tokio::spawn(rival(task).fight())).collect();
    let looks: Vec<_> = (0..LOOKERS).map(|task| tokio::spawn(rival(FIGHTERS + task).look())).collect();
    let share: Vec<u64> = (post.first..post.names).step_by(usize::try_from(post.step).unwrap()).collect();
    let part = share.len().div_ceil(usize::try_from(KEEPERS).unwrap()).max(1);
    let keeping: Vec<_> = share.chunks(part).map(|part| tokio::spawn(rival(0).keep(part.to_vec()))).collect();
    let mut kept = Vec::new();
    for keeping in keeping {
        kept.extend(keeping.await.unwrap());
    }
    say("filled");
    for task in fights.into_iter().chain(looks) {
        task.await.unwrap();
    }
    if cluster.session().id().to_string() != session {
        journal.say("flaw the session has lapsed: this machine was too slow for the test");
    }
    say("resting");
    while let Some(Some(line)) = told.recv().await {
        match line.split_once(' ') {
            Some(("list", path)) => say(&list(&registry, path)),
            _ => assert_eq!(line, "rest", "nothing else is told"),
        }
    }
    // If it can't be done in time, the store is away, and with it the test.
    let _ = Env::system().timeout(LEAVE_TIME, cluster.leave()).await;
    drop(kept);
}

/// Says whenever this node leads.
async fn tell_leading(registry: Registry, node: String) {
    let mut leaders = registry.leaders();
    while let Some(led) = leaders.next().await {
        if led.leader.is_some_and(|leader| leader.node == node) {
            say(&format!("leads {}", led.epoch));
        }
    }
}

/// Writes all names into a file, and says what it has written in one line.
fn list(registry: &Registry, path: &str) -> String {
    let page = registry.list(&Query::all(), None, usize::MAX - 1);
    let mut text = String::new();
    for entry in &page.entries {
        writeln!(text, "{} {} {}", entry.name(), entry.owner().session, entry.number()).unwrap();
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    std::fs::write(path, text).unwrap();
    format!("listed {} {} {}", page.position, page.entries.len(), hasher.finish())
}

/// Joins as soon as the session of whoever had this name before has ended.
async fn join(post: &Post) -> Cluster {
    let mut settings = Settings::new(&post.cluster, &post.node).unwrap().with_ttl(TTL);
    let mut links = LinkSettings::new("127.0.0.1:0".parse().unwrap());
    links.insecure_on_loopback = true;
    settings.links = Some(links);
    // Only the last will is to end the session of one that was killed: what is measured is how long that takes.
    settings.proof_of_death = false;
    settings.last_will = Some(WillProgram::new(env!("CARGO_BIN_EXE_tenure-will"), &post.url).unwrap());
    let store = tenure::open(&post.url).await.unwrap();
    let mut failed = String::new();
    for _ in 0..JOIN_TRIES {
        match Cluster::join(Arc::clone(&store), settings.clone()).await {
            Ok(cluster) => return cluster,
            Err(error) => failed = error.to_string(),
        }
        Env::system().sleep(JOIN_PAUSE).await;
    }
    panic!("{} could not join: {failed}", post.node);
}
