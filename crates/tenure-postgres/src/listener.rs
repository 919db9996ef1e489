//! [`Listener`]: hears what other processes commit, and wakes the watches that it concerns.
//!
//! While there is a watch, a task holds one connection that LISTENs, and a row in `listeners` by which others know that somebody does. Messages can
//! get lost: when a process was killed between its commit and its message, for instance. So it also looks, slowly: every commit draws a number
//! from one sequence, and every message says for how many it stands. Numbers that were drawn and not told of mean that
//! something was missed, and all watches are woken.
//!
//! A number is drawn shortly before its commit can be seen. So whoever saw the numbers move wakes again once every transaction that
//! was under way then has ended.
//!
//! Where LISTEN can't work, as behind a pooler in transaction mode, that look is all there is, and is made more often.

use std::time::Duration;

use tenure_store::{Moment, StoreError, WatchHub};
use tokio::sync::mpsc;
use tokio_postgres::types::Type;

use crate::{
    announcement::Announcement,
    connection::{Connector, Link, Parameter},
    herald::{self, Herald},
};

/// How long a message to ourselves may take, before LISTEN counts as not working.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// The pause after a lost connection, before the next is tried.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Gets the attention of the task. When it is dropped, the task ends.
#[derive(Debug)]
pub(crate) struct Listener {
    bell: mpsc::Sender<()>,
}

struct Task {
    connector: Connector,
    process: i64,
    hub: WatchHub,
    herald: Herald,
    rung: mpsc::Receiver<()>,
    /// Whether LISTEN was found not to work.
    deaf: bool,
}

/// Why the task stopped attending.
enum Left {
    /// Nobody watches any more.
    Idle,
    /// The store is gone.
    Stopped,
}

/// What the slow look knows.
struct Ledger {
    /// The last number that is accounted for, but for those told of since.
    base: i64,
    /// How many commits others told of since.
    told: u64,
    /// How many this process had made when counting began.
    own: u64,
    /// How many were missing at the last look.
    missing: i64,
    /// Numbers have moved without a message: what was under way then may yet become visible, until all transactions before this one have
    /// ended.
    unsettled: Option<i64>,
    /// When all watches were last woken.
    woken: Moment,
}

/// What a look shows.
struct Sight {
    /// The last number drawn.
    last: i64,
    /// Every transaction before this one has ended.
    oldest: i64,
}

/// What follows from a look.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing.
    Calm,
    /// All watches are to be woken.
    Wake,
    /// All watches are to be woken, and again when all that is under way has ended.
    Unsettled,
}

impl Listener {
    pub(crate) fn start(connector: Connector, process: i64, hub: WatchHub, herald: Herald) -> Self {
        let (bell, rung) = mpsc::channel(1);
        let deaf = !connector.settings().listen;
        let task = Task { connector, process, hub, herald, rung, deaf };
        tokio::spawn(task.run());
        Self { bell }
    }

    /// There is a new watch: if it is the first, somebody wants to know from now on.
    pub(crate) fn attend(&self) {
        // Full means that it rings already.
        let _ = self.bell.try_send(());
    }
}

impl Task {
    async fn run(mut self) {
        loop {
            while self.hub.count() == 0 {
                if self.rung.recv().await.is_none() {
                    return;
                }
            }
            let left = if self.deaf { self.poll().await } else { self.listen().await };
            match left {
                Ok(Left::Idle) => {}
                Ok(Left::Stopped) => return,
                Err(error) => {
                    tracing::debug!(store = %self.connector.settings(), %error, "watches are not told of changes for now");
                    self.connector.env().sleep(RECONNECT_PAUSE).await;
                }
            }
        }
    }

    /// Hears messages until nobody watches any more.
    async fn listen(&mut self) -> Result<Left, StoreError> {
        let (link, mut messages) = self.connector.connect_hearing().await?;
        let channel = herald::channel(&self.connector.settings().schema);
        let heard = link.client().batch_execute(&format!("LISTEN {channel}")).await;
        heard.map_err(|error| crate::error::store_error("listen for changes", error))?;
        if !self.probe(&mut messages).await? {
            tracing::warn!(
                store = %self.connector.settings(),
                "LISTEN does not work here, as behind a pooler in transaction mode: watches look every {:?} instead",
                self.connector.settings().poll
            );
            self.deaf = true;
            return Ok(Left::Idle);
        }
        self.register(&link).await?;
        // Unsettled: a commit that drew its number before this may be told of afterwards, and make up for one that never is.
        let mut ledger = self.begin(&link).await?;
        loop {
            let due = ledger.looked(self.connector.settings().reread, self.connector.env().now());
            tokio::select! {
                message = messages.recv() => match message {
                    Some(payload) => self.hear(&payload, &mut ledger),
                    None => return Err(StoreError::unavailable("the connection that listens was lost")),
                },
                () = self.connector.env().sleep(due) => {
                    if self.hub.count() == 0 {
                        self.unregister(&link).await?;
                        return Ok(Left::Idle);
                    }
                    let sight = self.look(&link).await?;
                    let verdict = ledger.review(&sight, self.herald.commits(), self.connector.env().now());
                    self.follow(verdict, &mut ledger, &link).await?;
                }
                bell = self.rung.recv() => if bell.is_none() {
                    let _ = self.unregister(&link).await;
                    return Ok(Left::Stopped);
                },
            }
        }
    }

