//! [`Fleet`]: the processes of one case, and what happens to them.

use std::{
    mem::{replace, take},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tenure::{
    cluster::Cluster,
    prelude::Serve as _,
    store::{Env, Key, Moment, Store},
};

use crate::{
    check::{self, Book},
    journal::History,
    leftover::{self, Stage},
    log::{Log, SERVERS},
    sender::ACKNOWLEDGED,
    support::{
        place::Place,
        process::{self, until, within},
    },
    table::Row,
    trouble::{Database, Trouble},
    worker::{Post, Role, settings},
};

type Worker = process::Worker<Post>;

/// Who is there.
const ROLES: [Role; 7] =
    [Role::Consumer, Role::Consumer, Role::Consumer, Role::Sender, Role::Sender, Role::Sender, Role::Both];

/// Between two kills: at least, and how much more by chance.
const KILL_PAUSE: Duration = Duration::from_millis(50);
const KILL_CHANCE: Duration = Duration::from_millis(300);

/// How much more between two kills when answers get lost: that takes time as well.
const LOSS_PAUSE: Duration = Duration::from_millis(400);

/// How many messages are to be acknowledged for each kill before the next, and how long that is waited for: on a machine that is busy with other things, processes would be killed
/// before they did anything.
const MESSAGES_PER_KILL: usize = 4;
const PROGRESS_TIME: Duration = Duration::from_millis(1500);

/// Every so many kills a process is stopped until others have given it up, while the killing goes on.
const KILLS_PER_STOP: usize = 30;
const STOP_TIME: Duration = Duration::from_millis(2800);

/// Between two restarts of the store.
const RESTART_PAUSE: Duration = Duration::from_millis(1500);

/// How long everything goes on when all faults are over.
const CALM_TIME: Duration = Duration::from_millis(500);

/// How long it may take until nothing is left in the store that should not be: what has failed is tried again by then, and marks are removed.
const CLEAN_TIME: Duration = Duration::from_secs(15);

/// How many flaws are shown, of what may be thousands.
const SHOWN_MAX: usize = 20;

/// One of the cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) place: Place,
    pub(crate) trouble: Trouble,
    pub(crate) kills: usize,
    pub(crate) seed: u64,
}

/// The processes of one case.
#[derive(Debug)]
pub(crate) struct Fleet {
    case: Case,
    database: Database,
    cluster: String,
    seats: Vec<Seat>,
    /// The journals of all processes that ever were.
    journals: Vec<PathBuf>,
    stopped: Option<(usize, Moment)>,
    /// How many messages were acknowledged so far, as far as is known.
    acknowledged: usize,
    /// Decides what happens; when, is up to the machine.
    dice: Env,
    env: Env,
    row: Row,
    folder: TempDir,
}

/// A process, and whether it takes part by now.
#[derive(Debug)]
struct Seat {
    worker: Worker,
    joined: bool,
}

impl Fleet {
    pub(crate) fn start(case: Case, name: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::system();
        let mut fleet = Self {
            case,
            database: Database::start(case.place, case.trouble, folder.path()),
            // Servers may be older than this run.
            cluster: format!("torture-{:016x}", env.random_u64()),
            seats: Vec::new(),
            journals: Vec::new(),
            stopped: None,
            acknowledged: 0,
            dice: Env::simulated(case.seed),
            env,
            row: Row::new(name),
            folder,
        };
        for (number, role) in ROLES.into_iter().enumerate() {
            let worker = fleet.worker(&format!("{role:?}-{number}").to_lowercase(), role);
            fleet.seats.push(Seat { worker, joined: false });
        }
        fleet.await_joined();
        fleet
    }

    /// One more process, with a journal of its own.
    fn worker(&mut self, node: &str, role: Role) -> Worker {
        let process = self.journals.len() as u64;
        let journal = self.folder.path().join(format!("journal-{process}"));
        self.journals.push(journal.clone());
        let (url, cluster) = (self.database.url().to_owned(), self.cluster.clone());
        let (node, seed) = (node.to_owned(), self.dice.random_u64());
        Worker::start(Post { url, cluster, node, role, process, seed, journal })
    }

    /// All of it: faults, calm, and every check.
    pub(crate) fn run(mut self) -> Row {
        let start = self.env.now();
        self.torture();
        self.go_on();
        self.await_joined();
        thread::sleep(CALM_TIME);
        self.end(start)
    }

    fn torture(&mut self) {
        self.database.lose(true);
        let restarts = match self.case.trouble {
            Trouble::Restarts(restarts) => restarts,
            Trouble::None | Trouble::Proxy => 0,
        };
        for restart in 0..restarts {
            self.database.restart();
            self.row.restarts += 1;
            thread::sleep(RESTART_PAUSE + self.dice.random_time(KILL_CHANCE));
            for _ in 0..self.case.kills * (restart + 1) / restarts - self.case.kills * restart / restarts {
                self.kill();
            }
        }
        while self.row.kills < self.case.kills {
            if self.row.kills % KILLS_PER_STOP == KILLS_PER_STOP / 2 && self.stopped.is_none() {
                self.stop();
            }
            self.kill();
        }
        self.row.cuts = self.database.cuts();
        self.database.lose(false);
    }

