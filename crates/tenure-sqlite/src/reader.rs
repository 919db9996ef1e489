//! [`Readers`]: threads that answer reads, each on a connection of its own, so that no read waits for a write.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use tenure_store::{Answer, Read, Reason, Snapshot, StoreError};
use tokio::sync::oneshot;

use crate::{queue::Queue, sql};

/// A thread takes this many reads at a time: enough to save wake-ups under load, few enough to leave some to the others.
const TAKEN_AT_ONCE: usize = 8;

/// The reads that wait, and the threads that answer them.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Queue<Request>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Request {
    reads: Vec<Read>,
    answer: oneshot::Sender<Result<Vec<Answer>, StoreError>>,
}

impl Readers {
    /// One thread for each connection; `gate` as in [`Access::Gated`](crate::writer::Access::Gated).
    pub(crate) fn start(
        connections: Vec<Connection>,
        gate: Option<Arc<RwLock<()>>>,
    ) -> Result<Self, StoreError> {
        let queue = Queue::new();
        let mut threads = Vec::new();
        for connection in connections {
            let (queue, gate) = (queue.clone(), gate.clone());
            let thread = thread::Builder::new()
                .name("tenure-read".into())
                .spawn(move || serve(&queue, connection, gate.as_deref()));
            threads.push(
                thread.map_err(|error| StoreError::unavailable(Reason::caused("start a thread", error)))?,
            );
        }
        Ok(Self { queue, threads: Mutex::new(threads) })
    }

    pub(crate) async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.push(Request { reads, answer }).map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?.map(Snapshot::new)
    }

    /// Answers what waits, then ends.
    pub(crate) fn stop(&self) {
        self.queue.close();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn closed() -> StoreError {
    StoreError::Closed(Reason::new("it was closed by this process: open it again"))
}

fn serve(queue: &Queue<Request>, mut connection: Connection, gate: Option<&RwLock<()>>) {
    let _served = queue.served();
    while queue.wait() {
        for Request { reads, answer } in queue.take(TAKEN_AT_ONCE) {
            // Whoever asked may have gone; then nobody misses the answer.
            if !answer.is_closed() {
                let _passed = gate.map(RwLock::read);
                let _ = answer.send(sql::answer(&mut connection, &reads));
            }
        }
    }
}
