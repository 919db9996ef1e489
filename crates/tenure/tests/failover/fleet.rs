//! [`Fleet`]: the workers of one case, and the rounds that they go through.

use std::{
    mem::{replace, take},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tenure::store::{Entry, Env, Read};

use crate::{
    check,
    ledger::{Belief, End},
    scenario::{Fault, Scenario},
    support::{
        place::Place,
        process::{self, PATIENCE, until, within},
    },
    table::Measured,
    worker::{self, Post},
};

type Worker = process::Worker<Post>;

const WORKERS: usize = 3;

/// Before something happens to a new leader, so that all have found their places: at least, and how much more by chance, so that faults
/// hit every phase of the renewals.
const SETTLE_TIME: Duration = Duration::from_millis(200);
const SETTLE_CHANCE: Duration = Duration::from_millis(350);

/// After how long without a leader it is clear that the stopped one holds the file. With a ttl of a second, others need less than half of it.
const STALL_TIME: Duration = Duration::from_secs(4);

/// How long a leader of the past may go on to commit before it is refused: until its next commit, if all is well.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// How many flaws are shown, of what may be hundreds.
const SHOWN_MAX: usize = 20;

/// As many commits as are read at once.
const PAGE: usize = 1000;

/// The workers of one case.
#[derive(Debug)]
pub(crate) struct Fleet {
    place: Place,
    scenario: &'static Scenario,
    url: String,
    cluster: String,
    workers: Vec<Worker>,
    /// How many workers there ever were.
    started: usize,
    /// What the workers that were killed have left.
    left: Vec<Belief>,
    /// What was found wrong already.
    found: Vec<String>,
    env: Env,
    folder: TempDir,
}

/// What came of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Measured(Measured),
    /// The leader had changed before anything happened to it.
    Unprovoked,
    /// Nobody could lead, since the leader was stopped while it was writing to the file that they share.
    Stalled,
}

impl Fleet {
    pub(crate) fn start(place: Place, scenario: &'static Scenario) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::system();
        let mut fleet = Self {
            place,
            scenario,
            url: place.url(folder.path()),
            // Servers may be older than this run.
            cluster: format!("failover-{:016x}", env.random_u64()),
            workers: Vec::new(),
            started: 0,
            left: Vec::new(),
            found: Vec::new(),
            env,
            folder,
        };
        for number in 0..WORKERS {
            let worker = fleet.worker(&format!("worker-{number}"));
            fleet.workers.push(worker);
        }
        fleet
    }

    /// One more worker, with a ledger of its own.
    fn worker(&mut self, node: &str) -> Worker {
        let ledger = self.folder.path().join(format!("{node}-process-{}", self.started));
        self.started += 1;
        let (url, cluster, node) = (self.url.clone(), self.cluster.clone(), node.to_owned());
        let worker = Worker::start(Post { url, cluster, node, scenario: self.scenario, ledger });
        worker.await_line("joined");
        worker
    }

    /// Lets the fault happen to the leader, waits for the next one, and mends everything.
    pub(crate) fn round(&mut self) -> Outcome {
        self.workers.iter_mut().for_each(Worker::assert_alive);
        let (leader, before) = self.await_leader();
        thread::sleep(SETTLE_TIME + self.env.random_time(SETTLE_CHANCE));
        if self.leader().is_none_or(|(_, now)| now.term != before.term || now.first != before.first) {
            return Outcome::Unprovoked;
        }
        let fault = self.env.now().since_start();
        self.strike(leader);
        let next = self.await_next(&before);
        let before = self.latest(&before);
        self.mend(leader);
        let Some(next) = next else { return Outcome::Stalled };
        if matches!(self.scenario.fault, Fault::Stop | Fault::Cut) {
            // Its session has ended, and it begins another by itself.
            self.workers[leader].await_line("joined");
        }
        if !matches!(self.scenario.fault, Fault::Kill | Fault::KillAll) {
            // It goes on to commit in its old term, until it is refused.
            if !within(REFUSAL_TIME, || self.latest(&before).refused) {
                self.found.push(format!("the commits of a leader of the past are accepted: {before:?}"));
            }
        }
        if next.first < fault {
            return Outcome::Unprovoked;
        }
        let measured = Measured { gap: next.first.saturating_sub(before.last), outage: next.first - fault };
        let ttl = self.scenario.ttl();
        assert!(
            !self.scenario.voids_deadline() || measured.outage < ttl / 2,
            "others had to wait for the ttl of {ttl:?}: {measured:?}, {before:?}, {next:?}"
        );
        Outcome::Measured(measured)
    }

