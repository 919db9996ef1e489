//! [`Fleet`]: the nodes of one case, and the rounds that they go through.

use std::{fmt::Write as _, fs::File, mem::take, thread, time::Duration};

use nix::sys::signal::Signal;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use tempfile::TempDir;
use tenure::store::Env;

use crate::{
    LOG,
    check::{self, Flaw},
    command::Style,
    fault::{Deck, Fault},
    log::{Family, Log, nanos},
    node::{Node, Post, Program},
    process::{self, PATIENCE, within},
    store::{Database, Place},
    table::Row,
};

const NODES: usize = 3;

/// The ttl of a node is one of these, by chance.
const TTLS_MS: [u64; 4] = [1000, 1000, 1500, 2000];

/// How long a leader leads before something happens to it: at most. Often much less, so that faults hit what only
/// just begins.
const SETTLE_MS: u64 = 500;

/// How long after its last line a command is taken for one that lives.
const FRESH: Duration = Duration::from_millis(100);

/// How long something of the commands may be left after the last node has ended: as long as the grace of one that
/// was killed just before, at least.
const REST: Duration = Duration::from_secs(3);

/// `etcdctl` keeps leases of whole seconds, and none that are shorter.
const RIVAL_TTL: Duration = Duration::from_secs(2);

/// How long another of `etcdctl`'s commands is waited for, which need not come: a lease, and what the server takes to notice.
const RIVAL_PATIENCE: Duration = Duration::from_secs(15);

/// How long two of its commands may run at a time before one is ended.
const BOTH: Duration = Duration::from_millis(200);

/// How many flaws are shown, of what may be hundreds.
const SHOWN_MAX: usize = 20;

/// How many of them are explained, by what was written around them: in this time before and after, so many lines.
const EXPLAINED_MAX: usize = 3;
const AROUND: Duration = Duration::from_millis(300);
const LINES_MAX: usize = 120;

/// What happened in a round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) fault: Fault,
    /// When it began and was over, in nanoseconds since the machine was started.
    began: u64,
    ended: u64,
    /// Who led before, and who after that.
    pub(crate) before: Family,
    pub(crate) after: Family,
}

/// What came of a case.
pub(crate) struct Outcome {
    /// All that is wrong, with what is known of it.
    pub(crate) flaws: Vec<String>,
    /// What was done in the rounds in which something was.
    pub(crate) overlapped: Vec<Fault>,
    pub(crate) row: Row,
}

/// The nodes of one case.
pub(crate) struct Fleet {
    place: Place,
    program: Program,
    database: Database,
    nodes: Vec<Node>,
    /// How many nodes there ever were.
    started: usize,
    deck: Deck,
    dice: StdRng,
    log: Log,
    rounds: Vec<Round>,
    found: Vec<String>,
    env: Env,
    folder: TempDir,
}

