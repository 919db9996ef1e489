//! [`Inboxes`]: the one place where it is decided whether a message is delivered, and to whom.
//!
//! Everything is decided and done under one lock: whether the message is for this session and from the sender's present one, whether
//! its link is the sender's newest, whether it was here before, and whether there is room for it. As the directory never goes back, nothing of an
//! earlier incarnation, and nothing that came on an earlier link, is delivered after something of a later one.
//!
//! **A slow subscriber** blocks nobody: a message that its inbox has no room for is dropped for it and counted. If no other subscriber took it, the sender is
//! told, and may send again later.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_store::{Env, Name};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    Directory, LinkSettings, Message, MessageId, Sender,
    measures::{self, OpenLink},
    recent::Recent,
    wire::Verdict,
};
use crate::session::SessionId;

/// How many of the largest messages an inbox has room for: enough for a burst, and a thousand times less than as many as it may hold small ones.
const LARGEST_MESSAGES_MAX: usize = 8;

/// All inboxes of this node, and the links that lead to them.
pub(super) struct Inboxes {
    directory: Arc<dyn Directory>,
    env: Env,
    /// How many messages an inbox holds.
    messages_max: usize,
    /// How many bytes their bodies have together.
    bytes_max: usize,
    links_max: usize,
    state: Mutex<State>,
}

struct State {
    /// Topics that somebody subscribes to.
    topics: HashMap<Name, Vec<Inbox>>,
    /// The newest link from each node.
    links: HashMap<Name, Newest>,
    recent: Recent,
    /// What tells inboxes and links from others that had their place before.
    next_number: u64,
    closed: bool,
}

struct Inbox {
    number: u64,
    queue: mpsc::Sender<Stored>,
    room: Arc<Semaphore>,
}

struct Newest {
    number: u64,
    superseded: CancellationToken,
}

/// A message in an inbox.
pub(super) struct Stored {
    pub(super) message: Message,
    /// Which session of this node it is for.
    pub(super) to: SessionId,
    /// Its bytes of the inbox, free again when this is dropped.
    _room: OwnedSemaphorePermit,
}

/// A link from a peer, let in. Dropped, the place is free.
pub(super) struct Admitted {
    inboxes: Arc<Inboxes>,
    from: Sender,
    to: SessionId,
    number: u64,
    /// Cancelled when the peer has opened a newer one.
    pub(super) superseded: CancellationToken,
    _open: OpenLink,
}

impl Inboxes {
    pub(super) fn new(settings: &LinkSettings, env: Env, directory: Arc<dyn Directory>) -> Self {
        let state = State {
            topics: HashMap::new(),
            links: HashMap::new(),
            recent: Recent::new(settings.duplicates_window),
            next_number: 0,
            closed: false,
        };
        Self {
            directory,
            env,
            messages_max: settings.inbox_messages,
            bytes_max: LARGEST_MESSAGES_MAX * settings.message_bytes_max,
            links_max: settings.links_max,
            state: Mutex::new(state),
        }
    }

    /// Lets a link in whose opener has proven who it is, or says why not.
    pub(super) fn admit(
        self: &Arc<Self>,
        from: Sender,
        to_node: &Name,
        to: SessionId,
    ) -> Result<Admitted, Verdict> {
        let mut state = self.state.lock();
        let me = self.directory.me();
        if me.node != *to_node {
            return Err(Verdict::WrongNode);
        }
        if me.session != to {
            return Err(Verdict::WrongSession);
        }
        if !self.knows(&from) {
            return Err(Verdict::NotKnown);
        }
        if state.links.len() >= self.links_max && !state.links.contains_key(&from.node) {
            return Err(Verdict::Busy);
        }
        let (number, superseded) = (state.take_number(), CancellationToken::new());
        let newest = Newest { number, superseded: superseded.clone() };
        if let Some(older) = state.links.insert(from.node.clone(), newest) {
            older.superseded.cancel();
        }
        let inboxes = Arc::clone(self);
        Ok(Admitted { inboxes, from, to, number, superseded, _open: OpenLink::incoming() })
    }

