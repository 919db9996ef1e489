//! [`Fleet`]: the processes of one case, and what happens to them.

use std::{collections::BTreeMap, fs, mem::replace, path::PathBuf, thread, time::Duration};

use tempfile::TempDir;
use tenure::store::{Env, Moment};

use crate::{
    check,
    journal::{History, Outcome},
    support::{
        place::Place,
        process::{self, until, within},
    },
    table::Row,
    worker::Post,
};

type Worker = process::Worker<Post>;

/// Of a flaw, this much of the journals is shown: from so long before to so long after it, so many lines of each.
const AROUND_NS: u64 = 5_000_000_000;
const LINES_MAX: usize = 40;

/// How many processes there are.
const SEATS: u64 = 5;

/// Between a new leader and its end: at least, and how much more by chance.
const KILL_PAUSE: Duration = Duration::from_millis(100);
const KILL_CHANCE: Duration = Duration::from_millis(300);

/// How long all are waited for to have their shares again before the next leader is killed. On a machine that is busy, some are killed before they do.
const REFILL_TIME: Duration = Duration::from_secs(1);

/// How long a process may take to register its share, on a machine that is busy with other things.
const FILL_TIME: Duration = Duration::from_secs(240);

/// How long it may take until all nodes know the same names, and only those that are owned.
const SETTLE_TIME: Duration = Duration::from_secs(20);

/// Between two looks at that.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// How many flaws are shown, of what may be thousands.
const SHOWN_MAX: usize = 10;

/// One of the cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) place: Place,
    pub(crate) kills: u64,
    pub(crate) names: u64,
    pub(crate) seed: u64,
}

/// A process, and what it has said.
struct Seat {
    worker: Worker,
    filled: bool,
    resting: bool,
    /// The last epoch in which it led.
    leads: Option<u64>,
    listed: Option<String>,
}

/// A leader that was killed: its epoch, and when.
struct Kill {
    epoch: u64,
    before: u64,
}

/// The processes of one case.
pub(crate) struct Fleet {
    case: Case,
    url: String,
    cluster: String,
    seats: Vec<Seat>,
    kills: Vec<Kill>,
    /// The journals of all processes that ever were, and when those were killed that were.
    journals: Vec<(PathBuf, Option<(u64, u64)>)>,
    dice: Env,
    env: Env,
    start: Moment,
    folder: TempDir,
}

impl Fleet {
    pub(crate) fn start(case: Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::system();
        let mut fleet = Self {
            case,
            url: case.place.url(folder.path()),
            // Servers may be older than this run.
            cluster: format!("names-{:016x}", env.random_u64()),
            seats: Vec::new(),
            kills: Vec::new(),
            journals: Vec::new(),
            dice: Env::simulated(case.seed),
            start: env.now(),
            env,
            folder,
        };
        for first in 0..SEATS {
            let seat = fleet.seat(first);
            fleet.seats.push(seat);
        }
        fleet.await_filled();
        fleet
    }

    /// A new process for a seat, with a journal of its own.
    fn seat(&mut self, first: u64) -> Seat {
        let journal = self.folder.path().join(format!("journal-{}", self.journals.len()));
        self.journals.push((journal.clone(), None));
        let worker = Worker::start(Post {
            url: self.url.clone(),
            cluster: self.cluster.clone(),
            node: format!("node-{first}"),
            first,
            step: SEATS,
            names: self.case.names,
            seed: self.dice.random_u64(),
            journal,
        });
        Seat { worker, filled: false, resting: false, leads: None, listed: None }
    }

    pub(crate) fn run(mut self) -> Row {
        for _ in 0..self.case.kills {
            thread::sleep(KILL_PAUSE + self.dice.random_time(KILL_CHANCE));
            self.kill_leader();
            self.is_filled_within(REFILL_TIME);
        }
        self.await_filled();
        for seat in &self.seats {
            seat.worker.tell("rest");
        }
        until("all rest", || {
            self.hear();
            self.seats.iter().all(|seat| seat.resting)
        });
        let history = self.history();
        let mut flaws = self.await_settled(&history);
        flaws.extend(check::all(&history));
        self.seats.iter_mut().for_each(|seat| seat.worker.dismiss());
        flaws.extend(self.seats.iter_mut().filter_map(|seat| seat.worker.await_end()));
        let row = self.row(&history);
        let shown: Vec<String> =
            flaws.iter().take(SHOWN_MAX).map(|flaw| format!("{flaw}\n{}", self.explain(flaw))).collect();
        let (seed, shown) = (self.case.seed, shown.join("\n"));
        assert!(flaws.is_empty(), "{row}\nseed {seed}: {} flaws:\n{shown}", flaws.len());
        row
    }

