//! [`Courier`]: sends messages, many in one commit, each exactly once.
//!
//! A few lanes, each with a task. What is sent to one server always takes the same lane, so that one sender's messages keep their order. All that waits for a lane
//! goes in its next commit, and what goes to one server is one entry of its queue: the cost of a thousand messages that are sent at once is one flush.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_cluster::Ground;
use tenure_store::{
    Check, Commit, CommitError, Conflict, Key, LaneError, Limits, Moment, Name, Pauses, Read, Store as _,
    StoreError, StoreExt as _,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    ServerError,
    flaws::Flaws,
    keys::{self, ServerKeys},
    lane::OwnLane,
    mailroom::Mailroom,
    parcel::{self, Bundle, Parcel, millis},
    reply,
};

/// How many lanes a node has: a few commits may be under way at once, and each flush is shared by what waits meanwhile.
const LANES: usize = 4;

/// How many sendings wait for a lane before senders do.
const WAITING_MAX: usize = 4096;

/// The most messages in one entry of a queue, so that one entry is never more than a batch.
const BUNDLE_MAX: usize = 1024;

/// Between two measurements of a queue that is marked as full.
const MEASURE_PAUSE: Duration = Duration::from_millis(500);

/// How many queues a lane remembers the depth of.
const GAUGES_MAX: usize = 10_000;

/// Told of what was sent to whom: a desk of this node may want to know at once.
pub(crate) type Told = Arc<dyn Fn(&Name, &Name) + Send + Sync>;

/// Something to send: all of it, or nothing.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) kind: Name,
    pub(crate) id: Name,
    pub(crate) keys: Arc<ServerKeys>,
    pub(crate) way: Way,
    pub(crate) parcels: Vec<Parcel>,
    /// The limit of the queue.
    pub(crate) queue_max: u64,
    pub(crate) done: Option<oneshot::Sender<Result<(), ServerError>>>,
    /// Lives as long as this is on its way, for whoever has the other end.
    #[allow(dead_code, reason = "it is counted, not read")]
    pub(crate) under_way: Option<Arc<()>>,
}

/// Where messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Queue,
    /// Past the queue.
    Urgent,
    /// To the queue, at this time, as this timer.
    Later {
        at_ms: u64,
        timer: u64,
    },
}

impl Sending {
    fn weight(&self) -> usize {
        self.parcels.iter().map(Parcel::weight).sum()
    }

    fn answer(&mut self, outcome: Result<(), ServerError>) {
        if let Some(done) = self.done.take() {
            // The sender may not wait any more.
            let _ = done.send(outcome);
        } else if let Err(error) = outcome {
            tracing::warn!(kind = %self.kind, server = %self.id, %error, "a message that nobody waited for was not sent");
            metrics::counter!("tenure_server_unsent_total", "kind" => self.kind.to_string()).increment(1);
        }
    }
}

/// Sends messages.
#[derive(Clone, Debug)]
pub(crate) struct Courier {
    lanes: Vec<mpsc::Sender<Sending>>,
}

impl Courier {
    /// A courier, and its tasks.
    pub(crate) fn start(
        ground: &Ground,
        room: &Arc<Mailroom>,
        told: &Told,
        flaws: Flaws,
    ) -> (Self, Vec<JoinHandle<()>>) {
        let mut tasks = Vec::new();
        let lanes = (0..LANES as u64).map(|number| {
            let (send, waiting) = mpsc::channel(WAITING_MAX);
            let way = Street {
                ground: ground.clone(),
                room: Arc::clone(room),
                told: Arc::clone(told),
                lane: OwnLane::new(ground, keys::send_lane, number),
                gauges: BTreeMap::new(),
                limits: ground.store().limits(),
                flaws,
            };
            tasks.push(ground.env().spawn(way.run(waiting)));
            send
        });
        let lanes = lanes.collect();
        (Self { lanes }, tasks)
    }

    /// Sends, and returns when it is durable.
    pub(crate) async fn send(&self, mut sending: Sending) -> Result<(), ServerError> {
        let (done, outcome) = oneshot::channel();
        sending.done = Some(done);
        self.lane(&sending).send(sending).await.map_err(|_| ServerError::Left)?;
        outcome.await.map_err(|_| ServerError::Left)?
    }

