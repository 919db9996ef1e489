//! [`World`]: what a simulated run has, and [`simulate`], which runs it.

use std::sync::Arc;

use tenure_store::{Env, Faults, MemoryStore, Store};

use crate::{Node, Trace};

/// One simulated run: its seed, its time and dice, its store, and the record of what happened.
#[derive(Clone, Debug)]
pub struct World {
    /// What everything follows from.
    pub seed: u64,
    /// Simulated time and randomness.
    pub env: Env,
    /// What happened so far.
    pub trace: Trace,
    /// The store, without faults: what really is.
    pub store: Arc<MemoryStore>,
}

impl World {
    /// A node with a name, on a link of its own to the store.
    #[must_use]
    pub fn node(&self, name: impl Into<String>, faults: Faults) -> Node {
        self.node_over(Arc::clone(&self.store) as Arc<dyn Store>, name, faults)
    }

    /// The same, on its way to this store, which should lead to the one of this world.
    #[must_use]
    pub fn node_over(&self, store: Arc<dyn Store>, name: impl Into<String>, faults: Faults) -> Node {
        Node::new(self, store, name.into(), faults)
    }
}

/// Runs a scenario from a seed, and returns what it gave and what happened.
pub fn simulate<T, Running: Future<Output = T>>(
    seed: u64,
    scenario: impl FnOnce(World) -> Running,
) -> (T, Trace) {
    run(seed, true, scenario)
}

/// The same, without a trace: for runs of which only the outcome counts. A trace costs more than all the rest.
pub fn simulate_quietly<T, Running: Future<Output = T>>(
    seed: u64,
    scenario: impl FnOnce(World) -> Running,
) -> T {
    run(seed, false, scenario).0
}

pub(crate) fn run<T, Running: Future<Output = T>>(
    seed: u64,
    traced: bool,
    scenario: impl FnOnce(World) -> Running,
) -> (T, Trace) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread can always be made").block_on(async {
        let env = Env::simulated(seed);
        let trace = Trace::new(env.clone(), traced);
        let world = World { seed, env, trace: trace.clone(), store: Arc::new(MemoryStore::new()) };
        (scenario(world).await, trace)
    })
}
