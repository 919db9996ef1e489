//! A registry: processes that take names from each other, with faults in the store and between them, with pauses, kills, cuts, partitions, leaders that go, and copies of requests that come late.

mod life;
mod named;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_cluster::{Cluster, SessionId, Settings};
use tenure_registry::{Flaws, Inbox, Query, Records, Registration, Registry};
use tenure_store::{Bytes, Commit, Faults, Gate, Key, MemoryStore, Name, Store};

use self::life::Life;
pub use self::named::Named;

use crate::{
    LinkFaults, Net, Node, World,
    invariant::{Chronicle, Claims, OneOwner, Settled},
    ledger::Ledger,
};

/// How many processes there are, at least and at most.
const PROCESSES: std::ops::Range<u64> = 3..6;

/// How long there is trouble.
const TROUBLE: Duration = Duration::from_secs(10);

/// How long everything may take to come to rest: sessions end, leaders are elected, what waits is done.
const REST: Duration = Duration::from_secs(60);

/// How often something may happen to somebody.
const STEP: Duration = Duration::from_millis(50);

const TTL: Duration = Duration::from_secs(2);

const CLUSTER: &str = "fleet";
const REGISTRY: &str = "names";

/// How likely it is in each step that a copy of a request arrives, of any that ever was posted.
const COPIED: f64 = 0.2;

/// So few that they collide.
const NAMES: [&str; 6] = ["ada", "bob", "cy", "dot", "eve", "flo"];

/// Some of everything, and answers that take a while.
const FAULTS: Faults = Faults {
    conflict: 0.02,
    unavailable: 0.02,
    unknown_landed: 0.04,
    unknown_lost: 0.03,
    unknown_late: 0.03,
    late: Duration::from_secs(1),
    delay: Duration::from_millis(40),
    watch_lost: 0.1,
    watch_late: 0.2,
    reread: Duration::from_secs(2),
};

const LINK_FAULTS: LinkFaults =
    LinkFaults { lost: 0.05, unconfirmed: 0.05, unknown: 0.01, delay: Duration::from_millis(30) };

/// What a process shows to the outside.
#[derive(Default)]
struct Desk {
    registry: Mutex<Option<Registry>>,
    /// Each with the session that it was made in.
    held: Mutex<Vec<(Arc<Registration>, SessionId)>>,
}

struct Process {
    at: usize,
    /// Counts all that ever were.
    number: u64,
    node: Node,
    gate: Gate,
    paused: Option<Duration>,
    desk: Arc<Desk>,
}

/// What all know.
#[derive(Clone)]
struct Common {
    world: World,
    net: Net,
    owners: OneOwner,
    chronicle: Chronicle,
    claims: Claims,
    /// Where requests are posted.
    post: Key,
    named: Arc<Mutex<Named>>,
    flaw: Arc<Mutex<Option<String>>>,
    flaws: Flaws,
}

impl Common {
    fn now(&self) -> Duration {
        self.world.env.now().since_start()
    }

    fn count(&self, figure: impl FnOnce(&mut Named) -> &mut u64) {
        *figure(&mut self.named.lock()) += 1;
    }

    /// Keeps the first thing that is wrong.
    fn judge(&self, verdict: Result<(), String>) {
        if let Err(flaw) = verdict {
            self.world.trace.record(format_args!("{flaw}"));
            self.flaw.lock().get_or_insert(flaw);
        }
    }
}

struct Fleet {
    common: Common,
    ledger: Arc<Ledger>,
    processes: Vec<Process>,
    started: u64,
    /// The one that has no way to others, if there is one.
    mute: Option<usize>,
}

/// A fleet under trouble, then calm.
///
/// # Errors
/// What is wrong: a name that is live twice, or was acknowledged and is lost, or stays behind; a member whose names are not those of the log; a look-up that misses something; a
/// fleet that does not come to rest, or can't register any more.
pub async fn registry(world: World, flaws: Flaws) -> Result<Named, String> {
    let mut fleet = Fleet::new(world, flaws).await;
    let steps = u32::try_from(TROUBLE.as_millis() / STEP.as_millis()).expect("a small number");
    for step in 0..steps {
        fleet.trouble();
        if fleet.common.world.env.chance(COPIED) {
            fleet.copy().await;
        }
        fleet.common.world.env.sleep(STEP).await;
        fleet.verdict()?;
        if step % 4 == 0 {
            fleet.look();
        }
    }
    fleet.calm();
    fleet.copy_all().await;
    fleet.rest().await?;
    fleet.register().await?;
    fleet.processes.iter().for_each(|process| process.gate.kill());
    let counts = fleet.common.chronicle.counts();
    let tally = fleet.common.net.tally();
    let mut named = *fleet.common.named.lock();
    (named.leaders, named.shortened, named.posted) = (counts.leaders, counts.shortened, counts.posted);
    named.posted -= named.copies;
    named.messages_lost = tally.lost + tally.parted;
    Ok(named)
}

