//! [`Links`]: the handle.

use std::{fmt, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use tenure_store::{Env, Moment, Name};
use tokio::{net::TcpListener, sync::oneshot};

use super::{
    Directory, LinkError, LinkSettings, MessageId, Outcome, Outcomes, SendError, Subscription,
    handshake::ClusterKey,
    inboxes::Inboxes,
    incoming, measures,
    outgoing::{Draft, Outgoing},
    tasks::Tasks,
    tls::Tls,
    wire::Verdict,
};

/// An address that is taken for peers, with nobody served yet: what a node needs to know before it joins.
#[derive(Debug)]
pub struct BoundLinks {
    settings: LinkSettings,
    tls: Option<Tls>,
    listener: TcpListener,
    address: SocketAddr,
}

/// The links of this node to its peers. The module tells what they promise.
///
/// Clones are the same links. When the last is dropped, all end; [`shutdown`](Self::shutdown) also waits for that.
#[derive(Clone, Debug)]
pub struct Links {
    guard: Arc<Guard>,
}

/// Ends everything when it is dropped. No task holds it.
#[derive(Debug)]
struct Guard {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// What the tasks and the handle share.
pub(super) struct Shared {
    pub(super) cluster: Name,
    pub(super) settings: LinkSettings,
    pub(super) env: Env,
    pub(super) directory: Arc<dyn Directory>,
    pub(super) key: ClusterKey,
    pub(super) tls: Option<Tls>,
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) outgoing: Outgoing,
    pub(super) tasks: Tasks,
}

impl BoundLinks {
    /// Takes the address that settings say.
    ///
    /// # Errors
    /// [`LinkError::Invalid`] when settings can't work or are not safe, or a file of TLS can't be used; [`LinkError::Listen`] when the address can't be had.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing.
    pub async fn bind(settings: LinkSettings) -> Result<Self, LinkError> {
        settings.validate()?;
        let tls = settings.tls.as_ref().map(Tls::load).transpose()?;
        let address = settings.bind;
        let listen = |source| LinkError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self { settings, tls, listener, address })
    }

    /// Where it listens, with the port that the system chose if settings had 0. What peers are told may be another: a name, or an address outside of a
    /// container.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves peers, as a node of this cluster.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn start(self, cluster: Name, directory: Arc<dyn Directory>, env: Env) -> Links {
        let Self { settings, tls, listener, address } = self;
        let shared = Arc::new(Shared {
            key: ClusterKey::new(settings.secret.as_ref()),
            inboxes: Arc::new(Inboxes::new(&settings, env.clone(), Arc::clone(&directory))),
            outgoing: Outgoing::default(),
            tasks: Tasks::new(env.clone()),
            cluster,
            settings,
            env,
            directory,
            tls,
        });
        incoming::serve(listener, &shared);
        Links { guard: Arc::new(Guard { shared, address }) }
    }
}

