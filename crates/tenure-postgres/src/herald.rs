//! [`Herald`]: tells other processes of this one's commits.
//!
//! Never in the commit itself: a NOTIFY takes a lock of the whole server until its transaction is flushed, so that all commits would go
//! one after another. The herald sends what has gathered while its last message was under way, in a transaction of its own that is not flushed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_store::{Range, StoreError};
use tokio::sync::mpsc;
use tokio_postgres::types::Type;

use crate::{
    announcement::Announcement,
    connection::{Connector, Link},
};

/// A pause between two messages, so that a busy process sends hundreds a second and not thousands.
const PAUSE: Duration = Duration::from_millis(1);

/// Ranges that wait to be told. With more, everything is told of.
const RANGES_MAX: usize = 4096;

/// The herald of a process. When the last is dropped, its task ends.
#[derive(Clone, Debug)]
pub(crate) struct Herald {
    shared: Arc<Shared>,
    bell: mpsc::Sender<()>,
}

#[derive(Debug, Default)]
struct Shared {
    /// How many versions this process has used.
    made: AtomicU64,
    waiting: Mutex<Waiting>,
}

/// What is to be told.
#[derive(Debug, Default)]
struct Waiting {
    commits: u64,
    ranges: Vec<Range>,
}

impl Herald {
    pub(crate) fn start(connector: Connector, process: i64) -> Self {
        let shared = Arc::new(Shared::default());
        let (bell, rung) = mpsc::channel(1);
        tokio::spawn(tell(connector, process, Arc::clone(&shared), rung));
        Self { shared, bell }
    }

    /// A commit was made; others want to know of it if it was `heard`.
    pub(crate) fn made(&self, ranges: Vec<Range>, heard: bool) {
        self.shared.made.fetch_add(1, Ordering::SeqCst);
        if !heard {
            return;
        }
        let mut waiting = self.shared.waiting.lock();
        waiting.commits += 1;
        waiting.ranges.extend(ranges);
        if waiting.ranges.len() > RANGES_MAX {
            waiting.ranges = vec![Range::all()];
        }
        drop(waiting);
        // Full means that it rings already.
        let _ = self.bell.try_send(());
    }

    /// How many versions this process has used so far.
    pub(crate) fn commits(&self) -> u64 {
        self.shared.made.load(Ordering::SeqCst)
    }
}

/// The channel that messages of a store are sent on. Its name is short, whatever the schema's.
pub(crate) fn channel(schema: &str) -> String {
    format!("tenure_{:x}", crate::apply::lock_id(schema, b'n', b""))
}

async fn tell(connector: Connector, process: i64, shared: Arc<Shared>, mut rung: mpsc::Receiver<()>) {
    let mut link = None;
    while rung.recv().await.is_some() {
        let Waiting { commits, ranges } = std::mem::take(&mut *shared.waiting.lock());
        let payloads = Announcement { process, commits, ranges }.encode();
        if let Err(error) = send(&connector, &mut link, payloads).await {
            // Whoever waits for it looks for itself after a while.
            tracing::debug!(store = %connector.settings(), %error, "others could not be told of a change");
            link = None;
        }
        connector.env().sleep(PAUSE).await;
    }
}

async fn send(
    connector: &Connector,
    link: &mut Option<Link>,
    payloads: Vec<String>,
) -> Result<(), StoreError> {
    let link = match link.take() {
        Some(open) if !open.is_lost() => link.insert(open),
        _ => link.insert(connector.connect().await?),
    };
    notify(connector, link, payloads).await
}

/// Sends these payloads, without waiting for the disk.
pub(crate) async fn notify(
    connector: &Connector,
    link: &Link,
    payloads: Vec<String>,
) -> Result<(), StoreError> {
    let statement = "WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)) \
        SELECT pg_notify($1, p.payload) FROM unflushed, unnest($2::text[]) AS p (payload)";
    let channel = channel(&connector.settings().schema);
    let parameters: [crate::connection::Parameter<'_>; 2] =
        [(&channel, Type::TEXT), (&payloads, Type::TEXT_ARRAY)];
    connector.query("tell others of a change", link, statement, &parameters).await.map(drop)
}
