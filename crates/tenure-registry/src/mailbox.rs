//! [`Mailbox`] and [`Inbox`]: the two ends of what a name stands for.

use std::{fmt, future::poll_fn, marker::PhantomData, pin::pin, sync::Arc, task::Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tenure_cluster::Hold;
use tenure_store::latest;
use tokio::sync::mpsc;

use crate::{RegistryError, Undelivered, postman::Back};

/// What can be sent to a mailbox, or answered: any serde type. It is `MessagePack` on the way, with the names of fields.
pub trait Post: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Post for T {}

/// Where messages of type `M` are put, and answered with `R`. It can be registered under names, and cloned: clones are the same.
///
/// It hangs on the session that its node had when it was first asked for to be registered, and is closed for good with that: make a new one then.
pub struct Mailbox<M, R = ()>(Arc<Ends<M, R>>);

/// What a mailbox has. One for all clones, and for all names that it is registered under.
struct Ends<M, R> {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Letter<M, R>>,
}

/// Takes messages out of a mailbox.
pub struct Inbox<M, R = ()> {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Letter<M, R>>,
}

/// A message, and the way back.
pub struct Letter<M, R = ()> {
    /// What was sent.
    pub message: M,
    back: Option<Back>,
    reply: PhantomData<fn(R)>,
}

/// What both ends know.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// What the registrations hang on, once there is one.
    hold: Mutex<Option<Hold>>,
    closed: latest::Sender<bool>,
}

/// A mailbox and its inbox, which holds up to so many messages.
#[must_use]
pub fn mailbox<M: Post, R: Post>(capacity: usize) -> (Mailbox<M, R>, Inbox<M, R>) {
    let (sender, queue) = mpsc::channel(capacity.max(1));
    let shared = Arc::new(Shared::default());
    (Mailbox(Arc::new(Ends { shared: Arc::clone(&shared), queue: sender })), Inbox { shared, queue })
}

impl Shared {
    /// From now on, the mailbox is worth nothing without this, if it does not hang on another already. Returns whether it is open, given that this holds.
    pub(crate) fn hang_on(&self, hold: &Hold) -> bool {
        let mut kept = self.hold.lock();
        let kept = kept.get_or_insert_with(|| hold.clone());
        !*self.closed.borrow() && (kept.is_same(hold) || !kept.remaining().is_zero())
    }

    pub(crate) fn close(&self) {
        self.closed.send_if_modified(|closed| !std::mem::replace(closed, true));
    }

    /// Whether it was closed, or what it hangs on does not hold any more.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow() || self.hold.lock().as_ref().is_some_and(|hold| hold.remaining().is_zero())
    }

    /// Returns when it is closed. Whenever it is polled, the clock counts too: a process that was stopped for a while may be run before anybody has closed what is over.
    pub(crate) async fn closed(&self) {
        let mut told = self.closed.subscribe();
        let mut told = pin!(told.wait_for(|closed| *closed));
        poll_fn(|context| {
            if self.is_closed() {
                return Poll::Ready(());
            }
            told.as_mut().poll(context).map(|_| ())
        })
        .await;
    }
}

/// A mailbox of any type.
pub(crate) trait Slot: Send + Sync {
    fn deliver(&self, body: &[u8], back: Option<Back>) -> Result<(), Undelivered>;
    fn shared(&self) -> &Arc<Shared>;
}

impl<M: Post, R: Post> Mailbox<M, R> {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The same, whatever its type is.
    pub(crate) fn slot(&self) -> Arc<dyn Slot> {
        Arc::clone(&self.0) as Arc<dyn Slot>
    }
}

impl<M: Post, R: Post> Slot for Ends<M, R> {
    fn deliver(&self, body: &[u8], back: Option<Back>) -> Result<(), Undelivered> {
        let (refused, back) = match unpack(body) {
            Err(words) => (Undelivered::NotUnderstood(words), back),
            Ok(_) if self.shared.is_closed() => (Undelivered::Closed, back),
            Ok(message) => match self.queue.try_send(Letter { message, back, reply: PhantomData }) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(letter)) => (Undelivered::Full, letter.back),
                Err(mpsc::error::TrySendError::Closed(letter)) => (Undelivered::Closed, letter.back),
            },
        };
        Back::forget(back);
        Err(refused)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl<M, R> Inbox<M, R> {
    /// The next message. Nothing when the mailbox is closed: its session has lapsed, or nobody can put anything into it any more. What is in it when a session lapses is
    /// never given: whoever sent it may have been told that the name is another's.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv(&mut self) -> Option<Letter<M, R>> {
        tokio::select! {
            biased;
            () = self.shared.closed() => None,
            letter = self.queue.recv() => letter,
        }
    }
}

impl<M, R: Post> Letter<M, R> {
    /// Whether somebody waits for an answer.
    #[must_use]
    pub fn wants_reply(&self) -> bool {
        self.back.is_some()
    }

    /// Answers. Whoever has given up waiting hears nothing, and so does nobody if it was sent without waiting.
    ///
    /// # Errors
    /// [`RegistryError::Invalid`] when it can't be encoded, or is larger than links take. Whoever waits is told that there will be no answer.
    pub fn reply(mut self, reply: &R) -> Result<(), RegistryError> {
        let body = pack(reply)?;
        if let Some(back) = self.back.take() {
            back.answer(body)?;
        }
        Ok(())
    }
}

/// A value on its way.
pub(crate) fn pack<T: Serialize>(value: &T) -> Result<Bytes, RegistryError> {
    let bytes = rmp_serde::to_vec_named(value);
    bytes
        .map(Bytes::from)
        .map_err(|error| RegistryError::Invalid(format!("a message can't be encoded: {error}")))
}

pub(crate) fn unpack<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    rmp_serde::from_slice(body).map_err(|error| error.to_string())
}

impl<M, R> Clone for Mailbox<M, R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M, R> fmt::Debug for Mailbox<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("closed", &self.0.shared.is_closed()).finish_non_exhaustive()
    }
}

impl<M, R> fmt::Debug for Inbox<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("closed", &self.shared.is_closed()).finish_non_exhaustive()
    }
}

impl<M: fmt::Debug, R> fmt::Debug for Letter<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Letter").field("message", &self.message).finish_non_exhaustive()
    }
}