    /// Sends without waiting; whoever waits is told by `done`.
    pub(crate) fn send_soon(&self, sending: Sending) -> Result<(), ServerError> {
        self.lane(&sending).try_send(sending).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(mut sending) => {
                let error = ServerError::Full { server: sending.id.clone(), limit: WAITING_MAX as u64 };
                if sending.done.is_some() {
                    sending.answer(Err(error.clone()));
                }
                error
            }
            mpsc::error::TrySendError::Closed(_) => ServerError::Left,
        })
    }

    fn lane(&self, sending: &Sending) -> &mpsc::Sender<Sending> {
        let at = usize::try_from(keys::shard_of(&sending.id)).expect("few shards") % self.lanes.len();
        &self.lanes[at]
    }
}

/// How deep a queue was when it was measured, and how many messages were sent to it since.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    depth: u64,
    sent: u64,
    /// When that was, if it was.
    at: Option<Moment>,
}

/// One lane, and what waits for it.
struct Street {
    ground: Ground,
    room: Arc<Mailroom>,
    told: Told,
    lane: OwnLane,
    gauges: BTreeMap<Key, Gauge>,
    limits: Limits,
    flaws: Flaws,
}

impl Street {
    async fn run(mut self, mut waiting: mpsc::Receiver<Sending>) {
        let mut left_over = None;
        loop {
            let first = match left_over.take() {
                Some(sending) => sending,
                None => match waiting.recv().await {
                    Some(sending) => sending,
                    None => return,
                },
            };
            let mut load = Vec::new();
            let (mut bytes, mut operations) = (0, 0);
            let mut next = Some(first);
            while let Some(sending) = next {
                // Half of what a commit may hold is left for what is added to it.
                let (weight, count) = (sending.weight(), 4 + sending.weight() / self.limits.value_bytes);
                let full = bytes + weight > self.limits.commit_bytes / 2
                    || operations + count > self.limits.commit_operations / 2;
                if full && !load.is_empty() {
                    left_over = Some(sending);
                    break;
                }
                (bytes, operations) = (bytes + weight, operations + count);
                load.push(sending);
                next = waiting.try_recv().ok();
            }
            self.deliver(load).await;
        }
    }

    /// Sends all of these in one commit, or, where some are refused, the others.
    async fn deliver(&mut self, mut load: Vec<Sending>) {
        let mut pauses = self.ground.retry().start(self.ground.env());
        self.admit(&mut load).await;
        while !load.is_empty() {
            let discards = self.room.take_discards(self.limits.commit_operations / 4);
            let commit = discards.iter().fold(self.build(&load), |commit, key| commit.delete(key.clone()));
            let outcome = self.make(commit).await;
            if outcome.is_err() {
                self.room.add_discards(discards);
            }
            match outcome {
                Ok(()) => {
                    for mut sending in load.drain(..) {
                        if let Some(gauge) = self.gauges.get_mut(&sending.keys.queue) {
                            gauge.sent += sending.parcels.len() as u64;
                        }
                        sending.answer(Ok(()));
                        (self.told)(&sending.kind, &sending.id);
                    }
                }
                Err(LaneError::Conflict(Conflict::Check { key, .. })) => {
                    self.refuse_full(&mut load, &key).await;
                }
                Err(error) => {
                    let again = match &error {
                        LaneError::Conflict(_) | LaneError::Lost { .. } => true,
                        LaneError::Failed(error) => error.is_transient(),
                        _ => false,
                    };
                    if again
                        && self.ground.session().ended() != Some(tenure_cluster::Cause::Left)
                        && pauses.pause().await
                    {
                        continue;
                    }
                    let left = self.ground.session().ended() == Some(tenure_cluster::Cause::Left);
                    let is_known = !matches!(error, LaneError::OutcomeUnknown(_));
                    let error = if left && is_known { ServerError::Left } else { ServerError::from(error) };
                    load.drain(..).for_each(|mut sending| sending.answer(Err(error.clone())));
                }
            }
        }
    }

