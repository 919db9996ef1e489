//! [`Item`]: a message that a desk has taken up, from wherever it came.

use std::sync::Arc;

use tenure_store::EntryId;
use tokio::sync::oneshot;

use crate::{
    Fold, Server, ServerError,
    mailroom::Waiting,
    parcel::{Address, Attempt, Bundle, Parcel, Sort, pack, unpack},
};

/// What a message says.
pub(crate) enum Body<S: Server> {
    Call(Arc<S::Call>),
    Cast(Arc<S::Cast>),
    /// What the locked work of the message at the cursor has found.
    Fold(Arc<Fold<S>>),
    /// It can't be read, or its work has failed: nothing is run.
    Broken(String),
}

/// How the caller in this process is told.
pub(crate) enum Local<S: Server> {
    Call(oneshot::Sender<Result<Told<S>, ServerError>>),
    /// A cast that somebody waits for, or not.
    Cast(Option<oneshot::Sender<Result<(), ServerError>>>),
}

/// What a caller in this process is told.
pub(crate) enum Told<S: Server> {
    Reply(S::Reply),
    /// It was done before, under the same idempotency key, with this answer.
    Again(bytes::Bytes),
    /// The answer comes through the store.
    Later(Waiting),
}

/// Where a message came from.
pub(crate) enum Origin<S: Server> {
    /// The queue: from this entry of the page that was read, and whether it is the last message of it.
    Queue { entry: usize, last: bool },
    /// The list of priority messages: from this entry.
    Urgent { entry: usize },
    /// A caller in this process, and whether it is not to wait for the queue.
    Local { told: Local<S>, urgent: bool },
}

/// A message that is to be run.
pub(crate) struct Item<S: Server> {
    pub(crate) id: u64,
    /// Whether it is a call, whatever became of its body.
    sort: Sort,
    pub(crate) body: Body<S>,
    pub(crate) origin: Origin<S>,
    pub(crate) to: Option<Address>,
    pub(crate) key: Option<String>,
    pub(crate) sent_ms: u64,
    /// Until when its caller waits.
    pub(crate) until_ms: u64,
    pub(crate) attempts: Vec<Attempt>,
    /// Whether only its locked work is left to do.
    pub(crate) locked: bool,
    /// Why it has failed in this turn, if it has.
    pub(crate) failed: Option<String>,
    /// Whether there is no use in trying again.
    pub(crate) hopeless: bool,
    /// Whether it must go through the queue, since it wants to lock.
    pub(crate) through_queue: bool,
    /// Where its caller in this process waits, if the answer comes through the store.
    pub(crate) waiting: Option<Waiting>,
    /// Casts that are sent together, through the queue, in place of this message.
    pub(crate) many: Option<Vec<Parcel>>,
    /// The bytes that it was read from, if it was.
    raw: Option<bytes::Bytes>,
}

impl<S: Server> Item<S> {
    /// A message that was read from the store.
    pub(crate) fn read(parcel: Parcel, origin: Origin<S>) -> Self {
        let body = match parcel.sort {
            Sort::Call => unpack(&parcel.body).map(|call| Body::Call(Arc::new(call))),
            Sort::Cast => unpack(&parcel.body).map(|cast| Body::Cast(Arc::new(cast))),
        };
        Self {
            id: parcel.id,
            sort: parcel.sort,
            body: body.unwrap_or_else(|failure| Body::Broken(failure.to_string())),
            origin,
            to: parcel.to,
            key: parcel.key,
            sent_ms: parcel.sent_ms,
            until_ms: parcel.until_ms,
            attempts: parcel.attempts,
            locked: parcel.locked,
            failed: None,
            hopeless: false,
            through_queue: false,
            waiting: None,
            many: None,
            raw: Some(parcel.body),
        }
    }

    /// A message of this process.
    pub(crate) fn local(
        id: u64,
        body: Body<S>,
        told: Local<S>,
        urgent: bool,
        key: Option<String>,
        sent_ms: u64,
    ) -> Self {
        Self {
            id,
            sort: if matches!(body, Body::Call(_)) { Sort::Call } else { Sort::Cast },
            body,
            origin: Origin::Local { told, urgent },
            to: None,
            key,
            sent_ms,
            until_ms: 0,
            attempts: Vec::new(),
            locked: false,
            failed: None,
            hopeless: false,
            through_queue: false,
            waiting: None,
            many: None,
            raw: None,
        }
    }

    /// It as it is stored.
    pub(crate) fn parcel(&self) -> Result<Parcel, ServerError> {
        let body = match (&self.raw, &self.body) {
            (Some(raw), _) => raw.clone(),
            (None, Body::Call(call)) => pack(&**call)?,
            (None, Body::Cast(cast)) => pack(&**cast)?,
            (None, Body::Fold(_) | Body::Broken(_)) => bytes::Bytes::new(),
        };
        Ok(Parcel {
            id: self.id,
            sort: self.sort,
            to: self.address(),
            key: self.key.clone(),
            sent_ms: self.sent_ms,
            until_ms: self.until_ms,
            attempts: self.attempts.clone(),
            locked: self.locked,
            body,
        })
    }

    /// Where its caller waits, if an answer can come through the store.
    pub(crate) fn address(&self) -> Option<Address> {
        self.to.or(self.waiting.as_ref().map(|waiting| waiting.address))
    }

    /// It will never be handled.
    pub(crate) fn fail_for_good(&mut self, error: String) {
        (self.failed, self.hopeless) = (Some(error), true);
    }

    /// Whether somebody in this process waits for the answer.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self.origin, Origin::Local { told: Local::Call(_), .. })
    }
}

/// Entries of a list, with their messages.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) entries: Vec<Loaded>,
    /// Whether there is more behind them.
    pub(crate) more: bool,
}

impl Load {
    /// The entry that a message came from.
    pub(crate) fn entry_of<S: Server>(&self, item: &Item<S>) -> Option<EntryId> {
        match item.origin {
            Origin::Queue { entry, .. } => self.entries.get(entry).map(|entry| entry.id.clone()),
            _ => None,
        }
    }
}

/// One entry.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) id: EntryId,
    pub(crate) parcels: Vec<Parcel>,
    /// Under which number its pieces are, and how many.
    pub(crate) pieces: Option<(u64, u64)>,
}

impl Loaded {
    pub(crate) fn new(id: EntryId, bundle: Bundle) -> Self {
        match bundle {
            Bundle::Here(parcels) => Self { id, parcels, pieces: None },
            Bundle::InPieces { bundle, count } => {
                Self { id, parcels: Vec::new(), pieces: Some((bundle, count)) }
            }
        }
    }
}
