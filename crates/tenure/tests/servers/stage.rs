//! [`Stage`]: nodes of a cluster of their own in one store, and what is to be seen there.

use std::{sync::Arc, time::Duration};

use tenure::{
    cluster::Keys,
    prelude::*,
    server::Status,
    store::{Faults, Faulty},
};

use crate::ledger::{Ledger, World};

/// How long something may take that must happen: far longer than it does, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(40);

/// Between two looks for something that must happen.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// The server of every trial.
pub(crate) const ID: &str = "main";

/// A cluster of its own in a store.
pub(crate) struct Stage {
    url: String,
    name: String,
    /// Another way to the store, to look at it.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Keys,
    pub(crate) env: Env,
}

/// A node, and its way to the store.
pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) link: Arc<Faulty>,
}

impl Node {
    pub(crate) fn ledger(&self, id: &str) -> ServerRef<Ledger> {
        self.cluster.server(id).unwrap()
    }

    pub(crate) fn main(&self) -> ServerRef<Ledger> {
        self.ledger(ID)
    }

    /// Consumes from now on.
    pub(crate) fn consume(&self) -> Arc<World> {
        let world = Arc::new(World::default());
        self.cluster.serve_with(Ledger(Arc::clone(&world))).unwrap();
        world
    }
}

/// Opens the store, though it may be without a leader of its own for a moment, as etcd is on a machine that is busy.
async fn open(url: &str, env: &Env) -> Arc<dyn Store> {
    let until = env.now().after(PATIENCE);
    loop {
        match tenure::open(url).await {
            Ok(store) => return store,
            Err(StoreError::Unavailable(_)) if env.now() < until => env.sleep(LOOK_PAUSE).await,
            Err(error) => panic!("the store can't be opened: {error}"),
        }
    }
}

/// What the store has for the server of a trial, as of one instant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) head: bool,
    /// Parts of the state that speak of `one`, the line that every trial begins with. A consumer may store a state without lines before.
    pub(crate) state: usize,
    pub(crate) queued: usize,
    pub(crate) effects: usize,
    /// Keys of answers to the caller.
    pub(crate) answers: usize,
}

impl Stage {
    pub(crate) async fn new(url: String) -> Self {
        let env = Env::system();
        // Stores may be older than this run.
        let name = format!("servers-{:016x}", env.random_u64());
        let (store, keys) = (open(&url, &env).await, Keys::new(&name.parse().unwrap()));
        Self { url, name, store, keys, env }
    }

    pub(crate) async fn join(&self, node: &str) -> Node {
        self.join_other(&self.name, node).await
    }

    /// A node of another cluster in the same store.
    pub(crate) async fn join_other(&self, cluster: &str, node: &str) -> Node {
        let store = tenure::open(&self.url).await.unwrap();
        let link = Arc::new(Faulty::new(store, Env::system(), Faults::NONE));
        let settings = Settings::new(cluster, node).unwrap();
        let cluster = Cluster::join(Arc::clone(&link) as Arc<dyn Store>, settings).await.unwrap();
        Node { cluster, link }
    }

    /// A caller that does not consume, and a node that does not yet.
    pub(crate) async fn pair(&self) -> (Node, Node) {
        (self.join("caller").await, self.join("consumer").await)
    }

    fn place(&self, word: &str) -> Tuple {
        self.keys.area(word).text(Ledger::KIND).text(ID)
    }

    /// All of it in one read.
    pub(crate) async fn look(&self, caller: &Node) -> Seen {
        let answers = self.keys.belongings(caller.cluster.session().id()).text("reply").range();
        let list = |word| Read::List { list: self.place(word).key(), after: None, limit: 100 };
        let range = |range| Read::Range { range, limit: 100 };
        let reads = vec![
            Read::Key(self.place("head").key()),
            range(self.place("state").range()),
            list("queue"),
            list("effect"),
            range(answers),
        ];
        let found = self.store.read(reads).await.unwrap();
        Seen {
            head: found.key(0).is_some(),
            state: found
                .range(1)
                .items
                .iter()
                .filter(|item| item.value.windows(3).any(|word| word == b"one"))
                .count(),
            queued: found.list(2).items.len(),
            effects: found.list(3).items.len(),
            answers: found.range(4).items.len(),
        }
    }

    /// The last words of all keys that belong to a node's session.
    pub(crate) async fn belongings(&self, node: &Node) -> Vec<String> {
        let range = self.keys.belongings(node.cluster.session().id()).range();
        let found = self.store.scan(&range, 100).await.unwrap();
        found.items.iter().map(|item| item.key.to_string()).collect()
    }

    /// How many keys of the trial's server there are in an area.
    pub(crate) async fn count(&self, word: &str) -> usize {
        self.store.scan(&self.place(word).range(), 100).await.unwrap().items.len()
    }

    /// Waits until it is so, which it must become.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, mut so: impl FnMut() -> F) {
        let start = self.env.now();
        while !so().await {
            assert!(self.env.now() - start < PATIENCE, "{what}: it took longer than {PATIENCE:?}");
            self.env.sleep(LOOK_PAUSE).await;
        }
    }

    /// Waits until no answer to this node is in the store.
    pub(crate) async fn until_cleared(&self, caller: &Node) {
        self.until("answers that were read are cleared", || async { self.look(caller).await.answers == 0 })
            .await;
        let own = self.belongings(caller).await;
        assert!(own.iter().all(|key| !key.contains("reply")), "{own:?}");
    }
}

pub(crate) async fn lines(ledger: &ServerRef<Ledger>) -> Vec<String> {
    ledger.read(|page| page.lines.clone()).await.unwrap()
}

pub(crate) async fn status(ledger: &ServerRef<Ledger>) -> Status {
    ledger.status().await.unwrap().unwrap()
}

/// Waits far longer than anything takes.
pub(crate) fn patient() -> CallOptions {
    CallOptions::default().timeout(PATIENCE)
}
