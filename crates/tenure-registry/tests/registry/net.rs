//! Links between nodes of one process that a test can cut, hold and look at.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
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
use tenure_store::{Env, Name};
use tokio::sync::{mpsc, oneshot};

/// How long a sender waits before it is told that nothing is known.
const LOST_AFTER: Duration = Duration::from_millis(200);

/// How long a sender waits for a message that is held.
const HELD_AFTER: Duration = Duration::from_secs(10);

/// All links.
#[derive(Clone)]
pub(crate) struct Net {
    env: Env,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    nodes: BTreeMap<String, Line>,
    /// Who can't reach whom.
    cut: BTreeSet<(String, String)>,
    /// What is on its way from whom to whom and stands still.
    held: BTreeMap<(String, String), Vec<Held>>,
    /// How many messages went from whom to whom.
    sent: BTreeMap<(String, String), usize>,
}

struct Line {
    ground: Ground,
    topics: BTreeMap<Name, mpsc::UnboundedSender<Message>>,
}

struct Held {
    message: Message,
    session: SessionId,
    arrived: oneshot::Sender<()>,
}

/// One node's end of all links.
struct End {
    net: Net,
    me: Name,
}

impl Net {
    pub(crate) fn new(env: Env) -> Self {
        Self { env, lines: Arc::default() }
    }

    /// The end of a node.
    pub(crate) fn end(&self, ground: Ground) -> Arc<dyn Wire> {
        let me = ground.settings().node.clone();
        let line = Line { ground, topics: BTreeMap::new() };
        self.lines.lock().nodes.insert(me.to_string(), line);
        Arc::new(End { net: self.clone(), me })
    }

    /// From now on nothing gets from one to the other.
    pub(crate) fn cut(&self, from: &str, to: &str) {
        self.lines.lock().cut.insert((from.into(), to.into()));
    }

    /// From now on nothing gets from one to the other, or back.
    pub(crate) fn part(&self, one: &str, other: &str) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Everybody reaches everybody again.
    pub(crate) fn heal(&self) {
        self.lines.lock().cut.clear();
    }

    /// A node is no more.
    pub(crate) fn remove(&self, node: &str) {
        self.lines.lock().nodes.remove(node);
    }

    /// From now on, what goes from one to the other stands still.
    pub(crate) fn hold(&self, from: &str, to: &str) {
        self.lines.lock().held.entry((from.into(), to.into())).or_default();
    }

    /// How much stands still.
    pub(crate) fn holds(&self, from: &str, to: &str) -> usize {
        self.lines.lock().held.get(&(from.into(), to.into())).map_or(0, Vec::len)
    }

    /// Lets what stands still arrive, in order, and everything after it.
    pub(crate) fn release(&self, from: &str, to: &str) {
        let mut lines = self.lines.lock();
        for held in lines.held.remove(&(from.into(), to.into())).unwrap_or_default() {
            if lines.deliver(to, held.session, held.message).is_ok() {
                // Whoever sent it may have given up.
                let _ = held.arrived.send(());
            }
        }
    }

    /// How many messages went from one to the other so far.
    pub(crate) fn sent(&self, from: &str, to: &str) -> usize {
        self.lines.lock().sent.get(&(from.into(), to.into())).copied().unwrap_or_default()
    }
}

impl Lines {
    fn deliver(&self, to: &str, session: SessionId, message: Message) -> Result<(), NotSent> {
        let Some(line) = self.nodes.get(to) else {
            return Err(NotSent::Never(format!("there is no member {to}")));
        };
        if line.ground.session().id() != session {
            return Err(NotSent::Unknown(format!("{to} has another session by now")));
        }
        let receiver = line.topics.get(&message.topic);
        let refused = || NotSent::Refused("nobody receives there".into());
        receiver.ok_or_else(refused)?.send(message).map_err(|_| refused())
    }
}

#[async_trait]
impl Wire for End {
    async fn send(&self, to: &Name, topic: &Name, body: Bytes) -> Result<(), NotSent> {
        let held = {
            let mut lines = self.net.lines.lock();
            let pair = (self.me.to_string(), to.to_string());
            *lines.sent.entry(pair.clone()).or_default() += 1;
            let Some(me) = lines.nodes.get(self.me.as_str()) else {
                return Err(NotSent::Never("this node is no more".into()));
            };
            let from = Sender { node: self.me.clone(), session: me.ground.session().id() };
            let message = Message { id: MessageId::random(&self.net.env), from, topic: topic.clone(), body };
            let Some(session) = lines.nodes.get(to.as_str()).map(|line| line.ground.session().id()) else {
                return Err(NotSent::Never(format!("there is no member {to}")));
            };
            if lines.cut.contains(&pair) {
                None
            } else if let Some(held) = lines.held.get_mut(&pair) {
                let (arrived, waits) = oneshot::channel();
                held.push(Held { message, session, arrived });
                Some(waits)
            } else {
                return lines.deliver(to.as_str(), session, message);
            }
        };
        let arrives = match held {
            Some(waits) => self.net.env.timeout(HELD_AFTER, waits).await,
            None => {
                self.net.env.sleep(LOST_AFTER).await;
                return Err(NotSent::Unknown("no word came back".into()));
            }
        };
        match arrives {
            Ok(Ok(())) => Ok(()),
            _ => Err(NotSent::Unknown("no word came back in time".into())),
        }
    }

    fn receive(&self, topic: &Name) -> Box<dyn Incoming> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(line) = self.net.lines.lock().nodes.get_mut(self.me.as_str()) {
            line.topics.insert(topic.clone(), sender);
        }
        Box::new(Received(receiver))
    }

    fn message_bytes_max(&self) -> usize {
        1024 * 1024
    }
}

struct Received(mpsc::UnboundedReceiver<Message>);

#[async_trait]
impl Incoming for Received {
    async fn next(&mut self) -> Option<Message> {
        self.0.recv().await
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End").field("me", &self.me).finish_non_exhaustive()
    }
}
