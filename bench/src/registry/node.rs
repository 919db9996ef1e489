//! What a node does: it takes part in the registry, and does what it is told by lines.

use std::{process::ExitCode, sync::Arc, thread, time::Duration};

use tenure_bench::{
    counted::Counted,
    figures::{quantile, resident_kib},
};
use tenure_cluster::{
    Cluster, Settings,
    peer::LinkSettings,
    will::{self, Will, WillProgram},
};
use tenure_registry::{Mailbox, Metadata, Registration, Registries as _, Registry, RegistryError, mailbox};
use tenure_store::{Env, Store};
use tokio::runtime::Runtime;

use crate::{
    bench::{CLUSTER, REGISTRY},
    crowd::at_work,
    process::EXECUTOR,
    task::{Done, Look, Start, Task, Work},
};

/// Longer than anything takes on any store, also on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many names are registered at once where that is not what is measured.
const AT_ONCE: u64 = 512;

/// How many messages wait in the mailbox that answers.
const ROOM: usize = 4096;

/// After something that did not succeed yet.
const PAUSE: Duration = Duration::from_millis(2);

/// How long the executor of a last will stays when all is done: some stores tell others of a commit only after it was made.
const TELLING: Duration = Duration::from_millis(500);

/// Keeps a last will.
pub(crate) fn executor() -> ExitCode {
    will::executor(end_session)
}

fn end_session(will: &Will) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let store = tenure::open(will.url()).await.map_err(|error| error.to_string())?;
        will::carry_out(will, Arc::clone(&store)).await.map_err(|error| error.to_string())?;
        Env::system().sleep(TELLING).await;
        Ok(())
    })
}

/// A name of those that are kept.
fn name(number: u64) -> String {
    format!("device/{number}")
}

/// Is a node until it is told to leave.
pub(crate) fn run() {
    let mut lines = std::io::stdin().lines().map_while(Result::ok);
    let start: Start = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let runtime = tenure_bench::runtime();
    let mut node = runtime.block_on(Node::join(&start));
    say(&Done::Look(node.look()));
    for line in lines {
        let task: Task = serde_json::from_str(&line).unwrap();
        if matches!(task, Task::Leave) {
            say(&Done::At(now()));
            runtime.block_on(node.cluster.leave());
            return;
        }
        let done = node.run(&runtime, task);
        say(&done);
    }
}

fn say(done: &Done) {
    println!("{}", serde_json::to_string(done).unwrap());
}

fn now() -> u64 {
    u64::try_from(Env::system().now().since_start().as_nanos()).unwrap()
}

struct Node {
    counted: Arc<Counted>,
    cluster: Cluster,
    registry: Registry,
    mailbox: Mailbox<u64, u64>,
    own: Vec<Registration>,
    load: Duration,
}

impl Node {
    async fn join(start: &Start) -> Self {
        let store = tenure::open(&start.url).await.unwrap();
        let counted = Arc::new(Counted::new(store, &CLUSTER.parse().unwrap()));
        let mut settings = Settings::new(CLUSTER, &start.node).unwrap();
        let mut links = LinkSettings::new("127.0.0.1:0".parse().unwrap());
        links.insecure_on_loopback = true;
        settings.links = Some(links);
        let program = WillProgram::new(std::env::current_exe().unwrap(), &start.url).unwrap();
        settings.last_will = Some(program.argument(EXECUTOR));
        let cluster = Cluster::join(Arc::clone(&counted) as Arc<dyn Store>, settings).await.unwrap();
        let env = Env::system();
        let begun = env.now();
        let registry = cluster.registry(REGISTRY).await.unwrap();
        let load = env.now() - begun;
        registry.ready(PATIENCE).await.unwrap();
        let (mailbox, mut inbox) = mailbox::<u64, u64>(ROOM);
        tokio::spawn(async move {
            while let Some(letter) = inbox.recv().await {
                let number = letter.message;
                letter.reply(&number).unwrap();
            }
        });
        Self { counted, cluster, registry, mailbox, own: Vec::new(), load }
    }

    fn run(&mut self, runtime: &Runtime, task: Task) -> Done {
        match task {
            Task::Look => Done::Look(self.look()),
            Task::Register { prefix, flights, seconds } => {
                Done::Work(runtime.block_on(self.register(&prefix, flights, seconds)))
            }
            Task::Own { from, to } => {
                runtime.block_on(self.own(from, to));
                Done::Nothing
            }
            Task::Disown => {
                self.own.clear();
                Done::Nothing
            }
            Task::LookUp { names, threads, seconds } => Done::Work(self.look_up(names, threads, seconds)),
            Task::Call { from, to, flights, seconds } => {
                Done::Work(runtime.block_on(self.call(from, to, flights, seconds)))
            }
            Task::Ask { names, flights, seconds } => {
                Done::Work(runtime.block_on(self.ask(names, flights, seconds)))
            }
            Task::Probe { epoch } => {
                runtime.block_on(self.probe(epoch));
                Done::At(now())
            }
            Task::Leave => unreachable!("leaving is the end"),
        }
    }

    fn look(&self) -> Look {
        let status = self.registry.status();
        Look {
            leads: status.leads(),
            epoch: status.epoch,
            names: status.names,
            resident_kib: resident_kib(),
            counts: self.counted.counts(),
            load_ms: self.load.as_secs_f64() * 1e3,
        }
    }

