//! [`Consumer`]: finds the servers of a kind that have work, and shares them with the other nodes that serve the kind.
//!
//! The servers of a kind are in sixteen shards, by the hash of their name. Each shard is looked after by one node: of those that serve the kind in the newest
//! schema, the one with the greatest hash of (session, shard). So a node that comes takes its part from all others, and the part of one that goes is spread over all that are left. Whoever looks after a
//! shard watches its marks of work and sleeps until its first timer is due; nobody watches a server.
//!
//! Two nodes may believe to look after one shard for a moment. That costs a little work, and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tenure_cluster::{MemberChanges, SessionId};
use tenure_store::{
    Check, Commit, CommitError, Conflict, Item, Key, LaneError, Name, Range, Read, Store as _, StoreError,
    Version,
    record::{Decoder, Encoder},
};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    Server,
    courier::URGENT,
    desk::Request,
    keys::{KindKeys, SHARDS, SWEEP, ServerKeys, due_of, id_of, mix},
    kind::Kind,
    parcel::millis,
};

const FORMAT: u8 = 1;

/// How often everything is looked at, though nothing seems to have changed: what a desk gave up for now is taken up again.
const ROUND: Duration = Duration::from_secs(10);

/// After a failure.
const PAUSE: Duration = Duration::from_millis(100);

/// After a timer met others' commits, in milliseconds.
const AGAIN_MS: u64 = 20;

/// How many timers of a shard are looked at first, and how many of its servers are told to sweep at once.
const DUE_MAX: usize = 20;

/// After a server was told to sweep, in milliseconds: by then it has. If not, it is told again, after twice as long each time.
const SWEEP_PAUSE_MS: u64 = 1000;

/// The longest such pause.
const SWEEP_PAUSE_MOST_MS: u64 = 60_000;

/// Something to look at.
enum Place {
    /// Marks of work, from here on.
    Work(Range),
    /// The timers of this shard, from here on, so many at once; and how many of its servers were told to sweep.
    Due { shard: u64, range: Range, limit: usize, told: usize },
}

/// A server that was told to sweep, and has not yet.
#[derive(Clone, Copy)]
struct Asked {
    /// When it is told again, in milliseconds since 1970.
    again: u64,
    pause: u64,
}

/// Finds work.
pub(crate) struct Consumer<S: Server> {
    kind: Arc<Kind<S>>,
    keys: KindKeys,
    /// Shards in which something may have changed, as bits.
    changed: Arc<AtomicU64>,
    told: Arc<Notify>,
    /// Tasks that wait for changes, by shard.
    watching: BTreeMap<u64, Watching>,
    /// Marks of work that were seen, and their versions.
    seen: BTreeMap<Key, Version>,
    /// When the next timer of each shard is due, in milliseconds since 1970.
    due: BTreeMap<u64, u64>,
    /// Who was told to sweep, by the key of `due` that says so.
    asked: BTreeMap<Key, Asked>,
    /// The session that this node has announced itself under.
    announced: Option<SessionId>,
}

