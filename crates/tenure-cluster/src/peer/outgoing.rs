//! [`Outgoing`]: the links that this node has to others, one for each peer that it sends to.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_store::{Moment, Name};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{MessageId, Outcome, Peer, link::Link, links::Shared, opener::Route};

/// How many messages may wait for one peer, apart from those on their way.
const QUEUE_MAX: usize = 256;

/// How many of the largest messages may wait for one peer or be on their way. One that takes none for a while may not fill the memory.
const LARGEST_MESSAGES_MAX: usize = 4;

/// The links to other nodes.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    links: HashMap<Name, Handle>,
    next_number: u64,
}

/// What is known about a link outside of its task.
#[derive(Debug)]
struct Handle {
    /// What tells it from others to the same peer.
    number: u64,
    route: Route,
    queue: mpsc::Sender<Parcel>,
    /// The bytes that may wait for this peer.
    room: Arc<Semaphore>,
    replaced: CancellationToken,
    used: Moment,
}

/// A message as it is to be sent, to whomever.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) id: MessageId,
    pub(super) topic: Name,
    pub(super) body: Bytes,
    pub(super) deadline: Moment,
}

/// A message to one peer.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) draft: Draft,
    /// Whom to tell what came of it. Closed when nobody waits any more.
    pub(super) answer: oneshot::Sender<Outcome>,
    /// How often the link failed with this in hand.
    pub(super) attempts: u32,
    /// How often it was sent.
    pub(super) sent: u32,
    /// Its bytes of the room, free again when this is dropped.
    _room: OwnedSemaphorePermit,
}

impl Outgoing {
    /// Puts a message into the queue to a peer, and opens a link if there is none. Or says at once what came of it.
    pub(super) fn post(
        &self,
        shared: &Arc<Shared>,
        to: &Peer,
        draft: Draft,
    ) -> Result<oneshot::Receiver<Outcome>, Outcome> {
        let Some(address) = to.address.clone() else { return Err(Outcome::NoAddress) };
        if shared.settings.is_insecure() && !is_loopback(&address) {
            return Err(Outcome::Refused(format!(
                "{} is at {address}, and links without a secret or tls go to loopback addresses only: give all nodes a secret",
                to.node
            )));
        }
        let mut state = self.state.lock();
        // Asked under the lock, so that of two messages the later one is not from the earlier session.
        let route = Route { from: shared.directory.me(), to: to.clone(), address };
        let handle = state.handle(shared, route)?;
        handle.used = shared.env.now();
        // At least one, so that an empty one shows as well.
        let bytes = u32::try_from(draft.body.len().max(1)).unwrap_or(u32::MAX);
        let room = Arc::clone(&handle.room).try_acquire_many_owned(bytes);
        let (answer, outcome) = oneshot::channel();
        let posted = room.ok().and_then(|room| {
            handle.queue.try_send(Parcel { draft, answer, attempts: 0, sent: 0, _room: room }).ok()
        });
        match posted {
            Some(()) => Ok(outcome),
            None => Err(Outcome::Refused(format!(
                "too much waits for {} already, it takes less than it is sent: send less, or later",
                to.node
            ))),
        }
    }

    /// Forgets a link that has nothing to do. Whether it may end: not if something was put into its queue meanwhile.
    pub(super) fn retire(&self, node: &Name, number: u64, queue: &mpsc::Receiver<Parcel>) -> bool {
        let mut state = self.state.lock();
        if !queue.is_empty() {
            return false;
        }
        if state.links.get(node).is_some_and(|handle| handle.number == number) {
            state.links.remove(node);
        }
        true
    }
}

impl State {
    /// The link of a route. One to the same peer by another route is given up: it is from or to a session that has ended.
    fn handle(&mut self, shared: &Arc<Shared>, route: Route) -> Result<&mut Handle, Outcome> {
        let node = route.to.node.clone();
        if self.links.get(&node).is_some_and(|handle| handle.route != route)
            && let Some(old) = self.links.remove(&node)
        {
            old.replaced.cancel();
        }
        if !self.links.contains_key(&node) {
            self.make_room(shared)?;
            self.next_number += 1;
            let handle = Handle::start(shared, route, self.next_number);
            self.links.insert(node.clone(), handle);
        }
        self.links.get_mut(&node).ok_or(Outcome::NoAddress)
    }

    /// Closes the link that was not used for the longest time, if there are as many as may be.
    fn make_room(&mut self, shared: &Shared) -> Result<(), Outcome> {
        let most = shared.settings.links_max;
        if self.links.len() < most {
            return Ok(());
        }
        let idle = self.links.iter().filter(|(_, handle)| handle.is_idle(shared));
        let oldest = idle.min_by_key(|(_, handle)| handle.used).map(|(node, _)| node.clone());
        let oldest = oldest.and_then(|node| self.links.remove(&node));
        let oldest = oldest.ok_or_else(|| {
            Outcome::Refused(format!("all {most} links of this node are in use: raise links_max"))
        })?;
        oldest.replaced.cancel();
        Ok(())
    }
}

impl Handle {
    fn start(shared: &Arc<Shared>, route: Route, number: u64) -> Self {
        let (queue, parcels) = mpsc::channel(QUEUE_MAX);
        let replaced = CancellationToken::new();
        let link = Link::new(Arc::clone(shared), route.clone(), number, parcels, replaced.clone());
        shared.tasks.spawn(link.run());
        let room = Arc::new(Semaphore::new(room(shared)));
        Self { number, route, queue, room, replaced, used: shared.env.now() }
    }

    /// Whether nothing waits and nothing is on its way.
    fn is_idle(&self, shared: &Shared) -> bool {
        self.queue.capacity() == QUEUE_MAX && self.room.available_permits() == room(shared)
    }
}

fn room(shared: &Shared) -> usize {
    LARGEST_MESSAGES_MAX * shared.settings.message_bytes_max
}

/// Whether an address is on this machine for sure.
fn is_loopback(address: &str) -> bool {
    address
        .parse::<SocketAddr>()
        .map_or(address.starts_with("localhost:"), |address| address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_elsewhere() {
        for address in ["127.0.0.1:7", "127.9.9.9:7", "[::1]:7", "localhost:7"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["10.0.0.1:7", "[::]:7", "localhost.example.org:7", "127.0.0.1.example.org:7", ""] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
