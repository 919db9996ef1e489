//! [`Life`]: what a node does to servers, in all ways, and what it writes down of it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_cluster::{Cluster, Settings};
use tenure_server::{CallOptions, Serve as _, ServerError, Serving, plant};
use tenure_store::{Env, Store};

use super::{
    Common,
    clerk::{Clerk, Outside, Reply, SERVERS, STAYING, Say},
    door::{Door, Told},
};
use crate::invariant::{Order, Outcome};

/// The one that is deleted now and then.
const TENT: usize = SERVERS.len() - 1;

/// Known limit of servers: of two answers that are given later, a caller that has read neither may hear the second one.
const ONE_ANSWER_EACH: bool = true;

/// What a node does.
pub(super) struct Life {
    pub(super) name: String,
    pub(super) consumes: bool,
    pub(super) common: Common,
    pub(super) env: Env,
    pub(super) store: Arc<dyn Store>,
    pub(super) settings: Settings,
    pub(super) busy: Arc<AtomicU64>,
    pub(super) joined: Arc<Mutex<Option<Cluster>>>,
}

/// A node that has joined.
struct Seat {
    life: Life,
    cluster: Cluster,
    doors: [Door; SERVERS.len()],
}

impl Life {
    pub(super) async fn run(self) {
        let cluster = loop {
            match Cluster::join_in(Arc::clone(&self.store), self.settings.clone(), self.env.clone()).await {
                Ok(cluster) => break cluster,
                Err(_) => self.env.sleep(Duration::from_millis(100)).await,
            }
        };
        plant(&cluster, self.common.flaws);
        if self.consumes {
            self.serve::<false>(&cluster);
            self.serve::<true>(&cluster);
        }
        *self.joined.lock() = Some(cluster.clone());
        let doors = Door::all(&cluster);
        let seat = Arc::new(Seat { life: self, cluster, doors });
        let (life, mut number) = (&seat.life, 0);
        while !life.common.is_trouble_over() {
            number += 1;
            seat.act(number).await;
            life.env.sleep(life.env.random_time(Duration::from_millis(250))).await;
        }
        life.busy.fetch_sub(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }

    /// Serves one of the kinds.
    fn serve<const IS_VAULT: bool>(&self, cluster: &Cluster) -> Serving {
        let outside = Outside { env: self.env.clone(), ..self.common.outside.clone() };
        cluster.serve_with(Clerk::<IS_VAULT>(outside)).expect("a name")
    }
}

fn options() -> CallOptions {
    CallOptions::default().timeout(Duration::from_secs(3))
}

/// What the sender of a message knows when it was told this.
fn outcome<T>(told: &Result<T, ServerError>) -> Outcome {
    match told {
        // What has failed is a dead letter, and is replayed in the end.
        Ok(_) | Err(ServerError::Failed { .. }) => Outcome::Acknowledged,
        Err(ServerError::Timeout { .. } | ServerError::OutcomeUnknown(_) | ServerError::Left) => {
            Outcome::Unknown
        }
        Err(_) => Outcome::Refused,
    }
}

impl Seat {
    /// Does one thing to one server.
    async fn act(self: &Arc<Self>, number: u64) {
        let env = &self.life.env;
        let to = index(env.random_in(0..SERVERS.len() as u64));
        let name = format!("{} {} {number:03}", SERVERS[to].1, self.life.name);
        let door = &self.doors[to];
        let note = || Say::Note(name.clone());
        let lock = || Say::Lock(name.clone(), env.random_in(0..400));
        match env.random_in(0..35) {
            0..4 => self.send(to, &name, Order::Kept, door.call(note(), options())).await,
            4..6 => self.send(to, &name, Order::Kept, door.cast(note())).await,
            6 => self.send_together(to, &name).await,
            7 => self.send_nowait(to, &name),
            8 => {
                let say = Say::Urgent(name.clone());
                self.send(to, &name, Order::Free, door.priority_call(say, options())).await;
            }
            9 => {
                let say = Say::Urgent(name.clone());
                self.send(to, &name, Order::Free, door.priority_cast(say)).await;
            }
            10 => self.send(to, &name, Order::Kept, door.call(lock(), options())).await,
            11 => self.send(to, &name, Order::Kept, door.cast(lock())).await,
            12..17 => self.give(&name, to).await,
            17 => self.send_later(to, &name).await,
            18 | 19 => {
                let say = Say::Arm(name.clone(), env.random_in(1..1500));
                self.life.common.records.lock().armed.push((to, name.clone()));
                self.send(to, &name, Order::Kept, door.call(say, options())).await;
            }
            20 => self.disarm(&name, to).await,
            21 => self.send(to, &name, Order::Kept, door.call(Say::Cause(name.clone()), options())).await,
            22 => self.send(to, &name, Order::Kept, door.cast(Say::Cause(name.clone()))).await,
            23 | 24 => self.poison(to, &name).await,
            25 | 26 => self.repeat(to, &name, if env.chance(0.2) { lock() } else { note() }).await,
            27 => self.ask(to, &name),
            28..31 => self.answer(number).await,
            31 => self.bury().await,
            32 => self.operate(to).await,
            _ => self.delete(&name).await,
        }
    }