    /// Delivers what this node sends to itself.
    pub(super) fn deliver_here(&self, id: MessageId, topic: &Name, body: &Bytes) -> Verdict {
        let mut state = self.state.lock();
        let me = self.directory.me();
        let from = Sender { node: me.node, session: me.session };
        let message = Message { id, from, topic: topic.clone(), body: body.clone() };
        self.hand_out(&mut state, message, me.session)
    }

    /// A new inbox for a topic, and its number.
    pub(super) fn open(&self, topic: &Name) -> (u64, mpsc::Receiver<Stored>) {
        let (queue, stored) = mpsc::channel(self.messages_max);
        let mut state = self.state.lock();
        let number = state.take_number();
        if !state.closed {
            let inbox = Inbox { number, queue, room: Arc::new(Semaphore::new(self.bytes_max)) };
            state.topics.entry(topic.clone()).or_default().push(inbox);
        }
        (number, stored)
    }

    /// Removes an inbox.
    pub(super) fn remove(&self, topic: &Name, number: u64) {
        let mut state = self.state.lock();
        if let Entry::Occupied(mut inboxes) = state.topics.entry(topic.clone()) {
            inboxes.get_mut().retain(|inbox| inbox.number != number);
            if inboxes.get().is_empty() {
                inboxes.remove();
            }
        }
    }

    /// Whether a message that was for this session of ours still is for the present one.
    pub(super) fn is_present(&self, session: SessionId) -> bool {
        self.directory.me().session == session
    }

    /// Ends all inboxes: what is in them can still be received.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.topics.clear();
    }

    /// Whether a sender is in its present session, as far as the membership has told.
    fn knows(&self, from: &Sender) -> bool {
        self.directory.find(&from.node).is_some_and(|peer| peer.session == from.session)
    }

    fn hand_out(&self, state: &mut State, message: Message, to: SessionId) -> Verdict {
        let now = self.env.now();
        if state.recent.contains(message.id, now) {
            return Verdict::Duplicate;
        }
        let Some(inboxes) = state.topics.get(&message.topic) else { return Verdict::NoSubscriber };
        let mut taken = false;
        for inbox in inboxes {
            taken |= inbox.take(&message, to);
        }
        if !taken {
            return Verdict::Full;
        }
        state.recent.insert(message.id, now);
        Verdict::Accepted
    }
}

impl State {
    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl Inbox {
    /// Takes a message if there is room for it.
    fn take(&self, message: &Message, to: SessionId) -> bool {
        let bytes = u32::try_from(message.body.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes).ok();
        let taken = room
            .and_then(|room| self.queue.try_send(Stored { message: message.clone(), to, _room: room }).ok());
        if taken.is_none() {
            measures::dropped("inbox_full");
        }
        taken.is_some()
    }
}

impl Admitted {
    /// Who opened the link.
    pub(super) fn from(&self) -> &Sender {
        &self.from
    }

    /// Delivers a letter that came on this link, or says why not.
    pub(super) fn deliver(&self, id: MessageId, topic: Name, body: &[u8]) -> Verdict {
        // Copied, since what is received shares memory with what came before and after it, which no inbox accounts for.
        let body = Bytes::copy_from_slice(body);
        let mut state = self.inboxes.state.lock();
        if state.links.get(&self.from.node).is_none_or(|newest| newest.number != self.number) {
            return Verdict::Superseded;
        }
        if !self.inboxes.is_present(self.to) {
            return Verdict::WrongSession;
        }
        if !self.inboxes.knows(&self.from) {
            return Verdict::NotKnown;
        }
        let message = Message { id, from: self.from.clone(), topic, body };
        self.inboxes.hand_out(&mut state, message, self.to)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.inboxes.state.lock();
        if state.links.get(&self.from.node).is_some_and(|newest| newest.number == self.number) {
            state.links.remove(&self.from.node);
        }
    }
}

impl fmt::Debug for Inboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inboxes").finish_non_exhaustive()
    }
}
