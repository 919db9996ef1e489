//! [`Streams`]: what a leader tells its followers, each in order and at its own pace.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_store::Name;
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    Wire,
    member::{HEARTBEAT, Member},
    message::{Answer, Message, Stream},
    wire::Undelivered,
};

/// How many bytes of batches wait for a follower that is slow. One that missed some reads them from the store.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// After a message that did not arrive.
const PAUSE: Duration = Duration::from_millis(50);

/// After how many messages that can't arrive a follower is given up.
const TRIES_MAX: usize = 20;

/// The streams of one leader.
#[derive(Debug)]
pub(crate) struct Streams {
    epoch: u64,
    followers: Mutex<BTreeMap<Name, Follower>>,
    /// Up to which position everything is told, or is in the store for those who were not.
    published: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Follower {
    queue: Arc<Queue>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What waits for one follower.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<(u64, Bytes)>,
    bytes: usize,
    answers: Vec<(u64, Answer)>,
    /// Whether it is to hear something now, if only how far the log is.
    greet: bool,
}

impl Streams {
    /// Those of a leader that begins at this position.
    pub(crate) fn new(epoch: u64, position: u64) -> Self {
        Self { epoch, followers: Mutex::default(), published: Arc::new(AtomicU64::new(position)) }
    }

    /// Tells a follower how far the log is, and everything from now on.
    pub(crate) fn greet(&self, member: &Arc<Member>, follower: &Name) {
        self.with(member, follower, |waiting| waiting.greet = true);
    }

    /// Answers a follower, behind all batches that it was told of.
    pub(crate) fn answer(&self, member: &Arc<Member>, follower: &Name, request: u64, answer: Answer) {
        self.with(member, follower, |waiting| waiting.answers.push((request, answer)));
    }

    /// Tells all followers of a batch.
    pub(crate) fn publish(&self, position: u64, batch: &Bytes) {
        let mut followers = self.followers.lock();
        followers.retain(|_, follower| !follower.task.is_finished());
        for follower in followers.values() {
            let mut waiting = follower.queue.waiting.lock();
            if waiting.bytes + batch.len() > WAITING_BYTES_MAX {
                waiting.batches.clear();
                waiting.bytes = 0;
            }
            waiting.bytes += batch.len();
            waiting.batches.push_back((position, batch.clone()));
            drop(waiting);
            follower.queue.told.notify_one();
        }
        self.published.store(position, Ordering::SeqCst);
    }

    fn with(&self, member: &Arc<Member>, follower: &Name, change: impl FnOnce(&mut Waiting)) {
        let Some(wire) = &member.wire else { return };
        let mut followers = self.followers.lock();
        followers.retain(|_, follower| !follower.task.is_finished());
        let found = followers.entry(follower.clone()).or_insert_with(|| {
            let queue = Arc::new(Queue::default());
            let sending = tell(
                Arc::clone(member),
                Arc::clone(wire),
                Arc::clone(&queue),
                (follower.clone(), self.epoch),
                Arc::clone(&self.published),
            );
            Follower { task: member.ground.env().spawn(sending), queue }
        });
        change(&mut found.queue.waiting.lock());
        found.queue.told.notify_one();
    }
}

impl Waiting {
    /// The next message. `tail` is how far the log was before this was called: more must not seem to be missing than is.
    fn take(&mut self, epoch: u64, tail: u64, bytes_max: usize) -> Stream {
        let mut stream = Stream { epoch, tail, ..Stream::default() };
        let mut bytes = 0;
        while let Some((position, batch)) = self.batches.front() {
            bytes += batch.len() + 16;
            if bytes > bytes_max && !stream.batches.is_empty() {
                break;
            }
            stream.tail = stream.tail.max(*position);
            self.bytes -= batch.len();
            stream.batches.extend(self.batches.pop_front());
        }
        self.greet = false;
        // Behind all batches, so that whoever gets an answer has what it is about.
        if let (Some((position, _)), false) = (stream.batches.last(), self.batches.is_empty()) {
            stream.tail = *position;
        }
        if self.batches.is_empty() {
            stream.answers = std::mem::take(&mut self.answers);
        }
        stream
    }

    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.answers.is_empty() && !self.greet
    }
}

/// Tells one follower, until the task is ended.
async fn tell(
    member: Arc<Member>,
    wire: Arc<dyn Wire>,
    queue: Arc<Queue>,
    (follower, epoch): (Name, u64),
    published: Arc<AtomicU64>,
) {
    let env = member.ground.env().clone();
    let bytes_max = wire.message_bytes_max() / 2;
    let mut tries = 0;
    // One that is gone asks again if it comes back.
    while tries < TRIES_MAX {
        if queue.waiting.lock().is_empty() {
            // Nothing to tell is also told, now and then.
            let _ = env.timeout(HEARTBEAT, queue.told.notified()).await;
        }
        let tail = published.load(Ordering::SeqCst);
        let stream = queue.waiting.lock().take(epoch, tail, bytes_max);
        let message = Message::Stream(stream.clone()).encode();
        match wire.send(&follower, &member.topic, message).await {
            Ok(()) => tries = 0,
            Err(error) => {
                tries += usize::from(matches!(error, Undelivered::Never(_)));
                // Batches are in the store, answers are not.
                queue.waiting.lock().answers.splice(0..0, stream.answers);
                env.sleep(PAUSE).await;
            }
        }
    }
}