    /// Sends one message, and writes down what is said of it.
    async fn send(&self, to: usize, name: &str, order: Order, sending: impl Future<Output = Told>) {
        let number = self.begin(to, name, order);
        let told = sending.await;
        self.told(to, name, number, &told);
        if let Err(ServerError::Failed { .. }) = told {
            self.life.common.count("failed");
        }
    }

    fn begin(&self, to: usize, name: &str, order: Order) -> usize {
        let common = &self.life.common;
        common.records.lock().journals[to].begin(name, order, common.now())
    }

    fn told(&self, to: usize, name: &str, number: usize, told: &Told) {
        self.came(to, name, number, told, outcome(told));
    }

    fn came(&self, to: usize, name: &str, number: usize, told: &Told, outcome: Outcome) {
        let common = &self.life.common;
        common.world.trace.record(format_args!("{name} was told of: {told:?}"));
        let place = match told {
            Ok(Some(Reply::Place(place))) => Some(*place),
            _ => None,
        };
        common.records.lock().journals[to].told(number, common.now(), outcome, place);
    }

    async fn send_together(&self, to: usize, name: &str) {
        let names: Vec<String> = (0..3).map(|part| format!("{name} {part}")).collect();
        let numbers: Vec<usize> = names.iter().map(|name| self.begin(to, name, Order::Kept)).collect();
        self.life.common.records.lock().together.begin(names.clone());
        let told = self.doors[to].cast_all(names.iter().cloned().map(Say::Note).collect()).await;
        for (name, number) in names.iter().zip(numbers) {
            self.told(to, name, number, &told);
        }
    }

    /// Nobody is ever told of it, but at once.
    fn send_nowait(&self, to: usize, name: &str) {
        let number = self.begin(to, name, Order::Kept);
        if let Err(error) = self.doors[to].cast_nowait(Say::Note(name.to_owned())) {
            self.told(to, name, number, &Err(error));
        }
    }

    /// Lets a server that stays give something to another.
    async fn give(&self, name: &str, to: usize) {
        let env = &self.life.env;
        let from = index(env.random_in(0..STAYING as u64));
        let name = format!("{} for {name}", SERVERS[from].1);
        let amount = if to < STAYING { i64::try_from(env.random_in(1..9)).expect("few") } else { 0 };
        let delay_ms = env.chance(0.3).then(|| env.random_in(1..1500));
        let say = Say::Give { name: name.clone(), to, amount, delay_ms };
        let door = &self.doors[from];
        match env.chance(0.5) {
            true => self.send(from, &name, Order::Kept, door.cast(say)).await,
            false => self.send(from, &name, Order::Kept, door.call(say, options())).await,
        }
    }

    async fn poison(&self, to: usize, name: &str) {
        self.life.common.records.lock().poisoned = to;
        let (door, say) = (&self.doors[to], Say::Poison(name.to_owned()));
        match self.life.env.chance(0.5) {
            true => self.send(to, name, Order::Free, door.cast(say)).await,
            false => self.send(to, name, Order::Free, door.call(say, options())).await,
        }
    }

    /// Sends for later, and may take it back.
    async fn send_later(&self, to: usize, name: &str) {
        let (common, env) = (&self.life.common, &self.life.env);
        let number = self.begin(to, name, Order::Free);
        let delay = env.random_time(Duration::from_millis(1500));
        let sent = self.doors[to].cast_after(delay, Say::Note(name.to_owned())).await;
        self.told(to, name, number, &sent.as_ref().map(|_| None).map_err(Clone::clone));
        let Ok(timer) = sent else { return };
        common.records.lock().timely.is_due(name, timer.at());
        if env.chance(0.6) {
            env.sleep(env.random_time(delay)).await;
            common.records.lock().journals[to].doubt(name);
            let cancelled = self.cluster.cancel(&timer).await;
            self.resolve(to, name, "cancelled", &cancelled);
        }
    }

    /// Lets a server cancel a timer of its own, one of the last.
    async fn disarm(&self, name: &str, to: usize) {
        let armed = {
            let records = self.life.common.records.lock();
            records.armed.iter().rev().find(|(at, _)| *at == to).map(|(_, armed)| armed.clone())
        };
        let Some(armed) = armed else { return };
        let say = Say::Disarm(name.to_owned(), armed);
        self.send(to, name, Order::Kept, self.doors[to].call(say, options())).await;
    }

    /// Asks the same twice, under one key.
    async fn repeat(&self, to: usize, name: &str, say: Say) {
        let env = &self.life.env;
        // Repeated, it is where it was.
        for order in [Order::Kept, Order::Free] {
            self.ask_with(to, name, order, say.clone(), options().idempotency_key(name)).await;
            env.sleep(env.random_time(Duration::from_millis(600))).await;
        }
    }

