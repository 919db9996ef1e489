//! The conformance suite on the memory store, and on every wrapper around it: a wrapper is a store.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tenure_store::{
    Commit, Env, Faults, Faulty, Key, Limited, Limits, Measured, MemoryStore, Name, Prefixed, Range, Read,
    Snapshot, Store, testkit::Handles,
};

fn share(store: impl Store) -> Arc<dyn Store> {
    Arc::new(store)
}

fn wrapped(count: usize, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Handles {
    let memory = share(MemoryStore::new());
    Handles::new((0..count).map(|_| wrap(Arc::clone(&memory))).collect(), ())
}

mod memory {
    use super::*;

    async fn open(count: usize) -> Handles {
        Handles::new(vec![share(MemoryStore::new()); count], ())
    }

    tenure_store::conformance!(open);
}

mod limited {
    use super::*;

    async fn open(count: usize) -> Handles {
        wrapped(count, |store| share(Limited::new(store, Limits::PORTABLE)))
    }

    tenure_store::conformance!(open);
}

mod measured {
    use super::*;

    async fn open(count: usize) -> Handles {
        wrapped(count, |store| share(Measured::new(store, Env::system())))
    }

    tenure_store::conformance!(open);
}

mod faulty {
    use super::*;

    async fn open(count: usize) -> Handles {
        wrapped(count, |store| share(Faulty::new(store, Env::system(), Faults::NONE)))
    }

    tenure_store::conformance!(open);
}

mod prefixed {
    use super::*;

    /// Clusters and keys on both sides of the one that the suite runs in.
    const NEIGHBOURS: [&str; 4] = ["suit", "suite 2", "a", "z"];

    async fn open(count: usize) -> Handles {
        let memory = share(MemoryStore::new());
        for name in NEIGHBOURS {
            let neighbour = Prefixed::new(Arc::clone(&memory), &name.parse::<Name>().unwrap());
            let data = Commit::new().set(Key::from("k"), "v").append(Key::from("k"), "v");
            neighbour.commit(data.append(Key::from("queue"), "v").set(Key::from("\0"), "v")).await.unwrap();
        }
        memory
            .commit(Commit::new().set(Key::new(vec![0]), "v").set(Key::new(vec![0xFF]), "v"))
            .await
            .unwrap();
        let name = "suite".parse::<Name>().unwrap();
        let cluster = || share(Prefixed::new(Arc::clone(&memory), &name));
        let stores = (0..count).map(|_| cluster()).collect();
        Handles::new(stores, Untouched { before: neighbourhood(&memory), memory: Arc::clone(&memory) })
    }

    /// Sees to it, when a case is over, that nothing of the neighbours was touched.
    struct Untouched {
        memory: Arc<dyn Store>,
        before: Vec<Snapshot>,
    }

    impl Drop for Untouched {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                assert_eq!(neighbourhood(&self.memory), self.before, "a neighbour was touched");
            }
        }
    }

    /// All that the neighbours have.
    fn neighbourhood(memory: &Arc<dyn Store>) -> Vec<Snapshot> {
        let lists = ["k", "queue"].map(|list| Read::List { list: Key::from(list), after: None, limit: 10 });
        let reads = [vec![Read::Range { range: Range::all(), limit: 10 }], lists.to_vec()].concat();
        let clusters = NEIGHBOURS.map(|name| {
            now(Prefixed::new(Arc::clone(memory), &name.parse::<Name>().unwrap()).read(reads.clone()))
                .unwrap()
        });
        let edges = [0, 0xFF].map(|byte| Read::Key(Key::new(vec![byte])));
        let edges = now(memory.read(edges.to_vec())).unwrap();
        clusters.into_iter().chain([edges]).collect()
    }

    /// What a future gives that never has to wait.
    fn now<F: Future>(future: F) -> F::Output {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the memory store made somebody wait"),
        }
    }

    tenure_store::conformance!(open);
}