impl Links {
    /// Where this node listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.guard.address
    }

    /// The most bytes of a message.
    #[must_use]
    pub fn message_bytes_max(&self) -> usize {
        self.guard.shared.settings.message_bytes_max
    }

    /// Receives what is sent on a topic from now on. Several subscriptions to one topic each get everything.
    ///
    /// After a shutdown, it has ended already.
    #[must_use]
    pub fn subscribe(&self, topic: &Name) -> Subscription {
        Subscription::new(&self.guard.shared.inboxes, topic)
    }

    /// Sends a message to a member and waits until the peer has it in an inbox. It is in order behind all that was sent to that member before, that
    /// is, whose futures were polled before. To this node itself it goes without a link.
    ///
    /// # Errors
    /// [`SendError`]; that of `NotDelivered` with the outcomes `TimedOut` and `Unreachable` leaves open whether it was delivered.
    ///
    /// # Cancel safety
    /// Dropping the future gives the message up if it is not on its way yet; else it may be delivered.
    pub async fn send(&self, to: &Name, topic: &Name, body: impl Into<Bytes>) -> Result<(), SendError> {
        let shared = &self.guard.shared;
        let draft = shared.draft(MessageId::random(&shared.env), topic, body.into())?;
        let deadline = draft.deadline;
        let outcome = if *to == shared.directory.me().node {
            shared.deliver_here(&draft)
        } else {
            let Some(peer) = shared.directory.find(to) else {
                return Err(SendError::NotAMember { to: to.clone(), topic: topic.clone() });
            };
            shared.outcome(shared.outgoing.post(shared, &peer, draft), deadline).await
        };
        measures::sent(&outcome);
        if outcome.is_delivered() {
            return Ok(());
        }
        Err(SendError::NotDelivered { to: to.clone(), topic: topic.clone(), outcome })
    }

    /// Sends a message to all live members but this node, at once, and waits until each has it, or its deadline is over, which is the same for all. It is
    /// advice, not a promise: whoever misses it has to find out by other means.
    ///
    /// # Errors
    /// [`SendError::TooLarge`] and [`SendError::Closed`]: nothing was sent. All else is in the outcomes.
    ///
    /// # Cancel safety
    /// Dropping the future gives the message up for those to whom it is not on its way yet; others may get it.
    pub async fn broadcast(&self, topic: &Name, body: impl Into<Bytes>) -> Result<Outcomes, SendError> {
        self.broadcast_as(MessageId::random(&self.guard.shared.env), topic, body).await
    }

    /// The same with a given id, such as that of a broadcast that did not reach all: those who have it already don't get it again, as long as they
    /// remember it.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    ///
    /// # Cancel safety
    /// As [`broadcast`](Self::broadcast).
    pub async fn broadcast_as(
        &self,
        id: MessageId,
        topic: &Name,
        body: impl Into<Bytes>,
    ) -> Result<Outcomes, SendError> {
        let shared = &self.guard.shared;
        let draft = shared.draft(id, topic, body.into())?;
        let (me, deadline) = (shared.directory.me(), draft.deadline);
        let peers = shared.directory.live().into_iter().filter(|peer| peer.node != me.node);
        // All are on their way before the first is waited for.
        let posted: Vec<_> = peers
            .map(|peer| {
                let posted = shared.outgoing.post(shared, &peer, draft.clone());
                (peer, posted)
            })
            .collect();
        let mut outcomes = Vec::with_capacity(posted.len());
        for (peer, posted) in posted {
            let outcome = shared.outcome(posted, deadline).await;
            measures::sent(&outcome);
            measures::broadcast(&outcome);
            outcomes.push((peer, outcome));
        }
        let outcomes = Outcomes::new(id, outcomes);
        let delivered = outcomes.iter().filter(|(_, outcome)| outcome.is_delivered()).count();
        tracing::debug!(name: "peer.broadcast", %id, %topic, members = outcomes.len(), delivered, "a broadcast ended");
        Ok(outcomes)
    }

    /// Ends everything: no peer is served, no message sent, every subscription ends behind what it has received. Waits until no task is left.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the end, only the waiting.
    pub async fn shutdown(&self) {
        self.guard.shared.end();
        self.guard.shared.tasks.ended().await;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Shared {
    /// A message, if it may be sent.
    fn draft(&self, id: MessageId, topic: &Name, body: Bytes) -> Result<Draft, SendError> {
        if self.tasks.stop().is_cancelled() {
            return Err(SendError::Closed { topic: topic.clone() });
        }
        let (size, limit) = (body.len(), self.settings.message_bytes_max);
        if size > limit {
            return Err(SendError::TooLarge { topic: topic.clone(), size, limit });
        }
        let deadline = self.env.now().after(self.settings.deadline);
        Ok(Draft { id, topic: topic.clone(), body, deadline })
    }

    /// What comes of a message by its deadline.
    async fn outcome(
        &self,
        posted: Result<oneshot::Receiver<Outcome>, Outcome>,
        deadline: Moment,
    ) -> Outcome {
        let answer = match posted {
            Ok(answer) => answer,
            Err(outcome) => return outcome,
        };
        match self.env.timeout(deadline - self.env.now(), answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Outcome::Unreachable("its link ended: send again".into()),
            Err(_) => Outcome::TimedOut,
        }
    }

    fn deliver_here(&self, draft: &Draft) -> Outcome {
        let verdict = self.inboxes.deliver_here(draft.id, &draft.topic, &draft.body);
        measures::received(verdict);
        match verdict {
            Verdict::Accepted => Outcome::Delivered,
            Verdict::Duplicate => Outcome::Duplicate,
            Verdict::NoSubscriber => Outcome::NoSubscriber,
            _ => {
                Outcome::Refused("the inbox for the topic is full here: receive faster, or send less".into())
            }
        }
    }

    fn end(&self) {
        self.tasks.end();
        self.inboxes.close();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}