    /// Kills one, and starts it again.
    fn kill(&mut self) {
        let victim = self.victim();
        let Post { node, role, .. } = self.seats[victim].worker.post.clone();
        self.seats[victim].worker.kill();
        let worker = self.worker(&node, role);
        drop(replace(&mut self.seats[victim], Seat { worker, joined: false }));
        self.row.kills += 1;
        if self.case.trouble == Trouble::Proxy {
            thread::sleep(LOSS_PAUSE);
        }
        thread::sleep(KILL_PAUSE + self.dice.random_time(KILL_CHANCE));
        within(PROGRESS_TIME, || {
            self.look();
            self.acknowledged >= MESSAGES_PER_KILL * self.row.kills
        });
    }

    fn stop(&mut self) {
        let victim = self.victim();
        self.seats[victim].worker.signal(Signal::SIGSTOP);
        self.stopped = Some((victim, self.env.now()));
        self.row.stops += 1;
    }

    /// Lets the one that was stopped go on.
    fn go_on(&mut self) {
        if let Some((stopped, _)) = self.stopped.take() {
            self.seats[stopped].worker.signal(Signal::SIGCONT);
        }
    }

    /// One of those who take part.
    fn victim(&mut self) -> usize {
        let mut joined = Vec::new();
        until("somebody takes part", || {
            if self.stopped.is_some_and(|(_, since)| self.env.now() - since > STOP_TIME) {
                self.go_on();
            }
            self.look();
            let stopped = self.stopped.map(|(stopped, _)| stopped);
            joined = (0..self.seats.len())
                .filter(|number| self.seats[*number].joined && Some(*number) != stopped)
                .collect();
            !joined.is_empty()
        });
        joined[usize::try_from(self.dice.random_in(0..joined.len() as u64)).expect("there are few")]
    }

    /// Finds out who takes part, and that nobody has ended by itself.
    fn look(&mut self) {
        for seat in &mut self.seats {
            seat.worker.assert_alive();
            for line in seat.worker.said() {
                seat.joined |= line == "joined";
                self.acknowledged += usize::from(line == ACKNOWLEDGED);
            }
        }
    }

    fn await_joined(&mut self) {
        until("all take part", || {
            self.look();
            self.seats.iter().all(|seat| seat.joined)
        });
    }

    /// Lets everybody finish and leave, and checks all that they left behind.
    fn end(mut self, start: Moment) -> Row {
        for seat in self.seats.iter().filter(|seat| seat.worker.post.role.sends()) {
            seat.worker.tell("rest");
        }
        for seat in self.seats.iter().filter(|seat| seat.worker.post.role.sends()) {
            seat.worker.await_line("resting");
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (mut found, books) = runtime.block_on(self.look_into_store());
        let mut history = History::default();
        take(&mut self.journals).iter().for_each(|journal| history.add(journal));
        found.extend(check::all(&history, &books));
        self.row.count(&history, &books);
        self.row.time = self.env.now() - start;
        if self.row.acknowledged() < self.case.kills {
            found.push("too little was acknowledged to show anything".to_owned());
        }
        let (flaws, row) = (found.len(), self.row.clone());
        found.truncate(SHOWN_MAX);
        assert!(flaws == 0, "{row}\n{flaws} flaws, with seed {}:\n{}", self.case.seed, found.join("\n"));
        row
    }

    /// Waits until all is done, reads what the servers hold, lets everybody leave, and looks at what remains.
    async fn look_into_store(&mut self) -> (Vec<String>, Vec<Book>) {
        let store = tenure::open(self.database.url()).await.unwrap();
        let driver = Cluster::join(Arc::clone(&store), settings(&self.cluster, "driver")).await.unwrap();
        let mut found = self.await_clean(&*store, |keys| leftover::flaws(keys, Stage::Idle)).await;
        let mut books = Vec::new();
        for id in SERVERS {
            let log = driver.server::<Log>(id).unwrap();
            books.push(log.read(book).await.unwrap());
            if let Some(status) =
                log.status().await.unwrap().filter(|it| it.waiting > 0 || it.is_locked || it.died > 0)
            {
                found.push(format!("server {id} is not done: {status:?}"));
            }
        }
        self.seats.iter_mut().for_each(|seat| seat.worker.dismiss());
        found.extend(self.seats.iter_mut().filter_map(|seat| seat.worker.await_end()));
        // The sessions of those who were killed last end by and by, as long as somebody is there to end them.
        let alone = |keys: &[Key]| match leftover::sessions(keys) {
            1 => Vec::new(),
            count => vec![format!("{count} sessions are there, though only one node is")],
        };
        found.extend(self.await_clean(&*store, alone).await);
        driver.leave().await;
        found.extend(self.await_clean(&*store, |keys| leftover::flaws(keys, Stage::Gone)).await);
        (found, books)
    }

    /// Waits until there are no flaws in what the store holds. Returns those that there are all the same.
    async fn await_clean(&self, store: &dyn Store, flaws: impl Fn(&[Key]) -> Vec<String>) -> Vec<String> {
        let start = self.env.now();
        loop {
            let flaws = flaws(&leftover::keys(store, &self.cluster).await);
            if flaws.is_empty() || self.env.now() - start > CLEAN_TIME {
                return flaws;
            }
            self.env.sleep(KILL_PAUSE).await;
        }
    }
}

/// What a server holds.
fn book(pages: &<Log as tenure::server::Server>::State) -> Book {
    Book {
        next: pages.next,
        entries: pages.entries.iter().map(|(place, entry)| (*place, *entry)).collect(),
        work: pages.work.iter().map(|(id, work)| (*id, *work)).collect(),
    }
}
