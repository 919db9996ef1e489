//! Promises: servers that send to each other, set timers, act on the world, fail, are deleted and made again, under every fault, with pauses, crashes and cuts.

mod clerk;
mod door;
mod life;
mod records;
mod rest;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use tenure_cluster::{Cluster, Keys, Settings};
use tenure_server::Flaws;
use tenure_store::{Faults, Gate, Store};

pub use self::records::Figures;
use self::{clerk::Outside, life::Life, records::Records};

use crate::{Node, World, invariant::Lives, ledger::Ledger};

/// How many nodes consume, and send as well; and how many only send.
const CONSUMERS: usize = 2;
const SENDERS: usize = 1;

/// How long there is trouble.
const TROUBLE: Duration = Duration::from_secs(8);

/// How often something may happen to somebody.
const STEP: Duration = Duration::from_millis(50);

const TTL: Duration = Duration::from_secs(2);

const CLUSTER: &str = "fleet";

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

struct Process {
    node: Node,
    gate: Gate,
    /// How much it has in hand: nothing, when it has ended all that it began.
    busy: Arc<AtomicU64>,
    /// What it has joined.
    cluster: Arc<Mutex<Option<Cluster>>>,
}

/// What all know.
#[derive(Clone)]
struct Common {
    world: World,
    ledger: Arc<Ledger>,
    lives: Lives,
    records: Arc<Mutex<Records>>,
    outside: Outside,
    flaws: Flaws,
}

impl Common {
    /// The wall clock, which is right everywhere: what is true of time is true of all.
    fn now(&self) -> Duration {
        self.world.env.unix_time()
    }

    fn count(&self, figure: &'static str) {
        self.records.lock().figures.add(figure, 1);
    }

    fn is_trouble_over(&self) -> bool {
        self.world.env.now().since_start() >= TROUBLE
    }

    fn settings(node: &str) -> Settings {
        let mut settings = Settings::new(CLUSTER, node).expect("names").with_ttl(TTL);
        settings.proof_of_death = false;
        settings.take_over = true;
        settings
    }
}

struct Fleet {
    common: Common,
    processes: Vec<Process>,
    /// How many processes there ever were.
    started: u64,
}

/// A fleet under trouble, then calm.
///
/// # Errors
/// What is wrong: something that was acknowledged and is lost, doubled, torn apart, out of order or out of balance; a timer that comes early, twice or though it was cancelled; an effect that
/// is not done, or of a commit that never was; an answer that is another's; something of a server that was deleted; something that never comes to rest or stays behind.
pub async fn promises(world: World, flaws: Flaws) -> Result<Figures, String> {
    let keys = Keys::new(&CLUSTER.parse().expect("a name"));
    let lives = Lives::new(world.env.clone(), &keys, &clerk::SERVERS);
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let ledger = Arc::new(Ledger::new(store, vec![Box::new(lives.clone())]));
    let outside = Outside { env: world.env.clone(), done: Arc::default(), cured: Arc::default() };
    let common = Common { world, ledger, lives, records: Arc::default(), outside, flaws };
    let mut fleet = Fleet { common, processes: Vec::new(), started: 0 };
    for at in 0..CONSUMERS + SENDERS {
        let process = fleet.start(at);
        fleet.processes.push(process);
    }
    let steps = u32::try_from(TROUBLE.as_millis() / STEP.as_millis()).expect("a small number");
    for _ in 0..steps {
        fleet.trouble();
        fleet.common.world.env.sleep(STEP).await;
    }
    fleet.rest().await
}

impl Fleet {
    fn start(&mut self, at: usize) -> Process {
        self.started += 1;
        let name = format!("node{at}");
        let store = Arc::clone(&self.common.ledger) as Arc<dyn Store>;
        let node = self.common.world.node_over(store, name.clone(), FAULTS);
        let gate = Gate::new();
        let env = node.env.behind(&gate);
        let (busy, cluster) = (Arc::new(AtomicU64::new(1)), Arc::default());
        let life = Life {
            name: format!("{name}.{}", self.started),
            consumes: at < CONSUMERS,
            common: self.common.clone(),
            env: env.clone(),
            store: node.store(),
            settings: Common::settings(&name),
            busy: Arc::clone(&busy),
            joined: Arc::clone(&cluster),
        };
        env.spawn(life.run());
        Process { node, gate, busy, cluster }
    }

    /// Now and then, something happens to somebody.
    fn trouble(&mut self) {
        let env = &self.common.world.env;
        let at = usize::try_from(env.random_in(0..self.processes.len() as u64)).expect("a small number");
        let process = &self.processes[at];
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
                self.common.count("killed");
                self.processes[at] = self.start(at);
            }
            _ => {}
        }
    }
}
