//! [`Connections`]: how many there are, and who goes when there are too many.
//!
//! A daemon must not be kept from its clients by others who connect and say nothing, or say it slowly. So when all connections are taken, the one goes that the daemon has been
//! waiting for longest: for the head or the body of a request, or for an answer to be read. One that has a request under way stays.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure::store::{Env, Moment};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::metrics::Raised;

/// The most connections at a time.
pub(crate) const CONNECTIONS_MAX: usize = 2048;

/// When all have a request under way, how often it is looked whether one has not any more.
const LOOK: Duration = Duration::from_millis(50);

/// The connections of a daemon.
#[derive(Debug)]
pub(crate) struct Connections {
    env: Env,
    free: Arc<Semaphore>,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    /// How many there ever were.
    count: u64,
    open: BTreeMap<u64, Arc<Line>>,
}

/// One connection, as seen from its requests.
#[derive(Debug)]
pub(crate) struct Line {
    env: Env,
    /// Since when nothing was done for it.
    since: Mutex<Moment>,
    /// How much is being done for it.
    working: AtomicUsize,
    /// Closes it.
    pub(crate) hang_up: CancellationToken,
}

/// That something is being done for a connection.
#[derive(Debug)]
pub(crate) struct Working(Arc<Line>);

/// A place among the connections.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) line: Arc<Line>,
    number: u64,
    connections: Arc<Connections>,
    _permit: OwnedSemaphorePermit,
    _gauge: Raised,
}

impl Connections {
    pub(crate) fn new(env: Env) -> Arc<Self> {
        Arc::new(Self { env, free: Arc::new(Semaphore::new(CONNECTIONS_MAX)), lines: Mutex::default() })
    }

    /// A place for one more, for which another may have to go.
    pub(crate) async fn admit(self: &Arc<Self>) -> Place {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.evict();
            if let Ok(Ok(permit)) = self.env.timeout(LOOK, Arc::clone(&self.free).acquire_owned()).await {
                break permit;
            }
        };
        let line = Arc::new(Line {
            env: self.env.clone(),
            since: Mutex::new(self.env.now()),
            working: AtomicUsize::new(0),
            hang_up: CancellationToken::new(),
        });
        let mut lines = self.lines.lock();
        lines.count += 1;
        let number = lines.count;
        lines.open.insert(number, Arc::clone(&line));
        let _gauge = Raised::new("tenure_http_connections");
        Place { line, number, connections: Arc::clone(self), _permit: permit, _gauge }
    }

    /// Closes the connection that has been waited for longest.
    fn evict(&self) {
        let lines = self.lines.lock();
        let idle = lines.open.values().filter(|line| line.working.load(Ordering::SeqCst) == 0);
        if let Some(line) =
            idle.filter(|line| !line.hang_up.is_cancelled()).min_by_key(|line| *line.since.lock())
        {
            line.hang_up.cancel();
            metrics::counter!("tenure_http_evictions_total").increment(1);
        }
    }
}

impl Line {
    /// Something is being done for it, as long as the answer exists.
    pub(crate) fn work(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Ordering::SeqCst);
        Working(Arc::clone(self))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        *self.0.since.lock() = self.0.env.now();
        self.0.working.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lines.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn when_all_are_taken_the_longest_idle_goes_and_who_works_stays() {
        let connections = Connections::new(Env::system());
        let mut places = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            places.push(connections.admit().await);
        }
        let (first, second) = (Arc::clone(&places[0].line), Arc::clone(&places[1].line));
        let _work = first.work();
        let admitting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.admit().await }
        });
        second.hang_up.cancelled().await;
        assert!(!first.hang_up.is_cancelled(), "a request is under way");
        assert!(!admitting.is_finished(), "its place is still taken");
        places.remove(1);
        assert_eq!(admitting.await.unwrap().number, CONNECTIONS_MAX as u64 + 1);
        assert!(!places[1].line.hang_up.is_cancelled(), "one went for one");
    }
}
