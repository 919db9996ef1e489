//! Servers: nodes that consume and nodes that only send, under every fault, with pauses, crashes and cuts.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_cluster::{Cluster, Keys, Settings};
use tenure_server::{
    CallOptions, Context, Failure, Flaws, Fold, Locked, LockedRequest, Never, Policy, Serve, Server,
    ServerError, ServerRef, plant,
};
use tenure_store::{Env, Faults, Gate, Store};

use crate::{
    Node, World,
    invariant::{Journal, Order, Outcome, Remains, Stage},
};

/// How many nodes consume, and send as well; and how many only send.
const CONSUMERS: usize = 2;
const SENDERS: usize = 2;

/// How long there is trouble.
const TROUBLE: Duration = Duration::from_secs(12);

/// How long everything may take to come to rest: sessions end, locked work is done again, what failed comes back.
const REST: Duration = Duration::from_secs(120);

/// How often something may happen to somebody.
const STEP: Duration = Duration::from_millis(50);

const TTL: Duration = Duration::from_secs(2);

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
    ..Faults::NONE
};

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Messages that were refused.
    pub refused: u64,
    /// Messages of which nobody knows, until one looks.
    pub unknown: u64,
}

/// What is sent: a name, used once, and what is to be done besides writing it down.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Entry {
    Plain(String),
    /// It is written down by locked work.
    Locked(String),
    /// It fails the first time.
    Failing(String),
}

/// Writes down what it is sent; a call is answered with the place.
struct Book {
    env: Env,
}

impl Book {
    fn write(
        &self,
        names: &mut Vec<String>,
        entry: &Entry,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<usize>, Failure> {
        match entry {
            Entry::Failing(name) if context.attempt() == 0 => {
                names.push(format!("half of {name}"));
                return Err(Failure::new("the first time never works"));
            }
            Entry::Locked(_) => {
                context.lock()?;
                return Ok(None);
            }
            Entry::Plain(name) | Entry::Failing(name) => names.push(name.clone()),
        }
        Ok(Some(names.len() - 1))
    }
}

impl Server for Book {
    const KIND: &'static str = "book";
    // Dead letters have tests of their own; here, processes are killed more often than a policy would expect.
    const POLICY: Policy = Policy { attempts_max: 100, ..Policy::DEFAULT };
    type State = Vec<String>;
    type Call = Entry;
    type Reply = usize;
    type Cast = Entry;
    type Effect = Never;

    fn handle_call(
        &self,
        names: &mut Vec<String>,
        entry: &Entry,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<usize>, Failure> {
        self.write(names, entry, context)
    }

    fn handle_cast(
        &self,
        names: &mut Vec<String>,
        entry: &Entry,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        self.write(names, entry, context).map(|_| ())
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        self.env.sleep(self.env.random_time(Duration::from_millis(300))).await;
        let (LockedRequest::Call(entry) | LockedRequest::Cast(entry)) = &locked.request;
        let Entry::Locked(name) = &**entry else { return Err(Failure::new("this one does not lock")) };
        let name = name.clone();
        Ok(Fold::new(move |names: &mut Vec<String>, _: &mut Context<'_, Self>| {
            names.push(name.clone());
            Ok(Some(names.len() - 1))
        }))
    }
}

struct Process {
    node: Node,
    gate: Gate,
}

struct Fleet {
    world: World,
    journal: Arc<Mutex<Journal>>,
    flaws: Flaws,
    /// How many processes there ever were.
    started: u64,
}

/// A fleet under trouble, then calm.
///
/// # Errors
/// What is wrong: a message that was acknowledged and is lost, doubled or out of order, a wrong answer, something that never comes to rest or stays behind.
pub async fn servers(world: World, flaws: Flaws) -> Result<Served, String> {
    let mut fleet = Fleet { world, journal: Arc::default(), flaws, started: 0 };
    let mut processes: Vec<Process> = (0..CONSUMERS + SENDERS).map(|at| fleet.start(at)).collect();
    let steps = u32::try_from(TROUBLE.as_millis() / STEP.as_millis()).expect("a small number");
    for _ in 0..steps {
        fleet.trouble(&mut processes);
        fleet.world.env.sleep(STEP).await;
    }
    for process in &processes {
        process.gate.resume();
        process.node.set_faults(Faults::NONE);
        process.node.heal();
    }
    let there = fleet.rest(&processes).await?;
    let journal = fleet.journal.lock();
    journal.check(&there)?;
    Ok(Served {
        acknowledged: journal.count(Outcome::Acknowledged),
        refused: journal.count(Outcome::Refused),
        unknown: journal.count(Outcome::Unknown),
    })
}

impl Fleet {
    fn start(&mut self, at: usize) -> Process {
        self.started += 1;
        let name = format!("node{at}");
        let node = self.world.node(name.clone(), FAULTS);
        let gate = Gate::new();
        let env = node.env.behind(&gate);
        let mut settings = Settings::new("fleet", &name).expect("names").with_ttl(TTL);
        settings.proof_of_death = false;
        settings.take_over = true;
        let life = Life {
            name: format!("{name}.{}", self.started),
            consumes: at < CONSUMERS,
            world: self.world.clone(),
            env: env.clone(),
            store: node.store(),
            settings,
            journal: Arc::clone(&self.journal),
            flaws: self.flaws,
        };
        env.spawn(life.run());
        Process { node, gate }
    }

