//! Nodes whose membership a test writes by hand.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure_cluster::{
    SessionId,
    peer::{BoundLinks, Directory, LinkSettings, Links, Message, Outcome, Peer, SendError, Subscription},
};
use tenure_store::{Env, Name, Password};

/// What all nodes know, unless a test says otherwise.
pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// How long to wait for what must come, on a machine that does other things as well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for what must not come.
const SILENCE: Duration = Duration::from_millis(200);

/// What one node knows about the members.
#[derive(Debug)]
pub(crate) struct Book {
    me: Mutex<Peer>,
    members: Mutex<BTreeMap<Name, Peer>>,
}

/// A node with its links.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) links: Links,
    pub(crate) book: Arc<Book>,
}

impl Directory for Book {
    fn me(&self) -> Peer {
        self.me.lock().unwrap().clone()
    }

    fn find(&self, node: &Name) -> Option<Peer> {
        self.members.lock().unwrap().get(node).cloned()
    }

    fn live(&self) -> Vec<Peer> {
        self.members.lock().unwrap().values().cloned().collect()
    }
}

impl Book {
    /// Tells of a member, or of its present session.
    pub(crate) fn learn(&self, peer: Peer) {
        self.members.lock().unwrap().insert(peer.node.clone(), peer);
    }

    /// Tells that a member is gone.
    pub(crate) fn forget(&self, node: &Name) {
        self.members.lock().unwrap().remove(node);
    }
}

impl Node {
    pub(crate) async fn start(node: &str, settings: LinkSettings) -> Self {
        let bound = BoundLinks::bind(settings).await.unwrap();
        let me = peer(node, Some(bound.address().to_string()));
        let members = BTreeMap::from([(me.node.clone(), me.clone())]);
        let book = Arc::new(Book { me: Mutex::new(me), members: Mutex::new(members) });
        let directory: Arc<dyn Directory> = Arc::<Book>::clone(&book);
        Self { links: bound.start(name("test"), directory, Env::system()), book }
    }

    pub(crate) fn me(&self) -> Peer {
        self.book.me()
    }

    pub(crate) fn name(&self) -> Name {
        self.me().node
    }

    /// Where this node believes another to be.
    pub(crate) fn book_address(&self, other: &Node) -> Option<String> {
        self.book.find(&other.name()).and_then(|peer| peer.address)
    }

    /// A new session, which only this node knows of yet.
    pub(crate) fn rejoin(&self) {
        let mut me = self.book.me.lock().unwrap();
        me.session = SessionId::random(&Env::system());
        self.book.learn(me.clone());
    }

    pub(crate) fn subscribe(&self, topic: &str) -> Subscription {
        self.links.subscribe(&name(topic))
    }

    pub(crate) async fn send(&self, to: &Node, topic: &str, body: &str) -> Result<(), SendError> {
        self.links.send(&to.name(), &name(topic), body.to_owned()).await
    }

    /// Sends what will not be delivered, and why.
    pub(crate) async fn fail(&self, to: &Node, topic: &str, body: &str) -> Outcome {
        match self.send(to, topic, body).await.unwrap_err() {
            SendError::NotDelivered { outcome, .. } => outcome,
            error => panic!("{error}"),
        }
    }
}

/// The settings of all nodes, unless a test says otherwise.
pub(crate) fn settings() -> LinkSettings {
    LinkSettings { secret: Some(Password::new(SECRET)), ..bare() }
}

/// The same, without anything that proves who is who.
pub(crate) fn bare() -> LinkSettings {
    LinkSettings {
        deadline: PATIENCE,
        connect_timeout: PATIENCE,
        ..LinkSettings::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }
}

/// Two nodes that know each other.
pub(crate) async fn pair(first: LinkSettings, second: LinkSettings) -> (Node, Node) {
    let (a, b) = (Node::start("a", first).await, Node::start("b", second).await);
    introduce(&[&a, &b]);
    (a, b)
}

/// Tells all nodes of all.
pub(crate) fn introduce(nodes: &[&Node]) {
    for node in nodes {
        nodes.iter().for_each(|other| node.book.learn(other.me()));
    }
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn peer(node: &str, address: Option<String>) -> Peer {
    Peer { node: name(node), session: SessionId::random(&Env::system()), address }
}

/// The next message, which must come.
pub(crate) async fn receive(subscription: &mut Subscription) -> Message {
    Env::system().timeout(PATIENCE, subscription.recv()).await.unwrap().unwrap()
}

/// The next message as text.
pub(crate) async fn receive_text(subscription: &mut Subscription) -> String {
    String::from_utf8(receive(subscription).await.body.to_vec()).unwrap()
}

/// Nothing more comes.
pub(crate) async fn silent(subscription: &mut Subscription) {
    let message = Env::system().timeout(SILENCE, subscription.recv()).await;
    assert!(message.is_err(), "{message:?}");
}

/// Nothing comes, since it has ended.
pub(crate) async fn ended(subscription: &mut Subscription) {
    assert_eq!(Env::system().timeout(PATIENCE, subscription.recv()).await.unwrap(), None);
}

/// Waits until something is true.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let env = Env::system();
    let start = env.now();
    while !condition() {
        assert!(env.now() - start < PATIENCE, "{what}");
        env.sleep(Duration::from_millis(5)).await;
    }
}

/// A listener that takes connections and never answers, and its address.
pub(crate) fn hung() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// An address where nobody listens.
pub(crate) fn dead() -> String {
    hung().1
}