    async fn register(&self, prefix: &str, flights: u64, seconds: f64) -> Work {
        let (registry, mailbox, prefix) = (self.registry.clone(), self.mailbox.clone(), prefix.to_owned());
        let before = self.counted.counts();
        let (mut work, made) = at_work(flights, seconds, move |flight, turn| {
            let (registry, mailbox) = (registry.clone(), mailbox.clone());
            let name = format!("{prefix}/{flight}/{turn}");
            async move { registry.register_with(&name, &mailbox, Metadata::new(), PATIENCE).await }
        })
        .await;
        work.counts = self.counted.counts() - before;
        drop(made);
        let all_back = async {
            while self.registry.status().waiting > 0 {
                Env::system().sleep(PAUSE).await;
            }
        };
        Env::system().timeout(PATIENCE, all_back).await.expect("names can be taken back");
        work
    }

    async fn own(&mut self, from: u64, to: u64) {
        let mut making = Vec::new();
        for flight in 0..AT_ONCE {
            let (registry, mailbox) = (self.registry.clone(), self.mailbox.clone());
            making.push(tokio::spawn(async move {
                let mut made = Vec::new();
                for number in (from + flight..to).step_by(usize::try_from(AT_ONCE).unwrap()) {
                    made.push(registered(&registry, &name(number), &mailbox).await);
                }
                made
            }));
        }
        for made in making {
            self.own.extend(made.await.unwrap());
        }
    }

    fn look_up(&self, names: u64, threads: u64, seconds: f64) -> Work {
        let names = shuffled(names);
        let count = self.look_up_by(&names, threads, seconds);
        let counted: u64 = count.iter().sum();
        // Once more, with the clock read around each.
        let mut times = Vec::new();
        let env = Env::system();
        thread::scope(|scope| {
            let timed: Vec<_> = (0..threads)
                .map(|thread| {
                    let (names, env) = (&names, env.clone());
                    scope.spawn(move || {
                        let mut times = Vec::new();
                        for name in scattered(names, thread).take(200_000) {
                            let asked = env.now();
                            assert!(self.registry.whereis(name).is_some());
                            times.push((env.now() - asked).as_secs_f64() * 1e3);
                        }
                        times
                    })
                })
                .collect();
            timed.into_iter().for_each(|timed| times.extend(timed.join().unwrap()));
        });
        let p50_p99 = Some((quantile(&mut times, 0.5), quantile(&mut times, 0.99)));
        Work { count: counted, seconds, p50_p99, ..Work::default() }
    }

    /// How many look-ups each of some threads makes in a time.
    fn look_up_by(&self, names: &[String], threads: u64, seconds: f64) -> Vec<u64> {
        let env = Env::system();
        let end = env.now().after(Duration::from_secs_f64(seconds));
        thread::scope(|scope| {
            let working: Vec<_> = (0..threads)
                .map(|thread| {
                    let env = env.clone();
                    scope.spawn(move || {
                        let mut count = 0;
                        for name in scattered(names, thread) {
                            assert!(self.registry.whereis(name).is_some());
                            count += 1;
                            if count % 1024 == 0 && env.now() >= end {
                                break;
                            }
                        }
                        count
                    })
                })
                .collect();
            working.into_iter().map(|working| working.join().unwrap()).collect()
        })
    }

    async fn call(&self, from: u64, to: u64, flights: u64, seconds: f64) -> Work {
        let (registry, before) = (self.registry.clone(), self.counted.counts());
        let (mut work, _) = at_work(flights, seconds, move |flight, turn| {
            let registry = registry.clone();
            let name = name(from + (flight * 7919 + turn * 31) % (to - from));
            async move { registry.call::<u64, u64>(&name, &turn, PATIENCE).await }
        })
        .await;
        work.counts = self.counted.counts() - before;
        work
    }

    async fn ask(&self, names: u64, flights: u64, seconds: f64) -> Work {
        let (registry, before) = (self.registry.clone(), self.counted.counts());
        let (mut work, _) = at_work(flights, seconds, move |flight, turn| {
            let registry = registry.clone();
            let name = name((flight * 7919 + turn * 31) % names);
            async move { registry.whereis_consistent(&name).await.map(|entry| assert!(entry.is_some())) }
        })
        .await;
        work.counts = self.counted.counts() - before;
        work
    }

    async fn probe(&self, epoch: u64) {
        for number in 0_u64.. {
            let name = format!("probe/{number}");
            let probe = registered(&self.registry, &name, &self.mailbox).await;
            let entry = self.registry.whereis(&name);
            if entry.is_some_and(|entry| entry.number() == probe.number() && entry.epoch() > epoch) {
                return;
            }
        }
    }
}

/// All names in an order that has nothing to do with where they are kept, from another one on for each thread, without end. They lie in memory in this order: whoever looks a
/// name up has it at hand.
fn scattered(names: &[String], thread: u64) -> impl Iterator<Item = &str> {
    let skipped = usize::try_from(thread).unwrap() * names.len() / 2;
    names.iter().cycle().skip(skipped).map(String::as_str)
}

/// So many names, shuffled.
fn shuffled(count: u64) -> Vec<String> {
    let env = Env::system();
    let mut numbers: Vec<u64> = (0..count).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, usize::try_from(env.random_in(0..at as u64 + 1)).unwrap());
    }
    numbers.into_iter().map(name).collect()
}

/// Registers a name, as soon as it is free.
async fn registered(registry: &Registry, name: &str, mailbox: &Mailbox<u64, u64>) -> Registration {
    let env = Env::system();
    let start = env.now();
    loop {
        match registry.register_with(name, mailbox, Metadata::new(), PATIENCE).await {
            Ok(registration) => return registration,
            Err(error) => {
                let passes = error.is_transient() || matches!(error, RegistryError::Taken { .. });
                assert!(passes && env.now() - start < PATIENCE, "{name} could not be registered: {error}");
                env.sleep(PAUSE).await;
            }
        }
    }
}
