//! [`Net`]: what carries messages from process to process, with faults.
//!
//! It keeps the obligations of [`Wire`], and no more: from one session to another messages arrive in order, at most once each, and only at the session that they
//! were sent to. Any of them may get lost, and so may the word that one has arrived. A process that stands still takes nothing in, and what was on its way waits; one that was
//! killed takes nothing any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tenure_cluster::{
    Ground, SessionId,
    peer::{Message, MessageId, Sender},
};
use tenure_registry::{Incoming, NotSent, Wire};
use tenure_store::{Env, Moment, Name};
use tokio::sync::{mpsc, oneshot};

use crate::Trace;

/// How long a sender waits for the word that a message has arrived.
const PATIENCE: Duration = Duration::from_millis(400);

/// The most bytes of one message.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// How likely each fault is, from 0 to 1, for each message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFaults {
    /// It never arrives.
    pub lost: f64,
    /// It arrives, and the sender does not hear of it.
    pub unconfirmed: f64,
    /// The sender does not know of the member.
    pub unknown: f64,
    /// It takes up to this long.
    pub delay: Duration,
}

impl LinkFaults {
    /// No faults.
    pub const NONE: Self = Self { lost: 0.0, unconfirmed: 0.0, unknown: 0.0, delay: Duration::ZERO };
}

/// What became of messages so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetTally {
    /// Messages that were sent.
    pub sent: u64,
    /// Those that got lost.
    pub lost: u64,
    /// Those that arrived without the sender hearing of it.
    pub unconfirmed: u64,
    /// Those that were stopped because two processes could not reach each other.
    pub parted: u64,
    /// Those that came too late: the session that they were for was no more.
    pub outdated: u64,
}

/// What connects all processes. Clones are the same.
#[derive(Clone, Debug)]
pub struct Net(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    env: Env,
    trace: Trace,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    faults: LinkFaults,
    tally: NetTally,
    /// From whom nothing arrives at whom.
    parted: BTreeSet<(Name, Name)>,
    stations: BTreeMap<Name, Station>,
    ways: BTreeMap<(SessionId, SessionId), mpsc::UnboundedSender<Letter>>,
}

/// Where a process receives.
#[derive(Clone, Debug)]
struct Station {
    ground: Ground,
    door: mpsc::UnboundedSender<Arrival>,
    inboxes: Arc<Mutex<BTreeMap<Name, mpsc::UnboundedSender<Message>>>>,
}

/// A message on its way.
#[derive(Debug)]
struct Letter {
    due: Moment,
    to: Name,
    lost: bool,
    arrival: Arrival,
}

/// A message that is at the door of whom it is for.
#[derive(Debug)]
struct Arrival {
    session: SessionId,
    message: Message,
    /// Nobody, if that word is lost.
    told: Option<oneshot::Sender<Result<(), NotSent>>>,
}

impl Net {
    /// Connects processes, with these faults.
    #[must_use]
    pub fn new(env: Env, trace: Trace, faults: LinkFaults) -> Self {
        let state = State {
            faults,
            tally: NetTally::default(),
            parted: BTreeSet::new(),
            stations: BTreeMap::new(),
            ways: BTreeMap::new(),
        };
        Self(Arc::new(Inner { env, trace, state: Mutex::new(state) }))
    }

    /// From now on, these faults.
    pub fn set_faults(&self, faults: LinkFaults) {
        self.0.state.lock().faults = faults;
    }

    /// Nothing from the one arrives at the other any more.
    pub fn part(&self, from: &Name, to: &Name) {
        self.0.trace.record(format_args!("nothing from {from} arrives at {to}"));
        self.0.state.lock().parted.insert((from.clone(), to.clone()));
    }

    /// All reach all again.
    pub fn heal(&self) {
        self.0.trace.record(format_args!("all reach all"));
        self.0.state.lock().parted.clear();
    }

    /// What became of messages so far.
    #[must_use]
    pub fn tally(&self) -> NetTally {
        self.0.state.lock().tally
    }

    /// The way of a process to all others, and theirs to it. Its tasks are those of `ground`: so it stands still and dies with the process.
    #[must_use]
    pub fn attach(&self, ground: Ground) -> Arc<dyn Wire> {
        let (door, arrivals) = mpsc::unbounded_channel();
        let station = Station { ground: ground.clone(), door, inboxes: Arc::default() };
        ground.env().spawn(receive(self.clone(), station.clone(), arrivals));
        let node = ground.settings().node.clone();
        self.0.state.lock().stations.insert(node, station.clone());
        Arc::new(Way { net: self.clone(), station })
    }

