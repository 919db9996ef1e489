//! When the trouble is over: everything comes to rest, everything works, and everything is compared.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure_cluster::{Cluster, Keys};
use tenure_server::{CallOptions, ServerError};
use tenure_store::{Faults, Store};

use super::{
    CLUSTER, Common, Figures, Fleet,
    clerk::{ANSWERS_KEPT, SERVERS, STAYING, Say},
    door::Door,
};
use crate::invariant::{Balanced, History, Line, Order, Outcome, Reborn, Remains, Stage};

/// How long everything may take to come to rest: sessions end, locked work is done again, what failed comes back.
const REST: Duration = Duration::from_secs(120);

/// Between two looks whether all is at rest.
const LOOK: Duration = Duration::from_secs(1);

/// How many runs also show what becomes of priority messages while others wait, and of what is kept for a while.
const SOME: f64 = 0.2;

/// An error, as a thing that is wrong.
fn flaw(error: ServerError) -> String {
    format!("when all is calm, nothing fails: {error}")
}

impl Fleet {
    /// Waits until all is at rest, and compares everything.
    pub(super) async fn rest(&self) -> Result<Figures, String> {
        for process in &self.processes {
            process.gate.resume();
            process.node.set_faults(Faults::NONE);
            process.node.heal();
        }
        let common = &self.common;
        common.outside.cured.store(true, Ordering::SeqCst);
        let store = Arc::clone(&common.ledger) as Arc<dyn Store>;
        let env = common.world.env.fork();
        let auditor = Cluster::join_in(store, Common::settings("auditor"), env).await;
        let auditor = auditor.map_err(|error| format!("an auditor could not join: {error}"))?;
        let doors = Door::all(&auditor);
        self.settle(&doors, Stage::AtRest).await?;
        if common.world.env.chance(SOME) {
            self.pass_by(&doors).await?;
            common.count("passed by");
            self.settle(&doors, Stage::AtRest).await?;
        }
        self.check(&doors).await?;
        if common.world.env.chance(SOME) {
            common.world.env.sleep(ANSWERS_KEPT).await;
            self.settle(&doors, Stage::Swept).await?;
        }
        for door in &doors {
            door.delete().await.map_err(flaw)?;
        }
        self.settle(&doors, Stage::Deleted).await?;
        auditor.leave().await;
        self.processes.iter().for_each(|process| process.gate.kill());
        common.ledger.verdict()?;
        Ok(self.figures())
    }

    /// Waits until nothing is left to do, and nothing that should not be there.
    async fn settle(&self, doors: &[Door], stage: Stage) -> Result<(), String> {
        let (env, store) = (&self.common.world.env, &*self.common.world.store);
        let keys = Keys::new(&CLUSTER.parse().expect("a name"));
        let remains = Remains::new(keys, &SERVERS);
        let until = env.now().after(REST);
        loop {
            let busy = self.processes.iter().any(|process| process.busy.load(Ordering::SeqCst) > 0);
            let mut left = if busy { vec!["somebody is busy".to_owned()] } else { Vec::new() };
            for door in doors {
                left.extend(self.tend(door).await.map_err(flaw)?);
            }
            if left.is_empty() {
                left = remains.left(store, stage).await;
            }
            if left.is_empty() {
                return Ok(());
            }
            if (until - env.now()).is_zero() {
                return Err(format!("it never comes to rest, {stage:?}: {left:?}"));
            }
            env.sleep(LOOK).await;
        }
    }

    /// Starts a server that is stopped, and replays its dead letters. Returns what it has to do.
    async fn tend(&self, door: &Door) -> Result<Option<String>, ServerError> {
        let Some(status) = door.status().await? else { return Ok(None) };
        if status.stopped.is_some() {
            door.start().await?;
        }
        for letter in door.dead_letters().await? {
            door.replay(letter.number).await?;
            self.common.count("dead letters");
        }
        let is_quiet = status.waiting == 0 && !status.is_locked && status.stopped.is_none();
        Ok((!is_quiet).then(|| format!("{door:?} is not quiet: {status:?}")))
    }