struct Watching(JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<S: Server> Consumer<S> {
    pub(crate) fn new(kind: Arc<Kind<S>>) -> Self {
        Self {
            keys: KindKeys::new(kind.ground.keys(), &kind.name),
            kind,
            changed: Arc::default(),
            told: Arc::default(),
            watching: BTreeMap::new(),
            seen: BTreeMap::new(),
            due: BTreeMap::new(),
            asked: BTreeMap::new(),
            announced: None,
        }
    }

    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        let env = self.kind.ground.env().clone();
        loop {
            if let Err(error) = self.consume().await {
                tracing::debug!(kind = S::KIND, %error, "work could not be looked for: it is tried again");
                env.sleep(PAUSE).await;
            }
        }
    }

    async fn consume(&mut self) -> Result<(), CommitError> {
        let ground = self.kind.ground.clone();
        let mut members = ground.members().changes().await?;
        let mut others = ground.store().watch(Range::Key(self.keys.consumers()));
        let mut sessions = ground.sessions();
        loop {
            self.announce().await?;
            self.share(&members).await?;
            let mut round = ground.env().now().after(ROUND);
            self.look(u64::MAX, true).await?;
            loop {
                let left = round - ground.env().now();
                let due = self.due.values().min().map(|due| {
                    let now = millis(ground.env().unix_time());
                    Duration::from_millis(due.saturating_sub(now))
                });
                let sleep = due.unwrap_or(left).min(left);
                tokio::select! {
                    biased;
                    changed = sessions.changed() => {
                        if changed.is_err() {
                            // The node has left: nothing follows.
                            std::future::pending::<()>().await;
                        }
                        break;
                    }
                    change = members.next() => {
                        change?;
                        break;
                    }
                    () = others.changed() => break,
                    () = self.told.notified() => {
                        let changed = self.changed.swap(0, Ordering::SeqCst);
                        self.look(changed, false).await?;
                    }
                    () = ground.env().sleep(sleep) => {
                        let all = (round - ground.env().now()).is_zero();
                        if all {
                            round = ground.env().now().after(ROUND);
                        }
                        let shards = if all { u64::MAX } else { self.shards_due() };
                        self.look(shards, all).await?;
                    }
                }
            }
        }
    }

    /// Says that this node serves the kind.
    async fn announce(&mut self) -> Result<(), CommitError> {
        let session = self.kind.ground.session();
        if self.announced == Some(session.id()) || session.ended().is_some() {
            return Ok(());
        }
        let news = Bytes::copy_from_slice(&self.kind.ground.env().random_u64().to_be_bytes());
        let commit = Commit::new()
            .check(Check::Present(self.kind.ground.keys().session(session.id())))
            .set(self.keys.consumer(session.id()), Encoder::new(FORMAT).number(S::SCHEMA.into()).finish())
            .set(self.keys.consumers(), news);
        match self.kind.consuming.say(commit).await {
            Ok(()) => self.announced = Some(session.id()),
            // Another session follows.
            Err(LaneError::Conflict(_) | LaneError::Lost { .. }) => {}
            Err(LaneError::Failed(error)) => return Err(error.into()),
            Err(error) => return Err(StoreError::unavailable(error.to_string()).into()),
        }
        Ok(())
    }

    /// Finds out which shards are this node's, and watches those.
    async fn share(&mut self, members: &MemberChanges) -> Result<(), CommitError> {
        let ground = &self.kind.ground;
        let mut here: BTreeSet<SessionId> = members
            .members()
            .values()
            .filter(|member| member.is_here())
            .map(|member| member.session)
            .collect();
        here.insert(ground.session().id());
        let here: Vec<SessionId> = here.into_iter().collect();
        let mut serving = Vec::new();
        for some in here.chunks(ground.store().limits().read_questions) {
            let keys: Vec<Key> = some.iter().map(|session| self.keys.consumer(*session)).collect();
            let found = ground.store().read(keys.iter().cloned().map(Read::Key).collect()).await?;
            for (at, session) in some.iter().enumerate() {
                if let Some(found) = found.key(at) {
                    serving.push((*session, Decoder::all(&keys[at], &found.value, FORMAT, Decoder::number)?));
                }
            }
        }
        let newest = serving.iter().map(|(_, schema)| *schema).max();
        serving.retain(|(_, schema)| Some(*schema) == newest);
        let own = ground.session().id();
        let first = |shard: u64| {
            serving.iter().map(|(session, _)| *session).max_by_key(|session| weight(*session, shard))
        };
        let shards: BTreeSet<u64> = (0..SHARDS).filter(|shard| first(*shard) == Some(own)).collect();
        self.watching.retain(|shard, _| shards.contains(shard));
        self.due.retain(|shard, _| shards.contains(shard));
        self.asked.clear();
        for shard in &shards {
            self.watching.entry(*shard).or_insert_with(|| {
                let ranges = [self.keys.work(*shard).range(), self.keys.due(*shard).range()];
                Watching(watch(&self.kind, ranges, *shard, &self.changed, &self.told))
            });
        }
        self.kind.set_own(&shards);
        Ok(())
    }

    /// Looks what there is in some shards of ours, in one read if it fits one; `all`: also what was seen before.
    async fn look(&mut self, shards: u64, all: bool) -> Result<(), CommitError> {
        if all {
            self.seen.clear();
        }
        let limits = self.kind.ground.store().limits();
        let mut ranges = Vec::new();
        for shard in self.own(shards).collect::<Vec<_>>() {
            self.due.remove(&shard);
            ranges.push(Place::Work(self.keys.work(shard).range()));
            let range = self.keys.due(shard).range();
            ranges.push(Place::Due { shard, range, limit: DUE_MAX, told: 0 });
        }
        while !ranges.is_empty() {
            let reads = ranges.iter().map(|place| match place {
                Place::Work(range) => Read::Range { range: range.clone(), limit: limits.page_items },
                Place::Due { range, limit, .. } => Read::Range { range: range.clone(), limit: *limit },
            });
            let found = self.kind.ground.store().read(reads.collect()).await?;
            let mut rest = Vec::new();
            for (at, place) in ranges.into_iter().enumerate() {
                let page = found.range(at);
                match place {
                    Place::Work(range) => {
                        self.poke(&range, &page.items)?;
                        if let Some(last) = page.items.last().filter(|_| page.more) {
                            rest.push(Place::Work(range.after(&last.key)));
                        }
                    }
                    Place::Due { shard, range, mut told, .. } => {
                        let is_over = self.fire(shard, &range, &page.items, &mut told).await?;
                        if let Some(last) = page.items.last().filter(|_| page.more && !is_over) {
                            let (range, limit) = (range.after(&last.key), limits.page_items);
                            rest.push(Place::Due { shard, range, limit, told });
                        }
                    }
                }
            }
            ranges = rest;
        }
        Ok(())
    }

    /// Our shards with timers whose time has come.
    fn shards_due(&self) -> u64 {
        let now = millis(self.kind.ground.env().unix_time());
        self.due.iter().filter(|(_, due)| **due <= now).fold(0, |bits, (shard, _)| bits | 1 << shard)
    }

    fn own(&self, shards: u64) -> impl Iterator<Item = u64> + '_ {
        self.watching.keys().copied().filter(move |shard| shards >> shard & 1 == 1)
    }

    /// Pokes the desks of servers whose marks have changed.
    fn poke(&mut self, range: &Range, items: &[Item]) -> Result<(), StoreError> {
        forget(&mut self.seen, range, items);
        for item in items {
            if self.seen.insert(item.key.clone(), item.version) != Some(item.version) {
                self.kind.desk(&id_of(&item.key)?).poke();
            }
        }
        Ok(())
    }

    /// Moves messages whose time has come into their queues, tells servers to sweep, and finds out when the next of the
    /// shard is due. Returns whether that was found: nothing behind is due.
    async fn fire(
        &mut self,
        shard: u64,
        range: &Range,
        items: &[Item],
        told: &mut usize,
    ) -> Result<bool, CommitError> {
        forget(&mut self.asked, range, items);
        let now = millis(self.kind.ground.env().unix_time());
        for item in items {
            let (at, id, timer) = due_of(&item.key)?;
            if at > now {
                self.wake(shard, at);
                return Ok(true);
            }
            if timer == SWEEP {
                let again = self.ask(&item.key, at, &id, now, told);
                self.wake(shard, again);
            } else {
                if !self.deliver(item, at, &id, timer).await? {
                    self.wake(shard, now + AGAIN_MS);
                }
            }
        }
        Ok(false)
    }

    /// The shard is looked at again then, or before.
    fn wake(&mut self, shard: u64, at: u64) {
        self.due.entry(shard).and_modify(|due| *due = at.min(*due)).or_insert(at);
    }

    /// Tells a server to sweep, unless it was told a little before, or enough others were. Returns when to look again.
    fn ask(&mut self, key: &Key, at: u64, id: &Name, now: u64, told: &mut usize) -> u64 {
        let asked = self.asked.get(key).copied();
        if let Some(asked) = asked.filter(|asked| asked.again > now) {
            return asked.again;
        }
        if *told == DUE_MAX {
            return now + SWEEP_PAUSE_MS;
        }
        *told += 1;
        // A desk that is too busy is told again.
        let _ = self.kind.desk(id).requests.try_send(Request::Sweep(at));
        let pause = asked.map_or(SWEEP_PAUSE_MS, |asked| (2 * asked.pause).min(SWEEP_PAUSE_MOST_MS));
        self.asked.insert(key.clone(), Asked { again: now + pause, pause });
        now + pause
    }

    /// Puts a message that is due into its queue, exactly once: whoever takes the timer away puts it there. Returns whether
    /// it was taken away, by whomever.
    async fn deliver(&self, item: &Item, at: u64, id: &Name, timer: u64) -> Result<bool, CommitError> {
        let ground = &self.kind.ground;
        let now = Bytes::copy_from_slice(&millis(ground.env().unix_time()).to_be_bytes());
        let keys = ServerKeys::new(ground.keys(), &self.kind.name, id);
        let place = keys.timer(timer, at);
        let list = if item.value == URGENT { &keys.urgent } else { &keys.queue };
        let found = ground.store().read(vec![Read::Key(place.clone())]).await?;
        let commit = match found.key(0) {
            Some(found) if self.kind.flaws.timer_removed_after => {
                let delivery = Commit::new()
                    .check(Check::Version(place.clone(), found.version))
                    .append(list.clone(), found.value.clone())
                    .set(keys.work.clone(), now);
                ground.store().commit(delivery).await?;
                Commit::new().delete(place).delete(item.key.clone())
            }
            Some(found) => Commit::new()
                .check(Check::Version(place.clone(), found.version))
                .delete(place)
                .delete(item.key.clone())
                .append(list.clone(), found.value.clone())
                .set(keys.work.clone(), now),
            // It was cancelled, or its server deleted.
            None => Commit::new().delete(item.key.clone()),
        };
        match ground.store().commit(commit).await {
            Ok(_) => self.kind.poke(id),
            Err(CommitError::Conflict(Conflict::Check { .. })) => {}
            Err(CommitError::Conflict(Conflict::Contention)) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

/// Forgets what was noted of keys that are gone; within a page, that is known.
fn forget<T>(noted: &mut BTreeMap<Key, T>, range: &Range, items: &[Item]) {
    let there: BTreeSet<&Key> = items.iter().map(|item| &item.key).collect();
    let last = items.last().map(|item| &item.key);
    noted.retain(|key, _| !range.contains(key) || last.is_some_and(|last| key > last) || there.contains(key));
}

/// Waits for changes of a shard, for ever.
fn watch<S: Server>(
    kind: &Kind<S>,
    ranges: [Range; 2],
    shard: u64,
    changed: &Arc<AtomicU64>,
    told: &Arc<Notify>,
) -> JoinHandle<()> {
    let (changed, told) = (Arc::clone(changed), Arc::clone(told));
    let [mut work, mut due] = ranges.map(|range| kind.ground.store().watch(range));
    kind.ground.env().spawn(async move {
        loop {
            tokio::select! {
                biased;
                () = work.changed() => {}
                () = due.changed() => {}
            }
            changed.fetch_or(1 << shard, Ordering::SeqCst);
            told.notify_one();
        }
    })
}

/// How much a session wants a shard: every node finds the same.
fn weight(session: SessionId, shard: u64) -> u64 {
    let bytes = session.to_bytes();
    let half =
        |at: usize| bytes[at..at + 8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    mix(half(0) ^ half(8).rotate_left(32) ^ shard.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