    /// Hands a message over to be carried. Returns the word of what came of it.
    fn post(
        &self,
        from: &Sender,
        to: &Name,
        topic: &Name,
        body: Bytes,
    ) -> Result<oneshot::Receiver<Result<(), NotSent>>, NotSent> {
        let (env, mut state) = (&self.0.env, self.0.state.lock());
        state.tally.sent += 1;
        let faults = state.faults;
        if env.chance(faults.unknown) {
            return Err(NotSent::Never(format!("{to} is not known")));
        }
        let Some(station) = state.stations.get(to).cloned() else {
            return Err(NotSent::Never(format!("{to} has no address")));
        };
        let (told, word) = oneshot::channel();
        let (lost, unconfirmed) = (env.chance(faults.lost), env.chance(faults.unconfirmed));
        state.tally.lost += u64::from(lost);
        state.tally.unconfirmed += u64::from(unconfirmed && !lost);
        let session = station.ground.session().id();
        let id = MessageId::random(env);
        let message = Message { id, from: from.clone(), topic: topic.clone(), body };
        let letter = Letter {
            due: env.now().after(env.random_time(faults.delay)),
            to: to.clone(),
            lost,
            arrival: Arrival { session, message, told: (!unconfirmed).then_some(told) },
        };
        self.0.trace.record(format_args!("{} sends to {to}: {letter:?}", from.node));
        let way = state.ways.entry((from.session, session)).or_insert_with(|| {
            let (way, letters) = mpsc::unbounded_channel();
            tokio::spawn(carry(self.clone(), station.door.clone(), letters));
            way
        });
        // Whoever carries lives as long as this.
        let _ = way.send(letter);
        Ok(word)
    }

    fn is_parted(&self, from: &Name, to: &Name) -> bool {
        self.0.state.lock().parted.contains(&(from.clone(), to.clone()))
    }
}

/// Carries what one session sends to another, in order.
async fn carry(net: Net, door: mpsc::UnboundedSender<Arrival>, mut letters: mpsc::UnboundedReceiver<Letter>) {
    while let Some(Letter { due, to, lost, mut arrival }) = letters.recv().await {
        net.0.env.sleep(due - net.0.env.now()).await;
        let from = arrival.message.from.node.clone();
        let parted = net.is_parted(&from, &to);
        if parted {
            net.0.state.lock().tally.parted += 1;
        }
        if lost || parted {
            continue;
        }
        if net.is_parted(&to, &from) {
            arrival.told = None;
        }
        // A process that was killed has no door.
        let _ = door.send(arrival);
    }
}

/// Takes in what is for the present session of a process.
async fn receive(net: Net, station: Station, mut arrivals: mpsc::UnboundedReceiver<Arrival>) {
    while let Some(Arrival { session, message, told }) = arrivals.recv().await {
        let present = station.ground.session();
        let outcome = if present.id() != session || present.ended().is_some() {
            net.0.state.lock().tally.outdated += 1;
            Err(NotSent::Refused("that session is no more".into()))
        } else {
            let inbox = station.inboxes.lock().get(&message.topic).cloned();
            let taken = inbox.is_some_and(|inbox| inbox.send(message).is_ok());
            if taken { Ok(()) } else { Err(NotSent::Refused("nobody receives there".into())) }
        };
        if let Some(told) = told {
            // The sender may have given up.
            let _ = told.send(outcome);
        }
    }
}

/// One process's way to all others.
#[derive(Debug)]
struct Way {
    net: Net,
    station: Station,
}

#[async_trait]
impl Wire for Way {
    async fn send(&self, to: &Name, topic: &Name, body: Bytes) -> Result<(), NotSent> {
        let ground = &self.station.ground;
        let from = Sender { node: ground.settings().node.clone(), session: ground.session().id() };
        let word = self.net.post(&from, to, topic, body)?;
        let waiting = async {
            match word.await {
                Ok(outcome) => outcome,
                Err(_) => std::future::pending().await,
            }
        };
        let outcome = ground.env().timeout(PATIENCE, waiting).await;
        outcome.unwrap_or_else(|_| Err(NotSent::Unknown(format!("{to} has not confirmed in time"))))
    }

    fn receive(&self, topic: &Name) -> Box<dyn Incoming> {
        let (inbox, messages) = mpsc::unbounded_channel();
        self.station.inboxes.lock().insert(topic.clone(), inbox);
        Box::new(Inbox(messages))
    }

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }
}

struct Inbox(mpsc::UnboundedReceiver<Message>);

#[async_trait]
impl Incoming for Inbox {
    async fn next(&mut self) -> Option<Message> {
        self.0.recv().await
    }
}