    /// Calls, and writes down the answer.
    async fn ask_with(&self, to: usize, name: &str, order: Order, say: Say, options: CallOptions) {
        let common = &self.life.common;
        let (number, begun) = (self.begin(to, name, order), common.now());
        let is_answered_later = matches!(say, Say::Ask(_));
        let told = self.doors[to].call(say, options).await;
        let outcome = match &told {
            // It may have been handled, and was still to be answered.
            Err(ServerError::Deleted(_)) if is_answered_later => Outcome::Unknown,
            told => outcome(told),
        };
        self.came(to, name, number, &told, outcome);
        if let Ok(Some(reply)) = &told {
            common.records.lock().answers.hears(name, &format!("{reply:?}"), begun, common.now());
        }
    }

    /// Asks what somebody is to answer later, some twice, while other things are done.
    fn ask(self: &Arc<Self>, to: usize, name: &str) {
        let (seat, name) = (Arc::clone(self), name.to_owned());
        self.life.common.records.lock().asked = to;
        self.life.busy.fetch_add(1, Ordering::SeqCst);
        self.life.env.spawn(async move {
            let say = Say::Ask(name.clone());
            match seat.life.env.chance(0.5) {
                true => seat.repeat(to, &name, say).await,
                false => seat.ask_with(to, &name, Order::Kept, say, options()).await,
            }
            seat.life.busy.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// Answers what somebody has asked: from here, or by a message to the server.
    async fn answer(&self, number: u64) {
        let (common, env) = (&self.life.common, &self.life.env);
        let to = common.records.lock().asked;
        let name = format!("{} {} {number:03}", SERVERS[to].1, self.life.name);
        let Ok(asked) = self.doors[to].asked().await else { return };
        let Some((asked, address)) = asked.iter().nth(index(env.random_in(0..asked.len().max(1) as u64)))
        else {
            return;
        };
        if ONE_ANSWER_EACH && common.records.lock().answers.is_given(asked) {
            return;
        }
        let reply = Reply::Given(name.clone());
        let number = common.records.lock().answers.gives(asked, &format!("{reply:?}"), common.now());
        // A server that is deleted may have forgotten who asked, and a message to it would give nothing.
        let is_given = if to < STAYING && env.chance(0.3) {
            let begun = self.begin(to, &name, Order::Kept);
            let told = self.doors[to].call(Say::Answer(name, asked.clone()), options()).await;
            self.told(to, asked, begun, &told);
            told.is_ok()
        } else {
            let given = self.cluster.reply(address, &reply).await;
            common.world.trace.record(format_args!("{asked} is answered with {name}: {given:?}"));
            given.is_ok()
        };
        if is_given {
            common.records.lock().answers.gave(asked, number, common.now());
        }
    }

    /// Replays a dead letter, or throws it away.
    async fn bury(&self) {
        let common = &self.life.common;
        let to = common.records.lock().poisoned;
        let door = &self.doors[to];
        let Ok(letters) = door.dead_letters().await else { return };
        let Some(letter) = letters.first() else { return };
        if self.life.env.chance(0.7) {
            if matches!(door.replay(letter.number).await, Ok(true)) {
                common.count("replayed");
            }
            return;
        }
        let text = letter.json().expect("messages can be read").0.to_string();
        let name = {
            let journal = &mut common.records.lock().journals[to];
            let name = journal.names().find(|name| text.contains(name)).map(str::to_owned);
            let name = name.expect("only what was sent dies");
            journal.doubt(&name);
            name
        };
        let dropped = door.drop_dead_letter(letter.number).await;
        self.resolve(to, &name, "thrown away", &dropped);
    }

    /// Whoever took a message back was told this.
    fn resolve(&self, to: usize, name: &str, how: &'static str, told: &Result<bool, ServerError>) {
        let common = &self.life.common;
        common.world.trace.record(format_args!("{name} is {how}: {told:?}"));
        if let Ok(is_gone) = told {
            let mut records = common.records.lock();
            records.journals[to].resolve(name, *is_gone);
            records.figures.add(how, u64::from(*is_gone));
        }
    }

    /// Stops a server for a while, or takes its lock away, or serves a kind no more for a while.
    async fn operate(&self, to: usize) {
        let (life, door) = (&self.life, &self.doors[to]);
        let pause = life.env.random_time(Duration::from_millis(400));
        // What comes of it is not asked: in the end, all are started.
        match life.env.random_in(0..3) {
            0 => drop(door.unlock().await),
            1 => {
                drop(door.stop().await);
                life.env.sleep(pause).await;
                drop(door.start().await);
            }
            _ if life.consumes => {
                drop(life.serve::<true>(&self.cluster).stop().await);
                life.env.sleep(pause).await;
                life.serve::<true>(&self.cluster);
            }
            _ => {}
        }
    }

    /// Deletes the one server that is not to stay: from here, or by a message to it.
    async fn delete(&self, name: &str) {
        let door = &self.doors[TENT];
        let told = match self.life.env.random_in(0..3) {
            0 => door.call(Say::End, options()).await.map(|_| true),
            1 => door.cast(Say::End).await.map(|_| true),
            _ => door.delete().await,
        };
        self.life.common.world.trace.record(format_args!("{name} deletes: {told:?}"));
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a small number")
}
