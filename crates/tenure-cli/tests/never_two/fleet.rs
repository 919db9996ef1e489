//! [`Fleet`]: the nodes of one case, and the rounds that they go through.

use std::{fs::File, mem::take, thread, time::Duration};

use nix::sys::signal::Signal;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use tempfile::TempDir;
use tenure::store::Env;

use crate::{
    LOG, check,
    command::Style,
    fault::{Deck, Fault},
    log::{Family, Log, nanos},
    node::{Node, Post},
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

/// How many flaws are shown, of what may be hundreds.
const SHOWN_MAX: usize = 20;

/// What happened in a round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) fault: Fault,
    /// Who led before, and who after that.
    pub(crate) before: Family,
    pub(crate) after: Family,
}

/// The nodes of one case.
pub(crate) struct Fleet {
    place: Place,
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
    pub(crate) fn start(place: Place, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join(LOG)).unwrap();
        let mut fleet = Self {
            place,
            database: Database::start(place, NODES, folder.path()),
            nodes: Vec::new(),
            started: 0,
            deck: Deck::new(place),
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
        let ttl = Duration::from_millis(*TTLS_MS.choose(&mut self.dice).unwrap());
        let style = *Style::ALL.choose(&mut self.dice).unwrap();
        let post = Post { name, url: self.database.url(seat), ttl, style };
        Node::tenure(post, self.folder.path())
    }

    /// Lets something happen to whoever leads, mends everything, and waits until somebody leads.
    pub(crate) fn round(&mut self) {
        let (seat, family) = self.await_leader();
        let fault = self.deck.draw(self.nodes[seat].post.style, &mut self.dice);
        self.strike(fault, seat, &family);
        let mended = nanos(&self.env);
        let mut after = None;
        let well = within(PATIENCE, || {
            self.revive();
            self.log.read();
            let young = self.log.youngest().filter(|life| life.last > mended);
            let young = young.filter(|life| life.family != family || !fault.ends_life());
            after = young.map(|life| life.family.clone());
            after.is_some() && self.nodes.iter_mut().all(|node| !node.may_end && node.has_joined())
        });
        assert!(well, "nobody leads after {fault:?} of {family}\n{}", self.told());
        let after = after.expect("it was awaited");
        self.rounds.push(Round { fault, before: family, after });
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
            Fault::KillGuardian => {
                node.may_end = true;
                guardian.into_iter().for_each(|id| process::send(id, Signal::SIGKILL));
            }
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
            Fault::StopGuardian => {
                // It is taken for dead if it is needed meanwhile.
                guardian.into_iter().for_each(|id| pause(id, past));
                node.may_end = node.guardian() != guardian;
            }
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
                node.may_end = true;
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
                let (name, told) = (&node.post.name, node.errors());
                self.found.push(format!("{name} has ended by itself: {status}, it told:\n{}", tail(&told)));
            }
            self.nodes[seat] = self.node(seat);
        }
    }

    /// Ends all nodes, checks what is in the log, and returns what was measured.
    pub(crate) fn end(mut self) -> (Vec<String>, Row) {
        self.nodes.iter().for_each(|node| node.signal(Signal::SIGTERM));
        let ended = within(PATIENCE, || self.nodes.iter_mut().all(|node| node.ended().is_some()));
        assert!(ended, "nodes do not end\n{}", self.told());
        let folder = self.folder.path().display().to_string();
        let gone = within(REST, || process::with_argument(&folder).is_empty());
        let mut found = take(&mut self.found);
        if !gone {
            let left = process::with_argument(&folder).into_iter().map(process::arguments);
            found.push(format!("something is left of the commands: {:?}", left.collect::<Vec<_>>()));
        }
        // From the file alone.
        let mut log = Log::open(&self.folder.path().join(LOG));
        log.read();
        found.extend(check::flaws(&log.lives));
        let flaws = found.len();
        found.truncate(SHOWN_MAX);
        if flaws > 0 {
            found.push(format!("{flaws} flaws. {}", self.told()));
        }
        (found, Row::new(self.place, &self.rounds, &log.lives))
    }

    /// What happened lately, for whoever has to find out why.
    fn told(&self) -> String {
        let rounds = self.rounds.iter().enumerate().map(|(number, round)| {
            let Round { fault, before, after } = round;
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