    /// Now and then, something happens to somebody.
    fn trouble(&mut self, processes: &mut [Process]) {
        let env = &self.world.env;
        let at = usize::try_from(env.random_in(0..processes.len() as u64)).expect("a small number");
        let process = &mut processes[at];
        match env.random_in(0..200) {
            0..4 => {
                process.node.record(format_args!("is paused"));
                process.gate.pause();
            }
            4..14 => {
                process.node.record(format_args!("goes on"));
                process.gate.resume();
            }
            14..17 => process.node.cut(),
            17..27 => process.node.heal(),
            27..31 => {
                process.node.record(format_args!("is killed and started again"));
                process.gate.kill();
                *process = self.start(at);
            }
            _ => {}
        }
    }

    /// Waits until nothing is left to do, and returns what the server has.
    async fn rest(&self, processes: &[Process]) -> Result<Vec<String>, String> {
        let env = &self.world.env;
        let mut settings = Settings::new("fleet", "auditor").expect("names").with_ttl(TTL);
        settings.proof_of_death = false;
        let store = Arc::clone(&self.world.store) as Arc<dyn Store>;
        let auditor = Cluster::join_in(store, settings, env.fork()).await;
        let auditor = auditor.map_err(|error| format!("an auditor could not join: {error}"))?;
        let book = auditor.server::<Book>(BOOK).map_err(|error| error.to_string())?;
        // Those who send stop by themselves when the trouble is over.
        let until = env.now().after(REST);
        let remains = Remains::new(Keys::new(&"fleet".parse().expect("a name")), &[(Book::KIND, BOOK)]);
        let mut left = Vec::new();
        while !(until - env.now()).is_zero() {
            env.sleep(Duration::from_secs(2)).await;
            left = remains.left(&*self.world.store, Stage::AtRest).await;
            let status = book.status().await.map_err(|error| error.to_string())?;
            if left.is_empty()
                && status.as_ref().is_none_or(|status| status.waiting == 0 && !status.is_locked)
            {
                let names = book.read(Clone::clone).await.map_err(|error| error.to_string())?;
                auditor.leave().await;
                processes.iter().for_each(|process| process.gate.kill());
                return Ok(names);
            }
        }
        let status = book.status().await;
        Err(format!("it never comes to rest: {status:?}, {left:?}"))
    }
}

/// The one server that all send to.
const BOOK: &str = "b";

/// What a node does.
struct Life {
    name: String,
    consumes: bool,
    world: World,
    env: Env,
    store: Arc<dyn Store>,
    settings: Settings,
    journal: Arc<Mutex<Journal>>,
    flaws: Flaws,
}

impl Life {
    async fn run(self) {
        let cluster = loop {
            match Cluster::join_in(Arc::clone(&self.store), self.settings.clone(), self.env.clone()).await {
                Ok(cluster) => break cluster,
                Err(_) => self.env.sleep(Duration::from_millis(100)).await,
            }
        };
        plant(&cluster, self.flaws);
        if self.consumes {
            cluster.serve_with(Book { env: self.env.clone() }).expect("a name");
        }
        let book = cluster.server::<Book>(BOOK).expect("a name");
        let mut number = 0;
        while self.world.env.now().since_start() < TROUBLE {
            number += 1;
            self.send(&book, number).await;
            self.env.sleep(self.env.random_time(Duration::from_millis(400))).await;
        }
        std::future::pending::<()>().await;
    }

    /// Sends one message, or a few, in one of all ways, and writes down what is said of it.
    async fn send(&self, book: &ServerRef<Book>, number: u64) {
        let name = format!("{} {number:03}", self.name);
        // Not the node's own clock: what is true of time is true of all.
        let begun = self.world.env.now().since_start();
        let options = || CallOptions::default().timeout(Duration::from_secs(4));
        let dice = self.env.random_in(0..13);
        let order = if matches!(dice, 8 | 9) { Order::Free } else { Order::Kept };
        let names: Vec<String> = match dice {
            7 => (0..3).map(|part| format!("{name} {part}")).collect(),
            _ => vec![name.clone()],
        };
        let numbers: Vec<usize> =
            names.iter().map(|name| self.journal.lock().begin(name, order, begun)).collect();
        let mut place = None;
        let outcome = match dice {
            0..4 => book.call_with(Entry::Plain(name), options()).await.map(|found| place = Some(found)),
            4..7 => book.cast(Entry::Plain(name)).await,
            7 => book.cast_all(names.iter().cloned().map(Entry::Plain).collect::<Vec<_>>()).await,
            8 => book.priority_call(Entry::Plain(name), options()).await.map(|found| place = Some(found)),
            9 => book.cast(Entry::Failing(name)).await,
            10 => {
                let key = format!("key of {name}");
                let first =
                    book.call_with(Entry::Plain(name.clone()), options().idempotency_key(key.clone())).await;
                let again = book.call_with(Entry::Plain(name), options().idempotency_key(key)).await;
                if let (Ok(first), Ok(again)) = (&first, &again) {
                    assert_eq!(first, again, "a repeated call has the first one's answer");
                }
                first.or(again).map(|found| place = Some(found))
            }
            11 => book.cast(Entry::Locked(name)).await,
            _ => book.call_with(Entry::Locked(name), options()).await.map(|found| place = Some(found)),
        };
        let told = match &outcome {
            Ok(()) => Outcome::Acknowledged,
            Err(ServerError::Timeout { .. } | ServerError::OutcomeUnknown(_) | ServerError::Left) => {
                Outcome::Unknown
            }
            // One of two tries may have been carried out.
            Err(_) if dice == 10 => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        };
        let now = self.world.env.now().since_start();
        for (name, number) in names.iter().zip(numbers) {
            self.world.trace.record(format_args!("{name} was told of: {outcome:?} {place:?}"));
            self.journal.lock().told(number, now, told, place);
        }
    }
}