/// What the keys of the registry mean. They follow from names alone: so somebody in another world can tell.
async fn records(world: &World) -> Records {
    let mut settings = Settings::new(CLUSTER, "elsewhere").expect("names");
    settings.proof_of_death = false;
    let elsewhere = Cluster::join_in(Arc::new(MemoryStore::new()), settings, world.env.fork()).await;
    Records::of(&elsewhere.expect("a store without faults"), REGISTRY).expect("a name")
}

impl Fleet {
    async fn new(world: World, mut flaws: Flaws) -> Self {
        flaws.short_log = world.env.chance(0.5);
        let owners = OneOwner::default();
        let records = records(&world).await;
        let post = records.post().clone();
        let chronicle = Chronicle::new(records, owners.clone());
        let store = Arc::clone(&world.store) as Arc<dyn Store>;
        let ledger = Arc::new(Ledger::new(store, vec![Box::new(chronicle.clone())]));
        let net = Net::new(world.env.fork(), world.trace.clone(), LINK_FAULTS);
        let count = usize::try_from(world.env.random_in(PROCESSES)).expect("a small number");
        let mute = world.env.chance(0.4).then_some(count - 1);
        let claims = Claims::new(chronicle.clone(), owners.clone());
        let common = Common {
            world,
            net,
            owners,
            chronicle,
            claims,
            post,
            named: Arc::default(),
            flaw: Arc::default(),
            flaws,
        };
        let mut fleet = Self { common, ledger, processes: Vec::new(), started: 0, mute };
        for at in 0..count {
            let process = fleet.start(at, format!("node{at}"));
            fleet.processes.push(process);
        }
        fleet
    }

    /// Starts a process, with a clock that runs up to four hundredths wrong.
    fn start(&mut self, at: usize, name: String) -> Process {
        self.started += 1;
        let world = &self.common.world;
        let store = Arc::clone(&self.ledger) as Arc<dyn Store>;
        let node = world.node_over(store, name.clone(), FAULTS);
        let gate = Gate::new();
        let speed = u32::try_from(world.env.random_in(96..105)).expect("a small number");
        let env = node.env.at_speed(speed).behind(&gate);
        let mut settings = Settings::new(CLUSTER, &name).expect("names").with_ttl(TTL);
        settings.proof_of_death = false;
        settings.take_over = true;
        let has_links = self.mute != Some(at);
        settings.address = has_links.then(|| format!("{name}:1"));
        let desk = Arc::new(Desk::default());
        let life = Life {
            process: self.started,
            common: self.common.clone(),
            env: env.clone(),
            store: node.store(),
            settings,
            has_links,
            desk: Arc::clone(&desk),
        };
        env.spawn(life.run());
        Process { at, number: self.started, node, gate, paused: None, desk }
    }

    fn verdict(&self) -> Result<(), String> {
        self.ledger.verdict()?;
        self.common.flaw.lock().clone().map_or(Ok(()), Err)
    }

    /// Compares what everybody has with what is committed.
    fn look(&self) {
        self.common.judge(self.common.owners.check(NAMES));
        for process in &self.processes {
            if let Some(registry) = &*process.desk.registry.lock() {
                let page = registry.list(&Query::all(), None, usize::MAX);
                self.common.judge(self.common.chronicle.check(&process.node.name, &page));
            }
        }
    }

    /// Now and then, something happens to somebody.
    fn trouble(&mut self) {
        let dice = self.common.world.env.random_in(0..200);
        let at = self.pick();
        match dice {
            0..6 => self.pause(at),
            6..16 => self.resume(at),
            16..19 => self.processes[at].node.cut(),
            19..29 => self.processes[at].node.heal(),
            29..32 => self.replace(at),
            32..34 => {
                if let Some(at) = self.leader() {
                    self.common.count(|named| &mut named.leaders_killed);
                    self.replace(at);
                }
            }
            34..36 => {
                if let Some(at) = self.leader() {
                    self.pause(at);
                }
            }
            36..42 => self.part(at),
            42..50 => self.common.net.heal(),
            _ => {}
        }
    }

    /// A copy of a request arrives: of one that was posted, by whomever, at any time before. A commit whose outcome is unknown may land as late as that.
    async fn copy(&self) {
        let posted = self.common.chronicle.posted();
        if !posted.is_empty() {
            let at = self.common.world.env.random_in(0..posted.len() as u64);
            self.post(posted[usize::try_from(at).expect("few")].clone()).await;
        }
    }

    /// Once more, each that ever was.
    async fn copy_all(&self) {
        for request in self.common.chronicle.posted() {
            self.post(request).await;
        }
    }

    async fn post(&self, request: Bytes) {
        let posted = Commit::new().append(self.common.post.clone(), request);
        self.ledger.commit(posted).await.expect("a store without faults");
        self.common.count(|named| &mut named.copies);
    }

    fn pick(&self) -> usize {
        let count = self.processes.len() as u64;
        usize::try_from(self.common.world.env.random_in(0..count)).expect("a small number")
    }

