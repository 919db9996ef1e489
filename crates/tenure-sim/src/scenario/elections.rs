//! Elections: a fleet that wants one office, under every fault, with pauses, crashes, cuts and clocks that run wrong.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_cluster::{Cluster, Flaws, Leadership, Member, MemberState, SessionId, Settings};
use tenure_store::{Commit, Env, Faults, Gate, Key, Name, Store};

use super::CALM;
use crate::{
    Node, World,
    invariant::{Offices, OneLeader, WORK, work},
    ledger::Ledger,
};

const NODES: usize = 4;

/// How long there is trouble.
const TROUBLE: Duration = Duration::from_secs(90);

/// How often it is looked who believes to lead.
const LOOK: Duration = Duration::from_millis(100);

const TTL: Duration = Duration::from_secs(6);

/// Some of everything, at a rate at which sessions are kept more often than lost; answers may take a good part of a ttl.
const FAULTS: Faults = Faults {
    conflict: 0.02,
    unavailable: 0.03,
    unknown_landed: 0.03,
    unknown_lost: 0.03,
    unknown_late: 0.03,
    late: Duration::from_secs(3),
    delay: Duration::from_millis(700),
    watch_lost: 0.1,
    watch_late: 0.2,
    ..Faults::NONE
};

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Elected {
    /// Leaderships that were won.
    pub won: u64,
    /// Guarded commits that were acknowledged.
    pub worked: u64,
    /// Guarded commits that were refused.
    pub refused: u64,
}

/// A simulated process that may be paused, cut off and killed.
struct Process {
    node: Node,
    gate: Gate,
}

struct Fleet {
    world: World,
    ledger: Arc<Ledger>,
    one_leader: OneLeader,
    elected: Arc<parking_lot::Mutex<Elected>>,
    flaws: Flaws,
}

fn cluster() -> Name {
    "fleet".parse().expect("a name")
}

fn election() -> Name {
    "office".parse().expect("a name")
}

/// A fleet under trouble, then calm.
///
/// # Errors
/// What is wrong: two who believe that they lead at once, a term with two holders, work in a term that is over, nobody who leads when all is calm, a
/// member that others see wrongly.
pub async fn elections(world: World, flaws: Flaws) -> Result<Elected, String> {
    let auditor = Offices::new(&cluster(), &election());
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let ledger = Arc::new(Ledger::new(store, vec![Box::new(auditor)]));
    let fleet = Fleet { world, ledger, one_leader: OneLeader::default(), elected: Arc::default(), flaws };
    let mut processes: Vec<Process> = (0..NODES).map(|at| fleet.start(at)).collect();
    let (followed, follower) = fleet.follow();
    let looks = u32::try_from(TROUBLE.as_millis() / LOOK.as_millis()).expect("a small number");
    for _ in 0..looks {
        fleet.trouble(&mut processes);
        fleet.world.env.sleep(LOOK).await;
        fleet.check()?;
    }
    for process in &processes {
        process.gate.resume();
        process.node.set_faults(Faults::NONE);
        process.node.heal();
    }
    // It renews a session too, which nobody should suspect any more.
    follower.set_faults(Faults::NONE);
    let mut led = 0;
    for _ in 0..CALM.as_secs() * 2 {
        fleet.world.env.sleep(Duration::from_millis(500)).await;
        fleet.check()?;
        led = fleet.one_leader.check()?;
    }
    if led != 1 {
        return Err("nobody leads though all is calm".into());
    }
    fleet.check_members(&processes, &followed).await?;
    processes.iter().for_each(|process| process.gate.kill());
    let elected = *fleet.elected.lock();
    Ok(elected)
}

impl Fleet {
    fn check(&self) -> Result<(), String> {
        self.ledger.verdict()?;
        self.one_leader.check().map(|_| ())
    }

    /// Starts the process of a node, with a clock that runs up to four hundredths wrong.
    fn start(&self, at: usize) -> Process {
        let name = format!("node{at}");
        let store = Arc::clone(&self.ledger) as Arc<dyn Store>;
        let node = self.world.node_over(store, name.clone(), FAULTS);
        let gate = Gate::new();
        let speed = u32::try_from(self.world.env.random_in(96..105)).expect("a small number");
        let env = node.env.at_speed(speed).behind(&gate);
        let mut settings =
            Settings::new(cluster().as_str(), &name).expect("names").with_ttl(TTL).with_flaws(self.flaws);
        settings.proof_of_death = false;
        settings.take_over = true;
        let life = Life {
            name,
            env: env.clone(),
            store: node.store(),
            settings,
            one_leader: self.one_leader.clone(),
            elected: Arc::clone(&self.elected),
        };
        env.spawn(life.run());
        Process { node, gate }
    }

    /// Now and then, something happens to somebody.
    fn trouble(&self, processes: &mut [Process]) {
        let env = &self.world.env;
        let at = usize::try_from(env.random_in(0..NODES as u64)).expect("a small number");
        let process = &mut processes[at];
        match env.random_in(0..400) {
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
            27..29 => {
                process.node.record(format_args!("is killed and started again"));
                process.gate.kill();
                *process = self.start(at);
            }
            _ => {}
        }
    }