    /// What the journals have about the name of a flaw, from around its time.
    fn explain(&self, flaw: &str) -> String {
        let Some(name) = flaw.split('"').find(|word| word.contains('/')) else { return String::new() };
        let time = flaw.split("from: ").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        let mut text = String::new();
        for (path, killed) in &self.journals {
            let journal = fs::read_to_string(path).unwrap_or_default();
            let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let claims: Vec<String> = journal
                .lines()
                .map(words)
                .filter(|line| line[0] == "ask" && line.last().is_some_and(|last| last == name))
                .map(|line| line[2].clone())
                .collect();
            let is_near = |line: &[String]| {
                let at = line.get(1).and_then(|at| at.parse::<u64>().ok());
                time.is_none_or(|time| at.is_some_and(|at| at.abs_diff(time) < AROUND_NS))
            };
            let near = journal.lines().filter(|line| {
                let line = words(line);
                is_near(&line)
                    && (line.iter().any(|word| word == name)
                        || line[0] != "see"
                            && line[0] != "call"
                            && line.get(2).is_some_and(|claim| claims.contains(claim)))
            });
            let near: Vec<&str> = near.take(LINES_MAX).collect();
            if !near.is_empty() {
                let who = journal.lines().next().unwrap_or_default();
                text += &format!("  {who}, killed {killed:?}\n    {}\n", near.join("\n    "));
            }
        }
        text
    }

    /// Hears what all have said.
    fn hear(&mut self) {
        for seat in &mut self.seats {
            seat.worker.assert_alive();
            for line in seat.worker.said() {
                match line.split_once(' ') {
                    Some(("leads", epoch)) => seat.leads = Some(epoch.parse().unwrap()),
                    Some(("listed", list)) => seat.listed = Some(list.to_owned()),
                    _ => match line.as_str() {
                        "filled" => seat.filled = true,
                        "resting" => seat.resting = true,
                        _ => {}
                    },
                }
            }
        }
    }

    fn await_filled(&mut self) {
        let filled = self.is_filled_within(FILL_TIME);
        assert!(filled, "a node could not register its share of the names within {FILL_TIME:?}");
    }

    fn is_filled_within(&mut self, time: Duration) -> bool {
        within(time, || {
            self.hear();
            self.seats.iter().all(|seat| seat.filled)
        })
    }

    /// Kills whoever leads, and starts another process in its place.
    fn kill_leader(&mut self) {
        let last = self.kills.last().map_or(0, |kill| kill.epoch);
        let mut leader = None;
        until("somebody leads", || {
            self.hear();
            let leads = |(place, seat): (usize, &Seat)| Some((seat.leads?, place));
            leader = self.seats.iter().enumerate().filter_map(leads).max().filter(|(epoch, _)| *epoch > last);
            leader.is_some()
        });
        let (epoch, place) = leader.expect("somebody leads");
        let before = self.now();
        let journal = self.seats[place].worker.post.journal.clone();
        self.seats[place].worker.kill();
        let killed = Some((before, self.now()));
        self.journals.iter_mut().filter(|(path, _)| *path == journal).for_each(|entry| entry.1 = killed);
        self.kills.push(Kill { epoch, before });
        let seat = self.seat(place as u64);
        drop(replace(&mut self.seats[place], seat));
    }

    fn now(&self) -> u64 {
        u64::try_from(self.env.now().since_start().as_nanos()).unwrap()
    }

    fn history(&self) -> History {
        let mut history = History::default();
        for (path, killed) in &self.journals {
            history.add(&fs::read_to_string(path).unwrap_or_default(), *killed);
        }
        history
    }

    /// Waits until all know the same names, and only those that are owned. Returns what is wrong all the same.
    fn await_settled(&mut self, history: &History) -> Vec<String> {
        let mut flaws = Vec::new();
        within(SETTLE_TIME, || {
            thread::sleep(LOOK_PAUSE);
            flaws = self.settled(history);
            flaws.is_empty()
        });
        flaws
    }

    fn settled(&mut self, history: &History) -> Vec<String> {
        let paths: Vec<PathBuf> =
            (0..self.seats.len()).map(|place| self.folder.path().join(format!("list-{place}"))).collect();
        for (seat, path) in self.seats.iter_mut().zip(&paths) {
            seat.listed = None;
            seat.worker.tell(&format!("list {}", path.display()));
        }
        until("all list their names", || {
            self.hear();
            self.seats.iter().all(|seat| seat.listed.is_some())
        });
        let first = &self.seats[0].listed;
        if let Some(other) = self.seats.iter().find(|seat| seat.listed != *first) {
            return vec![format!("nodes know different names: {first:?}, {:?}", other.listed)];
        }
        let text = fs::read_to_string(&paths[0]).unwrap();
        let mut found = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            found.insert(words[0].to_owned(), (words[1].to_owned(), words[2].parse().unwrap()));
        }
        check::end(history, &found)
    }

    fn row(&self, history: &History) -> Row {
        let mut row = Row::new(self.case, self.env.now() - self.start);
        let mut owned: Vec<(u64, u64)> = Vec::new();
        for claim in &history.claims {
            match &claim.outcome {
                Outcome::Own { at, epoch, .. } => owned.push((*at, *epoch)),
                Outcome::Taken { .. } => row.taken += 1,
                Outcome::Not(words) => *row.refused.entry(words.clone()).or_default() += 1,
                Outcome::Unknown => row.unknown += 1,
            }
        }
        owned.sort_unstable();
        row.acknowledged = owned.len();
        (row.looks, row.calls) = (history.looks.len(), history.calls.len());
        for kill in &self.kills {
            let from = owned.partition_point(|(at, _)| *at < kill.before);
            if let Some((at, _)) = owned[from..].iter().find(|(_, epoch)| *epoch > kill.epoch) {
                row.without.push(Duration::from_nanos(at - kill.before));
            }
        }
        row.without.sort();
        row
    }
}
