//! [`Notice`]: finds out what other processes changed, for the watches of this one.
//!
//! The servers can't send messages. So as long as there are watches, a task looks at the desks at short intervals: each commit counts its
//! desk's turns up and leaves a note there. All that has changed since the last look comes in one answer. Nothing can get lost: a look that
//! fails is made again, and if a ring does not reach back to the last one, every watch is woken, unless all that it
//! lacks is our own.

use std::{sync::Arc, time::Duration};

use mysql_async::prelude::Queryable as _;
use tenure_store::{Bytes, StoreError, WatchHub};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    error::store_error,
    note::{self, Stamp},
    session::{Connector, DESKS, Purpose, Session},
    sql::Statements,
};

/// Looks that fail are made again after pauses that grow up to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After a change or a new watch, more is likely to come at once: the next look follows after this, and the pauses grow from there.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The task that looks.
#[derive(Debug)]
pub(crate) struct Notice {
    attend: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Notice {
    pub(crate) fn start(connector: &Connector, statements: &Arc<Statements>, hub: &WatchHub) -> Self {
        let attend = Arc::new(Notify::new());
        let watcher = Watcher {
            connector: connector.clone(),
            statements: Arc::clone(statements),
            hub: hub.clone(),
            attend: Arc::clone(&attend),
            turns: vec![0; DESKS as usize],
            newest: vec![None; DESKS as usize],
        };
        Self { attend, task: tokio::spawn(watcher.run()) }
    }

    /// Lets it know that there is a new watch.
    pub(crate) fn attend(&self) {
        self.attend.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Watcher {
    connector: Connector,
    statements: Arc<Statements>,
    hub: WatchHub,
    attend: Arc<Notify>,
    /// The turn of each desk at the last look.
    turns: Vec<u64>,
    /// The newest note of each desk at the last look.
    newest: Vec<Option<Stamp>>,
}

impl Watcher {
    async fn run(mut self) {
        let mut session = None;
        // Whether the last look was made for watches that are still there.
        let mut current = false;
        let mut pause = self.connector.settings.poll;
        loop {
            if self.hub.count() == 0 {
                current = false;
                self.attend.notified().await;
                continue;
            }
            match self.look(&mut session).await {
                Ok(Look { same, changes }) => {
                    // What came between the making of a watch and the first look is not told. Nor is it after a crash of the server, which
                    // may have taken turns back that were seen already: whoever made new ones is on a new connection, and so are we.
                    if !(current && same) {
                        self.hub.wake_all();
                    }
                    current = true;
                    pause =
                        if changes { PAUSE_MIN } else { pause + pause / 8 }.min(self.connector.settings.poll);
                }
                Err(error) => {
                    tracing::debug!(store = %self.connector.settings, %error, "watches can't look for changes at present");
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
            tokio::select! {
                () = self.connector.env.sleep(pause) => {}
                () = self.attend.notified() => pause = PAUSE_MIN.min(self.connector.settings.poll),
            }
        }
    }

    /// Wakes for what changed since the last look.
    async fn look(&mut self, session: &mut Option<Session>) -> Result<Look, StoreError> {
        let last = session.as_ref().map(|session| session.id);
        let mut ready = self.connector.ready(session.take(), Purpose::Poll).await?;
        let known: Vec<u8> = self.turns.iter().flat_map(|turn| turn.to_be_bytes()).collect();
        let asking = ready.conn.exec::<(u32, u64, Vec<u8>), _, _>(&self.statements.desks, (known,));
        let asked = self.connector.env.timeout(self.connector.settings.request_timeout, asking).await;
        let desks = match asked {
            Ok(Ok(desks)) => desks,
            Ok(Err(error)) => {
                self.connector.part(ready).await;
                return Err(store_error("look for changes", error));
            }
            Err(elapsed) => {
                self.connector.part(ready).await;
                return Err(StoreError::unavailable(format!("look for changes: {elapsed}")));
            }
        };
        ready.seen = self.connector.env.now();
        let same = last == Some(ready.id);
        *session = Some(ready);
        let mut changes = false;
        for (desk, turn, ring) in desks {
            let (at, ring) = (desk as usize, Bytes::from(ring));
            let Some(last) = self.turns.get_mut(at) else { continue };
            let turns = turn.checked_sub(*last);
            *last = turn;
            let newest = std::mem::replace(&mut self.newest[at], note::newest(&ring));
            let told =
                turns.and_then(|turns| note::decode(&ring, turns, newest, |id| self.connector.is_own(id)));
            changes |= told.as_ref().is_none_or(|ranges| !ranges.is_empty());
            match told {
                Some(ranges) => self.hub.wake(ranges),
                None => self.hub.wake_all(),
            }
        }
        Ok(Look { same, changes })
    }
}

/// What a look came to.
struct Look {
    /// Whether the last one was made on the same connection.
    same: bool,
    /// Whether another process has written since.
    changes: bool,
}
