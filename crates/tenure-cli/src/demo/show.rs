//! [`Show`]: the nodes, what happens to them, and what is found in the end.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tenure::store::{Env, Moment};
use tokio::sync::mpsc;

use super::{
    ledger::Ledger,
    nanos, node,
    process::{Place, Process},
    wire::{Order, Report},
};

/// The nodes.
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// Who speaks, beside the nodes.
const DAEMON: usize = NODES.len();

/// How many increments are under way at a time, and how often new ones are begun.
const CALLERS: usize = 8;
const CALL_PAUSE: Duration = Duration::from_millis(25);

/// An increment that was not acknowledged for so long is asked for again, elsewhere.
const PATIENCE: Duration = Duration::from_secs(10);

/// How soon another must lead. A death that can't be proven is noticed by the ttl, which is less.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(10);

/// How long all nodes may take to be there, and the last increments to be settled.
const START_LIMIT: Duration = Duration::from_secs(60);
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// How long who was killed stays away, at most: so that it can be seen.
const AWAY: Duration = Duration::from_secs(1);

/// Lines that wait to be heard.
const LINES_MAX: usize = 1024;

/// A node, as the demo knows it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) name: &'static str,
    pub(crate) process: Option<Process>,
    pub(crate) ready: bool,
    /// In which term it leads, and runs the singleton.
    pub(crate) leads: Option<u64>,
    pub(crate) works: Option<u64>,
    pub(crate) killed: Option<Moment>,
    /// Tells what its process says from what one before it said.
    life: u64,
}

/// A takeover.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) killed: &'static str,
    pub(crate) leader: &'static str,
    pub(crate) term: u64,
    pub(crate) took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Until all nodes are there.
    Starting { until: Moment },
    /// Until the leader is killed.
    Resting { from: Moment },
    /// Until another leads.
    Fallen { seat: usize, term: u64, at: Moment },
    /// Until all increments are acknowledged, and the counter was read.
    Settling { until: Moment, asked: bool },
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) value: Option<u64>,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// What went wrong beside that.
    pub(crate) flaws: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_well(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.flaws.is_empty()
    }
}

/// A line from a process.
struct Heard {
    seat: usize,
    life: u64,
    line: Option<String>,
}

/// The demo.
pub(crate) struct Show {
    pub(crate) place: Place,
    pub(crate) seats: Vec<Seat>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) ledger: Ledger,
    pub(crate) phase: Phase,
    pub(crate) names: usize,
    pub(crate) audited: Option<u64>,
    /// Where the dashboard is.
    pub(crate) address: Option<String>,
    pub(crate) pause: Duration,
    pub(crate) env: Env,
    rounds_max: Option<u32>,
    daemon: Process,
    lines: mpsc::Receiver<Heard>,
    speak: mpsc::Sender<Heard>,
    next_calls: Moment,
    turn: usize,
    /// Who leads, and since when, in nanoseconds on the boot-time clock.
    leader: Option<(usize, u64, u64)>,
    value: Option<u64>,
    flaws: Vec<String>,
}