    /// The process that leads.
    fn leader(&self) -> Option<usize> {
        let leader = self.common.chronicle.led().leader?;
        self.processes.iter().position(|process| process.node.name == leader.node)
    }

    fn pause(&mut self, at: usize) {
        let now = self.common.now();
        let process = &mut self.processes[at];
        process.node.record(format_args!("is paused"));
        process.gate.pause();
        process.paused.get_or_insert(now);
    }

    fn resume(&mut self, at: usize) {
        let process = &mut self.processes[at];
        process.node.record(format_args!("goes on"));
        process.gate.resume();
        if process.paused.take().is_some_and(|since| self.common.now() - since > TTL) {
            self.common.count(|named| &mut named.paused);
        }
    }

    /// Kills a process, and starts another in its place: of the same name, or of another.
    fn replace(&mut self, at: usize) {
        let process = &self.processes[at];
        process.node.record(format_args!("is killed"));
        self.common.owners.died(process.number);
        process.gate.kill();
        self.common.count(|named| &mut named.killed);
        let (place, same) = (process.at, self.common.world.env.chance(0.6));
        let name = if same { process.node.name.clone() } else { format!("node{place}-{}", self.started + 1) };
        self.processes[at] = self.start(place, name);
    }

    /// Keeps two processes from each other, in one direction or both.
    fn part(&self, at: usize) {
        let name = |at: usize| -> Name { self.processes[at].node.name.parse().expect("a name") };
        let other = self.pick();
        if other != at {
            self.common.count(|named| &mut named.parted);
            self.common.net.part(&name(at), &name(other));
            if self.common.world.env.chance(0.5) {
                self.common.net.part(&name(other), &name(at));
            }
        }
    }

    fn calm(&mut self) {
        self.common.net.heal();
        self.common.net.set_faults(LinkFaults::NONE);
        for at in 0..self.processes.len() {
            self.resume(at);
            self.processes[at].node.set_faults(Faults::NONE);
            self.processes[at].node.heal();
        }
    }

    /// Returns when everybody has the names that are held, and nothing is left to do.
    async fn rest(&self) -> Result<(), String> {
        let until = self.common.now() + REST;
        // By then, every session was renewed or has ended.
        self.common.world.env.sleep(TTL).await;
        loop {
            self.common.world.env.sleep(STEP * 5).await;
            self.look();
            self.verdict()?;
            match self.settled() {
                Ok(()) => return Ok(()),
                Err(why) if self.common.now() > until => {
                    return Err(format!("it never comes to rest: {why}"));
                }
                Err(_) => {}
            }
        }
    }

    fn settled(&self) -> Result<(), String> {
        let mut settled = Settled::default();
        for process in &self.processes {
            let registry = process.desk.registry.lock();
            if registry.is_none() {
                return Err(format!("{} takes no part", process.node.name));
            }
            for (held, session) in process.desk.held.lock().iter() {
                if held.remaining().is_zero() {
                    return Err(format!("{} has lost {}, and has to notice", process.node.name, held.name()));
                }
                settled.holds(held.name(), *session, held.number())?;
            }
        }
        let led = self.common.chronicle.led();
        for process in &self.processes {
            if let Some(registry) = &*process.desk.registry.lock() {
                let (page, status) = (registry.list(&Query::all(), None, usize::MAX), registry.status());
                settled.check(&process.node.name, &page, &status, &led)?;
                if !self.common.chronicle.exists(status.member.session) {
                    return Err(format!("{} has to join again", process.node.name));
                }
                if status.waiting > 0 {
                    return Err(format!("{} requests of {} wait", status.waiting, process.node.name));
                }
                for entry in &page.entries {
                    if registry.whereis(entry.name()).as_ref() != Some(entry) {
                        return Err(format!("{} looks {entry:?} up otherwise", process.node.name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Every process can register again, and all others see it.
    async fn register(&self) -> Result<(), String> {
        let mut fresh = Vec::new();
        for process in &self.processes {
            let registry = process.desk.registry.lock().clone().expect("all take part");
            let name = format!("fresh {}", process.node.name);
            let (mailbox, inbox) = tenure_registry::mailbox::<u64, u64>(1);
            let made = registry.register(&name, &mailbox).await;
            let made =
                made.map_err(|error| format!("{} can't register any more: {error}", process.node.name))?;
            fresh.push((made, inbox));
        }
        let until = self.common.now() + TTL * 3;
        loop {
            self.common.world.env.sleep(STEP).await;
            self.look();
            self.verdict()?;
            match self.all_know(&fresh) {
                Err(why) if self.common.now() > until => return Err(why),
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
        }
    }

    fn all_know(&self, fresh: &[(Registration, Inbox<u64, u64>)]) -> Result<(), String> {
        for process in &self.processes {
            let registry = process.desk.registry.lock().clone().expect("all take part");
            for (made, _) in fresh {
                if made.remaining().is_zero() || registry.whereis(made.name()).is_none() {
                    return Err(format!("{} does not know of {made:?}", process.node.name));
                }
            }
        }
        Ok(())
    }
}