    /// Refuses what goes to a queue that is marked as full; if it is no longer, the mark goes.
    async fn refuse_full(&mut self, load: &mut Vec<Sending>, full: &Key) {
        let Some(queue) =
            load.iter().find(|sending| sending.keys.full == *full).map(|one| one.keys.queue.clone())
        else {
            // The lane's own check is told as lost; others there are none.
            return;
        };
        let limit = load.iter().find(|one| one.keys.queue == queue).map_or(0, |one| one.queue_max);
        let now = self.ground.env().now();
        let last = self.gauges.get(&queue).and_then(|gauge| gauge.at);
        if last.is_some_and(|last| now - last < MEASURE_PAUSE) {
            // Measuring a long queue at every try would be dear.
            return self.refuse(load, &queue);
        }
        let depth = self.measure(&queue, limit).await;
        self.gauges.insert(queue.clone(), Gauge { depth: depth.unwrap_or(limit), sent: 0, at: Some(now) });
        if depth.is_some_and(|depth| depth <= limit / 2) {
            // Whoever marked it has seen more; it was emptied since.
            let unmark = Commit::new().delete(full.clone());
            if self.ground.store().commit(unmark).await.is_ok() {
                return;
            }
        }
        self.refuse(load, &queue);
    }

    fn refuse(&mut self, load: &mut Vec<Sending>, queue: &Key) {
        load.retain_mut(|sending| {
            let refused = sending.keys.queue == *queue && sending.way == Way::Queue;
            if refused {
                let (server, limit) = (sending.id.clone(), sending.queue_max);
                sending.answer(Err(ServerError::Full { server, limit }));
            }
            !refused
        });
    }

    /// Refuses what would make a queue longer than it may be, as far as is known.
    async fn admit(&mut self, load: &mut Vec<Sending>) {
        let mut wanted: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        for sending in load.iter().filter(|sending| sending.way == Way::Queue) {
            let (count, limit) = wanted.entry(sending.keys.queue.clone()).or_default();
            (*count, *limit) = (*count + sending.parcels.len() as u64, sending.queue_max);
        }
        for (queue, (count, limit)) in wanted {
            let gauge = self.gauges.get(&queue).copied().unwrap_or_default();
            let room = limit.saturating_sub(gauge.depth) / 8;
            if gauge.sent + count <= room {
                if self.gauges.len() > GAUGES_MAX {
                    self.gauges.clear();
                }
                self.gauges.entry(queue).or_default();
                continue;
            }
            let Some(depth) = self.measure(&queue, limit).await else { continue };
            self.gauges.insert(queue.clone(), Gauge { depth, sent: 0, at: Some(self.ground.env().now()) });
            if depth + count > limit {
                let full = load.iter().find(|one| one.keys.queue == queue).map(|one| one.keys.full.clone());
                if let Some(full) = full.filter(|_| depth >= limit) {
                    // For others to know, and for ourselves: measuring a long queue at every try would be dear.
                    let mark = Commit::new().set(full, Bytes::from_static(&[1]));
                    if let Err(error) = self.ground.store().commit(mark).await {
                        tracing::debug!(%error, "a full queue could not be marked");
                    }
                }
                self.refuse(load, &queue);
            }
        }
    }

    /// How many messages wait in a queue, counted no further than the limit; `None` if that can't be said now.
    async fn measure(&self, queue: &Key, limit: u64) -> Option<u64> {
        let (store, mut after, mut depth) = (self.ground.store(), None, 0_u64);
        loop {
            let read = Read::List { list: queue.clone(), after: after.take(), limit: self.limits.page_items };
            let Ok(tenure_store::Answer::List(page)) = store.one(read).await else { return None };
            for entry in &page.items {
                depth += match Bundle::decode(queue, &entry.value) {
                    Ok(Bundle::Here(parcels)) => parcels.len() as u64,
                    _ => 1,
                };
            }
            after = page.items.last().map(|entry| entry.id.clone());
            if !page.more || depth > limit || after.is_none() {
                return Some(depth);
            }
        }
    }