impl Show {
    /// Starts all processes.
    ///
    /// # Errors
    /// When one can't be started.
    pub(crate) fn start(
        place: Place,
        rounds_max: Option<u32>,
        pause: Duration,
        env: &Env,
    ) -> anyhow::Result<Self> {
        let (speak, lines) = mpsc::channel(LINES_MAX);
        let words = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--node",
            "dashboard",
            "--log",
            "warn",
            "--cluster",
            &place.cluster,
        ];
        let daemon =
            Process::start(&words, &place, speak.clone(), |line| Heard { seat: DAEMON, life: 0, line })?;
        let now = env.now();
        let seats = NODES.map(|name| Seat {
            name,
            process: None,
            ready: false,
            leads: None,
            works: None,
            killed: None,
            life: 0,
        });
        let mut show = Self {
            seats: seats.into(),
            rounds: Vec::new(),
            ledger: Ledger::default(),
            phase: Phase::Starting { until: now.after(START_LIMIT) },
            names: 0,
            audited: None,
            address: None,
            env: env.clone(),
            next_calls: now,
            turn: 0,
            leader: None,
            value: None,
            flaws: Vec::new(),
            place,
            pause,
            rounds_max,
            daemon,
            lines,
            speak,
        };
        for seat in 0..NODES.len() {
            show.revive(seat)?;
        }
        Ok(show)
    }

    /// Whether all is known that there is to know.
    pub(crate) fn is_over(&self) -> bool {
        self.value.is_some()
    }

    /// Kills nobody any more, and comes to an end.
    pub(crate) fn stop(&mut self) {
        if !matches!(self.phase, Phase::Settling { .. }) {
            self.phase = Phase::Settling { until: self.env.now().after(SETTLE_LIMIT), asked: false };
        }
    }

    fn revive(&mut self, index: usize) -> anyhow::Result<()> {
        let seat = &mut self.seats[index];
        seat.life += 1;
        seat.killed = None;
        let life = seat.life;
        let words = [node::COMMAND, self.place.cluster.as_str(), seat.name];
        let heard = move |line| Heard { seat: index, life, line };
        seat.process = Some(Process::start(&words, &self.place, self.speak.clone(), heard)?);
        Ok(())
    }

    /// Hears what is said, or waits for a moment.
    ///
    /// # Cancel safety
    /// Nothing that was said is lost.
    pub(crate) async fn hear(&mut self) {
        let Ok(Some(first)) = self.env.timeout(CALL_PAUSE, self.lines.recv()).await else { return };
        self.note(first);
        while let Ok(more) = self.lines.try_recv() {
            self.note(more);
        }
    }

    fn note(&mut self, Heard { seat: index, life, line }: Heard) {
        if index == DAEMON {
            match line {
                Some(line) => {
                    let address = line.split_once("serving on ").map(|(_, address)| address.to_owned());
                    self.address = self.address.take().or(address);
                }
                None => self.flaws.push(format!("the daemon ended: {}", self.daemon.errors())),
            }
            return;
        }
        let seat = &mut self.seats[index];
        let present = seat.life == life;
        let Some(line) = line else {
            if present && seat.killed.is_none() {
                let why = seat.process.as_ref().map(Process::errors).unwrap_or_default();
                self.flaws.push(format!("{} ended by itself: {why}", seat.name));
            }
            // Nothing that it was asked for is answered any more: another is asked, under the same number.
            for number in self.ledger.asked_of(index) {
                self.ask(Some(number));
            }
            return;
        };
        let Ok(report) = serde_json::from_str::<Report>(&line) else { return };
        match report {
            Report::Counted { number, total } => self.ledger.acknowledge(number, total),
            Report::Uncounted { number, .. } => self.ask(Some(number)),
            Report::Names { count } => self.names = count,
            Report::Audited { total } => self.audited = Some(total),
            Report::Value { total } => self.value = Some(total),
            Report::Unread { why } => self.flaws.push(format!("the counter can't be read: {why}")),
            // What is left of one that was killed says nothing of the present.
            _ if !present || seat.killed.is_some() => {}
            Report::Ready => seat.ready = true,
            Report::Works { term } => {
                self.seats.iter_mut().for_each(|seat| seat.works = None);
                self.seats[index].works = Some(term);
            }
            Report::Leads { term, at } => {
                if self.leader.is_none_or(|(_, before, _)| term > before) {
                    self.leader = Some((index, term, at));
                    self.seats.iter_mut().for_each(|seat| seat.leads = None);
                    self.seats[index].leads = Some(term);
                } else {
                    self.flaws
                        .push(format!("{} leads in term {term}, which was over", self.seats[index].name));
                }
            }
            Report::Lost { term } => {
                if seat.leads == Some(term) {
                    seat.leads = None;
                }
            }
        }
    }

    /// Asks a node for an increment: a new one, or one that was asked for before.
    fn ask(&mut self, number: Option<u64>) {
        let now = self.env.now();
        for _ in 0..self.seats.len() {
            self.turn = (self.turn + 1) % self.seats.len();
            let seat = &mut self.seats[self.turn];
            let Some(process) = seat.process.as_mut().filter(|_| seat.ready) else { continue };
            let number = match number {
                Some(number) => {
                    self.ledger.ask_again(number, self.turn, now);
                    number
                }
                None => self.ledger.issue(self.turn, now),
            };
            process.tell(&order(&Order::Count { number }));
            return;
        }
        // Nobody is there: it is asked for again when it has waited for too long.
    }

    /// Does what is due.
    ///
    /// # Errors
    /// When a process can't be started or killed, or the nodes don't come.
    pub(crate) fn step(&mut self) -> anyhow::Result<Option<Verdict>> {
        let now = self.env.now();
        if now >= self.next_calls {
            self.next_calls = now.after(CALL_PAUSE);
            let early = Moment::ZERO.after(now.since_start().saturating_sub(PATIENCE));
            for number in self.ledger.asked_before(early) {
                self.ask(Some(number));
            }
            let may = !matches!(self.phase, Phase::Settling { .. } | Phase::Starting { .. });
            while may && self.ledger.open() < CALLERS {
                let before = self.ledger.open();
                self.ask(None);
                if self.ledger.open() == before {
                    break;
                }
            }
        }
        if !self.flaws.is_empty() && !matches!(self.phase, Phase::Settling { .. }) {
            self.stop();
        }
        for index in 0..self.seats.len() {
            let away = self.seats[index].killed.map(|at| now - at);
            let fallen = matches!(self.phase, Phase::Fallen { .. });
            if !fallen && away.is_some_and(|away| away >= AWAY.min(self.pause / 3)) {
                self.revive(index)?;
            }
        }
        self.step_phase(now)
    }

    fn step_phase(&mut self, now: Moment) -> anyhow::Result<Option<Verdict>> {
        let all_ready = self.seats.iter().all(|seat| seat.ready) && self.address.is_some();
        let leader = self.leader.filter(|(index, term, _)| self.seats[*index].leads == Some(*term));
        match self.phase {
            Phase::Starting { until } => {
                ensure!(now < until, "the nodes did not come within {START_LIMIT:?}");
                if all_ready && leader.is_some() {
                    self.phase = Phase::Resting { from: now };
                }
            }
            Phase::Resting { from } => {
                ensure!(
                    now < from.after(self.pause + START_LIMIT),
                    "not all nodes came back within {START_LIMIT:?}"
                );
                if let Some((index, term, _)) = leader.filter(|_| all_ready && now - from >= self.pause) {
                    let seat = &mut self.seats[index];
                    let process = seat.process.as_mut().context("it has a process")?;
                    let at = self.env.now();
                    process.kill().with_context(|| format!("can't kill {}", seat.name))?;
                    (seat.ready, seat.leads, seat.works, seat.killed) = (false, None, None, Some(at));
                    self.phase = Phase::Fallen { seat: index, term, at };
                }
            }
            Phase::Fallen { seat, term: before, at } => {
                if let Some((index, term, since)) = leader.filter(|(_, term, _)| *term > before) {
                    let killed_at = nanos(at.since_start());
                    self.phase = Phase::Resting { from: now };
                    // If it had lost the office just before it was killed, there was no takeover.
                    if since >= killed_at {
                        self.rounds.push(Round {
                            killed: self.seats[seat].name,
                            leader: self.seats[index].name,
                            term,
                            took: Duration::from_nanos(since - killed_at),
                        });
                    }
                    if self.rounds_max.is_some_and(|most| self.rounds.len() >= most as usize) {
                        self.stop();
                    }
                } else if now - at > TAKEOVER_LIMIT {
                    let name = self.seats[seat].name;
                    self.flaws.push(format!("nobody took over from {name} within {TAKEOVER_LIMIT:?}"));
                }
            }
            Phase::Settling { until, asked } => return self.settle(now, until, asked),
        }
        Ok(None)
    }

    fn settle(&mut self, now: Moment, until: Moment, asked: bool) -> anyhow::Result<Option<Verdict>> {
        if let Some(value) = self.value {
            let (lost, doubled) = self.ledger.verdict(value);
            let flaws = std::mem::take(&mut self.flaws);
            return Ok(Some(Verdict { value: Some(value), lost, doubled, flaws }));
        }
        if now >= until {
            let mut flaws = std::mem::take(&mut self.flaws);
            let open = self.ledger.open();
            flaws.push(format!("{open} increments were not settled within {SETTLE_LIMIT:?}"));
            let (lost, doubled) = (self.ledger.lost(), self.ledger.doubled());
            return Ok(Some(Verdict { value: None, lost, doubled, flaws }));
        }
        if self.ledger.open() == 0 && !asked {
            let ready = self.seats.iter_mut().find(|seat| seat.ready);
            let Some(process) = ready.and_then(|seat| seat.process.as_mut()) else {
                if self.ledger.acknowledged() == 0 {
                    bail!("it was stopped before anything was counted");
                }
                return Ok(None);
            };
            process.tell(&order(&Order::Read));
            self.phase = Phase::Settling { until, asked: true };
        }
        Ok(None)
    }
}

fn order(order: &Order) -> String {
    serde_json::to_string(order).expect("an order is numbers and words")
}