    /// Looks often, until nobody watches any more.
    async fn poll(&mut self) -> Result<Left, StoreError> {
        let link = self.connector.connect().await?;
        let env = self.connector.env().clone();
        let settings = self.connector.settings().clone();
        let mut ledger = self.begin(&link).await?;
        while self.hub.count() > 0 {
            tokio::select! {
                () = env.sleep(settings.poll) => {
                    let sight = self.look(&link).await?;
                    let verdict = ledger.moved(&sight, settings.reread, env.now());
                    self.follow(verdict, &mut ledger, &link).await?;
                }
                bell = self.rung.recv() => if bell.is_none() {
                    return Ok(Left::Stopped);
                },
            }
        }
        Ok(Left::Idle)
    }

    /// Whether a message that is sent over another connection arrives here.
    async fn probe(&self, messages: &mut mpsc::Receiver<String>) -> Result<bool, StoreError> {
        let probe = format!("probe {:x}", self.process);
        let link = self.connector.connect().await?;
        herald::notify(&self.connector, &link, vec![probe.clone()]).await?;
        let arrival = async {
            while let Some(message) = messages.recv().await {
                if message == probe {
                    return true;
                }
            }
            false
        };
        Ok(self.connector.env().timeout(PROBE_TIME, arrival).await.unwrap_or(false))
    }

    fn hear(&self, payload: &str, ledger: &mut Ledger) {
        match Announcement::decode(payload) {
            Some(told) if told.process != self.process => {
                ledger.told += told.commits;
                self.hub.wake(told.ranges);
            }
            // Our own, or another listener's probe.
            _ => {}
        }
    }

    /// Lets others know that somebody listens, and forgets those whose connection is gone.
    async fn register(&self, link: &Link) -> Result<(), StoreError> {
        let schema = &self.connector.settings().schema;
        let statement = format!(
            "WITH gone AS (
                DELETE FROM {schema}.listeners l
                WHERE l.id <> $1 AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = l.pid)
            )
            INSERT INTO {schema}.listeners (id, pid) VALUES ($1, pg_backend_pid())
            ON CONFLICT (id) DO UPDATE SET pid = excluded.pid"
        );
        let parameters: [Parameter<'_>; 1] = [(&self.process, Type::INT8)];
        self.connector.query("listen for changes", link, &statement, &parameters).await.map(drop)
    }

    async fn unregister(&self, link: &Link) -> Result<(), StoreError> {
        let statement = format!("DELETE FROM {}.listeners WHERE id = $1", self.connector.settings().schema);
        let parameters: [Parameter<'_>; 1] = [(&self.process, Type::INT8)];
        self.connector.query("stop listening", link, &statement, &parameters).await.map(drop)
    }

    /// Begins to count, and wakes all for what they may have missed.
    async fn begin(&self, link: &Link) -> Result<Ledger, StoreError> {
        let (own, now) = (self.herald.commits(), self.connector.env().now());
        let mut ledger = Ledger::new(&self.look(link).await?, own, now);
        self.follow(Verdict::Unsettled, &mut ledger, link).await?;
        Ok(ledger)
    }

    async fn follow(&self, verdict: Verdict, ledger: &mut Ledger, link: &Link) -> Result<(), StoreError> {
        if verdict == Verdict::Unsettled {
            ledger.unsettled = Some(self.mark(link).await?);
        }
        if verdict != Verdict::Calm {
            self.hub.wake_all();
        }
        Ok(())
    }

    async fn look(&self, link: &Link) -> Result<Sight, StoreError> {
        let statement = format!(
            "SELECT CASE WHEN v.is_called THEN v.last_value ELSE 0 END, txid_snapshot_xmin(txid_current_snapshot())
            FROM {}.versions v",
            self.connector.settings().schema
        );
        let rows = self.connector.query("look for changes", link, &statement, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::corrupt("the sequence of versions is gone"))?;
        Ok(Sight { last: row.get(0), oldest: row.get(1) })
    }

    /// A transaction that came after all that are under way, and has ended. (A snapshot alone does not tell of those that began after the
    /// last one to end.)
    async fn mark(&self, link: &Link) -> Result<i64, StoreError> {
        let rows = self.connector.query("look for changes", link, "SELECT txid_current()", &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::corrupt("a transaction has no number"))?;
        Ok(row.get(0))
    }
}

impl Ledger {
    /// From now on.
    fn new(sight: &Sight, own: u64, now: Moment) -> Self {
        Self { base: sight.last, told: 0, own, missing: 0, unsettled: None, woken: now }
    }

    /// How long until the next look is due.
    fn looked(&self, reread: Duration, now: Moment) -> Duration {
        self.woken.after(reread) - now
    }