impl Fleet {
    pub(crate) fn start(place: Place, program: Program, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join(LOG)).unwrap();
        let mut fleet = Self {
            place,
            program,
            database: Database::start(place, NODES, folder.path()),
            nodes: Vec::new(),
            started: 0,
            deck: Deck::new(place, program),
            // Each store its own sequence.
            dice: StdRng::seed_from_u64(seed ^ place as u64),
            log: Log::open(&folder.path().join(LOG)),
            rounds: Vec::new(),
            found: Vec::new(),
            env: Env::system(),
            folder,
        };
        for seat in 0..NODES {
            let node = fleet.node(seat);
            fleet.nodes.push(node);
        }
        fleet
    }

    fn node(&mut self, seat: usize) -> Node {
        let name = format!("node-{seat}-{}", self.started);
        self.started += 1;
        let ttl = match self.program {
            Program::Tenure => Duration::from_millis(*TTLS_MS.choose(&mut self.dice).unwrap()),
            Program::Etcdctl => RIVAL_TTL,
        };
        let mut styles = Style::ALL.to_vec();
        // What a rival's command starts, nobody would ever end.
        styles.retain(|style| self.program == Program::Tenure || !style.has_kin());
        let style = *styles.choose(&mut self.dice).unwrap();
        let post = Post { name, url: self.database.url(seat), ttl, style };
        Node::new(self.program, post, self.folder.path())
    }

    /// Lets something happen to whoever leads, mends everything, and waits until somebody leads.
    pub(crate) fn round(&mut self) {
        let (seat, family) = self.await_leader();
        let fault = self.deck.draw(self.nodes[seat].post.style, &mut self.dice);
        let began = nanos(&self.env);
        self.strike(fault, seat, &family);
        let mended = nanos(&self.env);
        let ours = self.program == Program::Tenure;
        let mut after = None;
        let well = within(if ours { PATIENCE } else { RIVAL_PATIENCE }, || {
            self.revive();
            self.log.read();
            let young = self.log.youngest().filter(|life| life.last > mended);
            let young = young.filter(|life| life.family != family || !fault.ends_life());
            after = young.map(|life| life.family.clone());
            after.is_some() && self.nodes.iter_mut().all(|node| !(ours && node.may_end) && node.has_joined())
        });
        assert!(well || !ours, "nobody leads after {fault:?} of {family}\n{}", self.told());
        let after = after.unwrap_or_else(|| family.clone());
        if !ours {
            self.end_old();
        }
        self.rounds.push(Round { fault, began, ended: nanos(&self.env), before: family, after });
    }

    /// Ends all commands but the youngest, after they had the time to meet it: their nodes do not.
    fn end_old(&mut self) {
        thread::sleep(BOTH);
        self.log.read();
        let (folder, young) = (self.folder.path().display().to_string(), self.log.youngest());
        let old = self.log.lives.iter().filter(|life| Some(&life.family) != young.map(|life| &life.family));
        // Process ids come again.
        let old = old
            .map(|life| life.family.command)
            .filter(|id| process::arguments(*id).iter().any(|word| word.contains(&folder)));
        old.for_each(|id| process::send(id, Signal::SIGKILL));
    }

    /// Whose command lives, after it had some time to do so.
    fn await_leader(&mut self) -> (usize, Family) {
        let settle = self.dice.random_range(0..SETTLE_MS);
        // Half of them are hit while they begin.
        let settle = if self.dice.random() { settle } else { settle / 20 };
        thread::sleep(Duration::from_millis(settle));
        let mut found = None;
        let come = within(PATIENCE, || {
            self.revive();
            self.log.read();
            let ready = self.nodes.iter_mut().all(Node::has_joined);
            let fresh = nanos(&self.env).saturating_sub(u64::try_from(FRESH.as_nanos()).unwrap());
            let young = self.log.youngest().filter(|life| life.last > fresh);
            found = young.and_then(|life| {
                let seat = self.nodes.iter().position(|node| node.post.name == life.family.node)?;
                Some((seat, life.family.clone()))
            });
            found.is_some() && ready
        });
        assert!(come, "nobody leads before round {}\n{}", self.rounds.len() + 1, self.told());
        found.expect("it was awaited")
    }

    /// Lets it happen, and ends what does not end by itself.
    fn strike(&mut self, fault: Fault, seat: usize, family: &Family) {
        let ttl = self.nodes[seat].post.ttl;
        let past = ttl.mul_f64(self.dice.random_range(1.1..1.6));
        let downtime = ttl.mul_f64(self.dice.random_range(0.0..1.5));
        let guardian_first: bool = self.dice.random();
        let longest = self.nodes.iter().map(|node| node.post.ttl).max().unwrap_or_default();
        let node = &mut self.nodes[seat];
        let guardian = node.guardian();
        let pause = |id: i32, time: Duration| {
            process::send(id, Signal::SIGSTOP);
            thread::sleep(time);
            process::send(id, Signal::SIGCONT);
        };
        match fault {
            Fault::Terminate => {
                node.may_end = true;
                node.signal(Signal::SIGTERM);
            }
            Fault::KillRun => node.kill(),
            Fault::KillGuardian => guardian.into_iter().for_each(|id| process::send(id, Signal::SIGKILL)),
            Fault::KillBoth => {
                let mut ids = vec![node.id()];
                ids.extend(guardian);
                if guardian_first {
                    ids.reverse();
                }
                ids.into_iter().for_each(|id| process::send(id, Signal::SIGKILL));
                node.kill();
            }
            Fault::KillCommand => process::send(family.command, Signal::SIGKILL),
            Fault::StopRun => pause(node.id(), past),
            // It is taken for dead if it is needed meanwhile.
            Fault::StopGuardian => guardian.into_iter().for_each(|id| pause(id, past)),
            Fault::StopGuardianKillRun => {
                guardian.into_iter().for_each(|id| process::send(id, Signal::SIGSTOP));
                node.kill();
                thread::sleep(past);
            }
            Fault::StopGuardianTerminate => {
                guardian.into_iter().for_each(|id| process::send(id, Signal::SIGSTOP));
                node.may_end = true;
                node.signal(Signal::SIGTERM);
            }
            Fault::StopGuardianCut => {
                guardian.into_iter().for_each(|id| process::send(id, Signal::SIGSTOP));
                self.database.cut(seat, true);
                thread::sleep(past);
                self.database.cut(seat, false);
            }
            Fault::StopCommand => pause(family.command, past),
            Fault::StopCommandKillRun => {
                process::send(family.command, Signal::SIGSTOP);
                node.kill();
            }
            Fault::KillStore => {
                self.database.kill();
                thread::sleep(downtime);
                self.database.restart();
            }
            Fault::FreezeStore => {
                let frozen = self.database.freeze();
                thread::sleep(longest + past - ttl);
                drop(frozen);
            }
            Fault::Cut => {
                self.database.cut(seat, true);
                thread::sleep(past);
                self.database.cut(seat, false);
            }
        }
    }

    /// Starts nodes again that have ended. They must not do so by themselves.
    fn revive(&mut self) {
        for seat in 0..NODES {
            let Some(status) = self.nodes[seat].ended() else { continue };
            let node = &self.nodes[seat];
            if !node.may_end {
                let (name, told, round) = (&node.post.name, tail(&node.errors()), self.rounds.len() + 1);
                let words =
                    format!("{name} has ended by itself in round {round}: {status}, it told:\n{told}");
                self.found.push(words);
            }
            self.nodes[seat] = self.node(seat);
        }
    }

    /// Ends all nodes, checks what is in the log, and returns what was found and measured.
    pub(crate) fn end(mut self) -> Outcome {
        let folder = self.folder.path().display().to_string();
        match self.program {
            Program::Tenure => self.nodes.iter().for_each(|node| node.signal(Signal::SIGTERM)),
            Program::Etcdctl => {
                self.nodes.iter_mut().for_each(Node::kill);
                process::with_argument(&folder).into_iter().for_each(|id| process::send(id, Signal::SIGKILL));
            }
        }
        let ended = within(PATIENCE, || self.nodes.iter_mut().all(|node| node.ended().is_some()));
        assert!(ended, "nodes do not end\n{}", self.told());
        let gone = within(REST, || process::with_argument(&folder).is_empty());
        let mut found = take(&mut self.found);
        if !gone {
            let left = process::with_argument(&folder).into_iter().map(process::arguments);
            found.push(format!("something is left of the commands: {:?}", left.collect::<Vec<_>>()));
        }
        // From the file alone.
        let mut log = Log::open(&self.folder.path().join(LOG));
        log.read();
        let overlaps = check::flaws(&log.lives);
        found.extend(overlaps.iter().map(|flaw| flaw.words.clone()));
        let flaws = found.len();
        found.truncate(SHOWN_MAX);
        found.extend(overlaps.iter().take(EXPLAINED_MAX).map(|flaw| self.explain(flaw)));
        if flaws > 0 {
            found.push(format!("{flaws} flaws. {}", self.told()));
        }
        let met =
            |round: &&Round| overlaps.iter().any(|flaw| flaw.from <= round.ended && round.began <= flaw.to);
        let overlapped = self.rounds.iter().filter(met).map(|round| round.fault).collect();
        Outcome { flaws: found, overlapped, row: Row::new(self.place, &self.rounds, &log.lives) }
    }

    /// All that is known of a flaw: what was done meanwhile, what the commands wrote around it, what their nodes told.
    fn explain(&self, flaw: &Flaw) -> String {
        let around = u64::try_from(AROUND.as_nanos()).unwrap();
        let (from, to) = (flaw.from.saturating_sub(around), flaw.to + around);
        let mut text = format!("--- {}, from {} to {} ns\n", flaw.words, flaw.from, flaw.to);
        for (number, round) in self.rounds.iter().enumerate() {
            let Round { fault, began, ended, before, after } = round;
            if *began <= to && from <= *ended {
                let _ = writeln!(
                    text,
                    "round {}, from {began} to {ended} ns: {fault:?} of {before}, then {after}",
                    number + 1
                );
            }
        }
        let written = std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
        let near: Vec<&str> = written
            .lines()
            .filter(|line| {
                let stamp = line.split(' ').nth(1).and_then(|stamp| stamp.parse().ok());
                stamp.is_some_and(|stamp: u64| from <= stamp && stamp <= to)
            })
            .collect();
        let _ = writeln!(text, "the commands wrote (word, ns, term, process, family), {} lines:", near.len());
        for line in near.iter().take(LINES_MAX) {
            let _ = writeln!(text, "  {line}");
        }
        for name in &flaw.nodes {
            // Those that have ended left their words, too.
            let told = std::fs::read_to_string(self.folder.path().join(format!("{name}.errors")))
                .unwrap_or_default();
            let _ = writeln!(text, "{name} told:\n{}", tail(&told));
        }
        text
    }

    /// What happened lately, for whoever has to find out why.
    fn told(&self) -> String {
        let rounds = self.rounds.iter().enumerate().map(|(number, round)| {
            let Round { fault, before, after, .. } = round;
            format!("{}. {fault:?} of {before}, then {after}", number + 1)
        });
        let rounds: Vec<String> = rounds.collect();
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| {
                let Post { name, style, ttl, .. } = &node.post;
                format!("{name} ({style}, {ttl:?}) told:\n{}", tail(&node.errors()))
            })
            .collect();
        format!("rounds on {}:\n{}\n{}", self.place, rounds.join("\n"), nodes.join("\n"))
    }
}

/// The end of what may be long.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_MAX)..].join("\n")
}
