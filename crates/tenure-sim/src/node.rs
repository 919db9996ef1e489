//! [`Node`]: a simulated process's way to the store.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tenure_store::{
    Commit, CommitError, Env, Faults, Faulty, Limits, Range, Read, Receipt, Snapshot, Store, StoreError,
    Tally, Watch,
};

use crate::{Trace, World};

/// A simulated process, as far as the store knows it: a link that can fail and be cut, and dice of its own.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is called in the trace.
    pub name: String,
    /// Time and randomness for the code that runs on it.
    pub env: Env,
    link: Arc<Faulty>,
    trace: Trace,
}

impl Node {
    pub(crate) fn new(world: &World, store: Arc<dyn Store>, name: String, faults: Faults) -> Self {
        let link = Arc::new(Faulty::new(store, world.env.fork(), faults));
        Self { name, env: world.env.fork(), link, trace: world.trace.clone() }
    }

    /// The store as this node reaches it.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    /// Cuts the node off from the store.
    pub fn cut(&self) {
        self.record(format_args!("is cut off"));
        self.link.cut();
    }

    /// Connects the node again.
    pub fn heal(&self) {
        self.record(format_args!("is connected"));
        self.link.heal();
    }

    /// From now on, these faults.
    pub fn set_faults(&self, faults: Faults) {
        self.link.set_faults(faults);
    }

    /// What was injected so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.link.tally()
    }

    /// Adds an event of this node to the trace.
    pub fn record(&self, event: fmt::Arguments<'_>) {
        self.trace.record(format_args!("{} {event}", self.name));
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name, self.link)
    }
}

#[async_trait]
impl Store for Node {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.record(format_args!("reads {reads:?}"));
        let answer = self.link.read(reads).await;
        self.record(format_args!("reads -> {answer:?}"));
        answer
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.record(format_args!("commits {commit:?}"));
        let answer = self.link.commit(commit).await;
        self.record(format_args!("commits -> {answer:?}"));
        answer
    }

    fn watch(&self, range: Range) -> Watch {
        self.record(format_args!("watches {range:?}"));
        self.link.watch(range)
    }

    fn limits(&self) -> Limits {
        self.link.limits()
    }
}