    /// While a server is locked, and while it is stopped, priority messages pass by those that wait.
    async fn pass_by(&self, doors: &[Door]) -> Result<(), String> {
        let env = &self.common.world.env;
        let calm = || CallOptions::default().timeout(Duration::from_secs(10));
        let near = self.processes[0].cluster.lock().as_ref().map(Door::all);
        let near = near.ok_or("a node has not joined, though all is calm")?;
        for (at, (far, near)) in doors.iter().zip(&near).enumerate().take(2) {
            let name = |what: &str| format!("{} auditor {what}", SERVERS[at].1);
            let note = |what: &str| {
                let (name, now) = (name(what), self.common.now());
                let journal = &mut self.common.records.lock().journals[at];
                let number = journal.begin(&name, Order::Free, now);
                journal.told(number, now, Outcome::Acknowledged, None);
                name
            };
            far.cast(Say::Lock(note("lock"), 3000)).await.map_err(flaw)?;
            far.cast(Say::Note(note("waits for the lock"))).await.map_err(flaw)?;
            while !far.status().await.map_err(flaw)?.is_some_and(|status| status.is_locked) {
                env.sleep(Duration::from_millis(20)).await;
            }
            far.priority_call(Say::Urgent(note("from afar")), calm()).await.map_err(flaw)?;
            near.priority_cast(Say::Urgent(note("from near by"))).await.map_err(flaw)?;
            far.call(Say::Note(note("behind the lock")), calm()).await.map_err(flaw)?;
            far.stop().await.map_err(flaw)?;
            near.cast(Say::Note(note("waits for the start"))).await.map_err(flaw)?;
            near.priority_call(Say::Urgent(note("though it is stopped")), calm()).await.map_err(flaw)?;
            far.start().await.map_err(flaw)?;
            far.call(Say::Note(note("behind the start")), calm()).await.map_err(flaw)?;
            let order = ["from afar", "from near by", "lock", "waits for the lock", "behind the lock"];
            let order =
                order.into_iter().chain(["though it is stopped", "waits for the start", "behind the start"]);
            let wanted: Vec<String> = order.map(name).collect();
            let lines = far.page(|page| page.lines.clone()).await.map_err(flaw)?;
            let found = lines.iter().map(|line| &line.name).filter(|name| wanted.contains(name));
            if !found.eq(&wanted) {
                return Err(format!("priority messages did not pass by: {wanted:?}, but {lines:?}"));
            }
        }
        Ok(())
    }

    /// Holds all that was told against all that is there.
    async fn check(&self, doors: &[Door]) -> Result<(), String> {
        let common = &self.common;
        let histories: Vec<History> = SERVERS.iter().map(|(_, id)| common.lives.of(id)).collect();
        let mut balanced = Balanced::default();
        for (at, (door, history)) in doors.iter().zip(&histories).enumerate() {
            let page = door.page(|page| (page.lines.clone(), page.balance, page.tokens.clone())).await;
            let (lines, balance, tokens) = page.map_err(flaw)?;
            let id = SERVERS[at].1;
            let alive = history.lives.last().filter(|life| life.ended.is_none());
            if lines != alive.map_or_else(Vec::new, |life| life.lines.clone()) {
                return Err(format!("{id} shows {lines:?}, and {alive:?} was committed"));
            }
            if !tokens.is_sorted_by(|one, next| one < next) {
                return Err(format!("work of {id} was folded under the tokens {tokens:?}"));
            }
            balanced.add(id, history.clone(), (at < STAYING).then_some(balance));
            let records = common.records.lock();
            if at < STAYING {
                let from_server = |line: &&Line| !line.deed.is_from_server();
                let names: Vec<String> =
                    lines.iter().filter(from_server).map(|line| line.name.clone()).collect();
                records.journals[at].check(&names)?;
            }
            Reborn::new(&records.journals[at], history).check()?;
            records.together.check(history)?;
            records.timely.check(history)?;
            records.answers.check(|name| name.starts_with(&format!("{id} ")), history)?;
        }
        balanced.check()?;
        common.outside.done.lock().check(&histories)
    }

    fn figures(&self) -> Figures {
        let (records, done) = (self.common.records.lock(), self.common.outside.done.lock());
        let mut figures = records.figures.clone();
        for (name, outcome) in [
            ("acknowledged", Outcome::Acknowledged),
            ("refused", Outcome::Refused),
            ("unknown", Outcome::Unknown),
        ] {
            figures.add(name, records.journals.iter().map(|journal| journal.count(outcome)).sum());
        }
        for (name, count) in ["effects", "effects again", "after commits"].into_iter().zip(done.counts()) {
            figures.add(name, count);
        }
        for (name, count) in ["answered again", "answered later"].into_iter().zip(records.answers.counts()) {
            figures.add(name, count);
        }
        for (_, id) in SERVERS {
            let history = self.common.lives.of(id);
            figures.add("lives", history.lives.len() as u64);
            figures.add("deletions", history.deletions.len() as u64);
            let from_server = history.lines().filter(|line| line.deed.is_from_server()).count();
            figures.add("from servers", from_server as u64);
        }
        figures
    }
}