    fn build(&self, load: &[Sending]) -> Commit {
        // By place, in the order of sending.
        let mut bundles: BTreeMap<(Key, Way), (Arc<ServerKeys>, Vec<Parcel>)> = BTreeMap::new();
        for sending in load {
            let place = (sending.keys.queue.clone(), sending.way);
            let bundle = bundles.entry(place).or_insert_with(|| (Arc::clone(&sending.keys), Vec::new()));
            bundle.1.extend(sending.parcels.iter().cloned());
        }
        let now = Bytes::copy_from_slice(&millis(self.ground.env().unix_time()).to_be_bytes());
        let mut commit = Commit::new();
        let mut told: Option<Key> = None;
        for ((_, way), (keys, parcels)) in bundles {
            let list = match way {
                Way::Queue => &keys.queue,
                Way::Urgent => &keys.urgent,
                Way::Later { at_ms, timer } => {
                    for parcel in parcels {
                        commit = set_timer(commit, &keys, at_ms, timer, &parcel, false, &self.limits);
                    }
                    continue;
                }
            };
            if way == Way::Queue {
                commit = commit.check(Check::Absent(keys.full.clone()));
            }
            for parcels in parcels.chunks(BUNDLE_MAX) {
                commit = append(commit, &keys, list, parcels, self.ground.env().random_u64(), &self.limits);
            }
            if told.as_ref() != Some(&keys.work) {
                commit = commit.set(keys.work.clone(), now.clone());
                told = Some(keys.work.clone());
            }
        }
        commit
    }

    async fn make(&mut self, commit: Commit) -> Result<(), LaneError> {
        if self.flaws.send_without_lane {
            return self.make_blindly(commit).await;
        }
        self.lane.present().await?.commit(commit).await.map(|_| ())
    }

    /// The mistake of many client libraries: what got no answer is sent again.
    async fn make_blindly(&self, commit: Commit) -> Result<(), LaneError> {
        let mut pauses: Pauses = self.ground.retry().start(self.ground.env());
        loop {
            match self.ground.store().commit(commit.clone()).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict(conflict)) => return Err(LaneError::Conflict(conflict)),
                Err(CommitError::Failed(error)) if !error.is_transient() => return Err(error.into()),
                Err(error) if !pauses.pause().await => {
                    return Err(StoreError::unavailable(error.to_string()).into());
                }
                Err(_) => {}
            }
        }
    }
}

/// Adds these parcels to the end of a list.
pub(crate) fn append(
    commit: Commit,
    keys: &ServerKeys,
    list: &Key,
    parcels: &[Parcel],
    number: u64,
    limits: &Limits,
) -> Commit {
    let (commit, entry) = entry(commit, keys, parcels, number, limits);
    commit.append(list.clone(), entry)
}

/// These parcels as one value; if they are too large for one, the commit also writes their pieces, under a number that is used once.
pub(crate) fn entry(
    commit: Commit,
    keys: &ServerKeys,
    parcels: &[Parcel],
    number: u64,
    limits: &Limits,
) -> (Commit, Bytes) {
    let whole = parcel::bundle(parcels);
    if whole.len() <= limits.value_bytes {
        return (commit, whole);
    }
    let pieces = reply::pieces(&whole, limits.value_bytes);
    let entry = parcel::in_pieces(number, pieces.len() as u64);
    let set = |commit: Commit, (piece, at): (Bytes, u64)| commit.set(keys.piece(number, at), piece);
    (pieces.into_iter().zip(0_u64..).fold(commit, set), entry)
}

/// Sets a timer that sends this parcel.
pub(crate) fn set_timer(
    commit: Commit,
    keys: &ServerKeys,
    at_ms: u64,
    timer: u64,
    parcel: &Parcel,
    urgent: bool,
    limits: &Limits,
) -> Commit {
    let (commit, entry) = entry(commit, keys, std::slice::from_ref(parcel), timer, limits);
    let list: &'static [u8] = if urgent { URGENT } else { &[] };
    commit.set(keys.timer(timer, at_ms), entry).set(keys.due(at_ms, timer), Bytes::from_static(list))
}

/// The value of a key of `due` whose message goes past the queue.
pub(crate) const URGENT: &[u8] = &[1];