    fn strike(&mut self, leader: usize) {
        drop(self.workers[leader].said());
        match self.scenario.fault {
            Fault::Resign => self.workers[leader].tell("resign"),
            Fault::Kill => self.workers[leader].kill(),
            Fault::KillAll => {
                self.workers.iter_mut().for_each(Worker::kill);
                (0..WORKERS).for_each(|number| self.start_again(number));
            }
            Fault::Stop => self.workers[leader].signal(Signal::SIGSTOP),
            Fault::Cut => self.workers[leader].tell("cut"),
        }
    }

    fn mend(&mut self, leader: usize) {
        match self.scenario.fault {
            Fault::Resign | Fault::KillAll => {}
            Fault::Kill => self.start_again(leader),
            Fault::Stop => self.workers[leader].signal(Signal::SIGCONT),
            Fault::Cut => self.workers[leader].tell("heal"),
        }
    }

    /// Starts a worker again that was killed, under its old name.
    fn start_again(&mut self, number: usize) {
        let node = self.workers[number].post.node.clone();
        let again = self.worker(&node);
        let killed = replace(&mut self.workers[number], again);
        self.left.extend(killed.post.beliefs());
    }

    /// Who leads and has committed something, if anybody does.
    fn leader(&self) -> Option<(usize, Belief)> {
        let beliefs = self.workers.iter().map(|worker| worker.post.beliefs()).enumerate();
        let beliefs =
            beliefs.flat_map(|(number, beliefs)| beliefs.into_iter().map(move |belief| (number, belief)));
        beliefs
            .max_by_key(|(_, belief)| (belief.term, belief.first))
            .filter(|(_, belief)| belief.end == End::None && belief.commits > 0)
    }

    fn await_leader(&self) -> (usize, Belief) {
        let mut found = None;
        until("somebody leads and commits", || {
            found = self.leader();
            found.is_some()
        });
        found.expect("it was awaited")
    }

    /// The leader after this one, once it has committed something; none if nobody can lead because the file is being written.
    fn await_next(&self, before: &Belief) -> Option<Belief> {
        let may_stall = self.place == Place::Sqlite && self.scenario.fault == Fault::Stop;
        let mut next = None;
        let come = within(if may_stall { STALL_TIME } else { PATIENCE }, || {
            let beliefs = self.workers.iter().flat_map(|worker| worker.post.beliefs());
            let later = beliefs.filter(|belief| belief.term > before.term && belief.commits > 0);
            next = later.min_by_key(|belief| belief.term);
            next.is_some()
        });
        assert!(come || may_stall, "nobody has followed {before:?} within {PATIENCE:?}");
        next
    }

    /// What has become of a belief.
    fn latest(&self, belief: &Belief) -> Belief {
        let all =
            self.left.iter().cloned().chain(self.workers.iter().flat_map(|worker| worker.post.beliefs()));
        let mut same = all.filter(|other| other.worker == belief.worker && other.first == belief.first);
        same.next().expect("what is in a ledger stays there")
    }

    /// Lets everybody leave, and checks all that they left behind.
    pub(crate) fn end(mut self) {
        self.workers.iter_mut().for_each(Worker::assert_alive);
        self.workers.iter_mut().for_each(Worker::dismiss);
        let unable: Vec<String> = self.workers.iter_mut().filter_map(Worker::await_end).collect();
        let mut beliefs = take(&mut self.left);
        beliefs.extend(self.workers.iter().flat_map(|worker| worker.post.beliefs()));
        let landed = self.landed();
        let mut found = take(&mut self.found);
        found.extend(unable);
        found.extend(check::all(&beliefs, &landed, self.scenario.voids_deadline()));
        let (beliefs, commits, flaws) = (beliefs.len(), landed.len(), found.len());
        found.truncate(SHOWN_MAX);
        assert!(flaws == 0, "{beliefs} beliefs, {commits} commits, {flaws} flaws:\n{}", found.join("\n"));
    }

    /// The terms of all commits that landed, in their order.
    fn landed(&self) -> Vec<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = tenure::open(&self.url).await.unwrap();
            let mut entries: Vec<Entry> = Vec::new();
            loop {
                let (list, after) =
                    (worker::commits(&self.cluster), entries.last().map(|entry| entry.id.clone()));
                let snapshot = store.read(vec![Read::List { list, after, limit: PAGE }]).await.unwrap();
                entries.extend(snapshot.list(0).items.iter().cloned());
                if !snapshot.list(0).more {
                    return entries.iter().map(term).collect();
                }
            }
        })
    }
}

/// The term in which an entry was committed.
fn term(entry: &Entry) -> u64 {
    let words = std::str::from_utf8(&entry.value).unwrap();
    words.split(' ').next().unwrap_or_default().parse().unwrap()
}