    /// Lets somebody follow the members through all the trouble.
    fn follow(&self) -> (Arc<Followed>, Node) {
        let store = Arc::clone(&self.ledger) as Arc<dyn Store>;
        let node = self.world.node_over(store, "follower", Faults { late: Duration::from_secs(1), ..FAULTS });
        let followed = Arc::new(Followed::default());
        self.world.env.spawn(follow(node.clone(), Arc::clone(&followed)));
        (followed, node)
    }

    /// Every node is seen by all as it is, also by whoever followed the changes.
    async fn check_members(&self, processes: &[Process], followed: &Followed) -> Result<(), String> {
        let settings = Settings::new(cluster().as_str(), "auditor").expect("names").with_ttl(TTL);
        let store = Arc::clone(&self.ledger) as Arc<dyn Store>;
        let auditor = Cluster::join_in(store, settings, self.world.env.fork()).await;
        let auditor = auditor.map_err(|error| format!("an auditor could not join: {error}"))?;
        let listed = auditor.members().list().await.map_err(|error| error.to_string())?;
        auditor.leave().await;
        self.world.env.sleep(CALM).await;
        if let Some(flaw) = followed.flaw.lock().clone() {
            return Err(flaw);
        }
        for listed in listed.iter().filter(|listed| listed.member.node.as_str() != "auditor") {
            let member = &listed.member;
            let seen = followed.members.lock().get(&member.node).cloned();
            if seen.as_ref() != Some(&(member.session, member.state)) {
                return Err(format!("{} is {} and was last seen as {seen:?}", member.node, member.state));
            }
        }
        for process in processes {
            let found = listed.iter().find(|listed| listed.member.node.as_str() == process.node.name);
            match found {
                Some(found) if found.member.state == MemberState::Live => {}
                other => return Err(format!("{} is live and seen as {other:?}", process.node.name)),
            }
        }
        Ok(())
    }
}

/// What somebody has seen who followed the members.
#[derive(Default)]
struct Followed {
    members: parking_lot::Mutex<BTreeMap<Name, (SessionId, MemberState)>>,
    flaw: parking_lot::Mutex<Option<String>>,
}

/// Follows the members for ever: each one's changes must come in order, and none may be missing.
async fn follow(node: Node, followed: Arc<Followed>) {
    let mut settings = Settings::new(cluster().as_str(), &node.name).expect("names").with_ttl(TTL);
    settings.proof_of_death = false;
    let cluster = loop {
        match Cluster::join_in(node.store(), settings.clone(), node.env.clone()).await {
            Ok(cluster) => break cluster,
            Err(_) => node.env.sleep(Duration::from_millis(200)).await,
        }
    };
    let mut changes = loop {
        match cluster.members().changes().await {
            Ok(changes) => break changes,
            Err(_) => node.env.sleep(Duration::from_millis(200)).await,
        }
    };
    let seen = |member: &Member| (member.node.clone(), (member.session, member.state));
    followed.members.lock().extend(changes.members().values().map(seen));
    loop {
        match changes.next().await {
            Ok(change) if change.folded == 0 => {
                let (node, state) = seen(&change.member);
                followed.members.lock().insert(node, state);
            }
            other => {
                followed.flaw.lock().get_or_insert(format!("changes were missed: {other:?}"));
                return;
            }
        }
    }
}

/// What a node does.
struct Life {
    name: String,
    env: Env,
    store: Arc<dyn Store>,
    settings: Settings,
    one_leader: OneLeader,
    elected: Arc<parking_lot::Mutex<Elected>>,
}

impl Life {
    async fn run(self) {
        let cluster = loop {
            match Cluster::join_in(Arc::clone(&self.store), self.settings.clone(), self.env.clone()).await {
                Ok(cluster) => break cluster,
                Err(_) => self.env.sleep(Duration::from_millis(200)).await,
            }
        };
        let office = cluster.election(election().as_str()).expect("a name");
        loop {
            let priority = i32::try_from(self.env.random_in(0..3)).expect("a small number");
            let Ok(leadership) = office.campaign_with(priority).await else { continue };
            self.elected.lock().won += 1;
            let leadership = Arc::new(leadership);
            self.one_leader.holds(&self.name, &leadership);
            let stays = self.env.random_time(Duration::from_secs(20));
            tokio::select! {
                biased;
                () = leadership.lost() => {}
                () = self.env.sleep(stays) => {}
                () = self.work(&leadership) => {}
            }
            match Arc::try_unwrap(leadership) {
                Ok(leadership) if self.env.chance(0.3) => self.hand_over(leadership).await,
                Ok(leadership) if self.env.chance(0.5) => drop(leadership.resign().await),
                _ => {}
            }
        }
    }

    async fn hand_over(&self, leadership: Leadership) {
        let to = format!("node{}", self.env.random_in(0..NODES as u64));
        drop(leadership.hand_over(&to.parse().expect("a name")).await);
    }

    /// Guarded commits, one after another, also when the leadership may be lost: the guard decides.
    async fn work(&self, leadership: &Leadership) {
        loop {
            let key = Key::from(format!("{WORK}{}", self.name).as_str());
            let mark = work(leadership.term().0, leadership.session().id());
            let outcome = self.store.commit(leadership.guarded(Commit::new().set(key, mark))).await;
            match outcome {
                Ok(_) => self.elected.lock().worked += 1,
                Err(_) => self.elected.lock().refused += 1,
            }
            self.env.sleep(self.env.random_time(Duration::from_millis(500))).await;
        }
    }
}