    /// What follows from this sight where messages are heard.
    fn review(&mut self, sight: &Sight, own: u64, now: Moment) -> Verdict {
        self.woken = now;
        let known = self.told.saturating_add(own - self.own);
        let missing = sight.last - self.base - i64::try_from(known).unwrap_or(i64::MAX);
        // Missing once may be under way; missing twice is lost. Told of more than was counted: counted before we began.
        let lost = missing.min(self.missing).max(0);
        self.base += if missing < 0 { missing } else { lost };
        self.missing = (missing - lost).max(0);
        if lost > 0 {
            return Verdict::Unsettled;
        }
        let under_way = self.unsettled.is_some();
        self.settle(sight);
        if under_way { Verdict::Wake } else { Verdict::Calm }
    }

    /// What follows from this sight where there are no messages.
    fn moved(&mut self, sight: &Sight, reread: Duration, now: Moment) -> Verdict {
        if sight.last != self.base {
            self.base = sight.last;
            self.woken = now;
            return Verdict::Unsettled;
        }
        if self.settle(sight) || self.unsettled.is_some() && now - self.woken >= reread {
            self.woken = now;
            return Verdict::Wake;
        }
        Verdict::Calm
    }

    /// Whether everything that was under way has just ended.
    fn settle(&mut self, sight: &Sight) -> bool {
        let settled = self.unsettled.is_some_and(|mark| sight.oldest >= mark);
        if settled {
            self.unsettled = None;
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    const REREAD: Duration = Duration::from_secs(1);

    /// The number of a transaction, and a sight in which all before it have ended.
    const MARK: i64 = 100;

    fn calm(last: i64) -> Sight {
        Sight { last, oldest: MARK }
    }

    fn under_way(last: i64) -> Sight {
        Sight { last, oldest: MARK - 1 }
    }

    fn ledger() -> (Ledger, Moment) {
        let now = Env::system().now();
        (Ledger::new(&calm(10), 5, now), now)
    }

    #[test]
    fn commits_that_were_told_of_wake_nobody() {
        let (mut ledger, now) = ledger();
        ledger.told = 3;
        assert_eq!(ledger.review(&calm(15), 7, now), Verdict::Calm, "3 told of and 2 of our own");
        // At every other look the message about the last one is under way.
        for last in 16..30 {
            assert_eq!(ledger.review(&calm(last), 7, now), Verdict::Calm);
            ledger.told += 1;
            assert_eq!(ledger.review(&calm(last), 7, now), Verdict::Calm);
        }
    }

    #[test]
    fn a_commit_that_nobody_told_of_wakes_all_once() {
        let (mut ledger, now) = ledger();
        assert_eq!(ledger.review(&calm(11), 5, now), Verdict::Calm, "its message may be under way");
        assert_eq!(ledger.review(&calm(11), 5, now), Verdict::Unsettled);
        assert_eq!(ledger.review(&calm(11), 5, now), Verdict::Calm);
        // The next one lost is found as well, amid others that are told of.
        ledger.told = 4;
        assert_eq!(ledger.review(&calm(16), 5, now), Verdict::Calm);
        ledger.told = 8;
        assert_eq!(ledger.review(&calm(20), 5, now), Verdict::Unsettled);
    }

    #[test]
    fn what_was_told_of_before_counting_began_hides_nothing() {
        let (mut ledger, now) = ledger();
        ledger.told = 2;
        assert_eq!(ledger.review(&calm(10), 5, now), Verdict::Calm);
        assert_eq!(ledger.review(&calm(11), 5, now), Verdict::Calm);
        assert_eq!(ledger.review(&calm(11), 5, now), Verdict::Unsettled, "whatever was told of before");
    }

    #[test]
    fn a_lost_commit_wakes_until_it_must_be_visible() {
        let (mut ledger, now) = ledger();
        ledger.unsettled = Some(MARK);
        for _ in 0..3 {
            assert_eq!(ledger.review(&under_way(10), 5, now), Verdict::Wake);
        }
        assert_eq!(ledger.review(&calm(10), 5, now), Verdict::Wake);
        assert_eq!(ledger.review(&calm(10), 5, now), Verdict::Calm);
    }

    #[test]
    fn a_poller_wakes_when_numbers_move_and_when_they_have_settled() {
        let (mut ledger, start) = ledger();
        assert_eq!(ledger.moved(&calm(10), REREAD, start), Verdict::Calm);
        assert_eq!(ledger.moved(&under_way(11), REREAD, start), Verdict::Unsettled);
        ledger.unsettled = Some(MARK);
        assert_eq!(ledger.moved(&under_way(11), REREAD, start.after(REREAD / 2)), Verdict::Calm);
        assert_eq!(
            ledger.moved(&under_way(11), REREAD, start.after(REREAD)),
            Verdict::Wake,
            "slowly meanwhile"
        );
        assert_eq!(ledger.moved(&calm(11), REREAD, start.after(REREAD)), Verdict::Wake, "now it can be read");
        assert_eq!(ledger.moved(&calm(11), REREAD, start.after(REREAD * 9)), Verdict::Calm);
    }
}
