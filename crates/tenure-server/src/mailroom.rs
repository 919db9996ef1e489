//! [`Mailroom`]: where a node's callers wait for answers that come through the store.
//!
//! Answers are belongings of the caller's session. One watch and one task serve all callers of a node; a node that never waits has neither. Keys of
//! answers that were read are deleted along with the next thing that is sent, or a little later. Those of a session that has ended went with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tenure_cluster::{Ground, Session, SessionId};
use tenure_store::{Commit, Item, Key, Range, Store as _, StoreError, StoreExt as _};
use tokio::sync::{Notify, oneshot};

use crate::{
    keys,
    parcel::Address,
    reply::{self, Outcome},
};

/// How long keys of answers that were read wait for something that is sent anyway.
const DISCARD_PAUSE: Duration = Duration::from_millis(20);

/// The most keys that are deleted at once, so that every store takes it in one commit.
const DISCARDS_MAX: usize = 50;

/// After a failed read.
const PAUSE: Duration = Duration::from_millis(50);

/// The callers of a node that wait for answers.
#[derive(Debug)]
pub(crate) struct Mailroom {
    ground: Ground,
    desk: Mutex<Counter>,
    /// Told when somebody begins to wait.
    wanted: Notify,
    /// Keys of answers that were read.
    discards: Mutex<BTreeSet<Key>>,
    /// Told when there are some.
    discarding: Notify,
}

#[derive(Debug, Default)]
struct Counter {
    last_slot: u64,
    waiting: BTreeMap<u64, (SessionId, oneshot::Sender<Outcome>)>,
}

/// A caller that waits. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Waiting {
    room: Arc<Mailroom>,
    pub(crate) address: Address,
    outcome: oneshot::Receiver<Outcome>,
}

impl Waiting {
    /// The answer; `None` when it can't come any more, since the session has ended.
    pub(crate) async fn outcome(&mut self) -> Option<Outcome> {
        (&mut self.outcome).await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.room.desk.lock().waiting.remove(&self.address.slot);
    }
}

impl Mailroom {
    pub(crate) fn new(ground: Ground) -> Self {
        Self {
            ground,
            desk: Mutex::default(),
            wanted: Notify::new(),
            discards: Mutex::default(),
            discarding: Notify::new(),
        }
    }

    /// Begins to wait for an answer.
    pub(crate) fn wait(self: &Arc<Self>) -> Waiting {
        let session = self.ground.session().id();
        let (answer, outcome) = oneshot::channel();
        let mut desk = self.desk.lock();
        desk.last_slot += 1;
        let slot = desk.last_slot;
        desk.waiting.insert(slot, (session, answer));
        drop(desk);
        self.wanted.notify_one();
        Waiting { room: Arc::clone(self), address: Address::new(session, slot), outcome }
    }

    /// Some keys to delete along with a commit that is made anyway.
    pub(crate) fn take_discards(&self, most: usize) -> Vec<Key> {
        let mut discards = self.discards.lock();
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(key) = discards.pop_first()
        {
            taken.push(key);
        }
        taken
    }

    /// They are to be deleted.
    pub(crate) fn add_discards(&self, keys: impl IntoIterator<Item = Key>) {
        let mut discards = self.discards.lock();
        discards.extend(keys);
        if !discards.is_empty() {
            self.discarding.notify_one();
        }
    }

    /// Runs until its task is ended.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut sessions = self.ground.sessions();
        loop {
            let session = sessions.borrow_and_update().clone();
            tokio::select! {
                biased;
                ended = ended(&session) => ended,
                () = self.serve(session.id()) => {}
            }
            self.desk.lock().waiting.retain(|_, (owner, _)| *owner != session.id());
            self.discards.lock().clear();
            if sessions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Hands out the answers to one session, for ever.
    async fn serve(&self, session: SessionId) {
        self.wanted.notified().await;
        let range = keys::replies(self.ground.keys(), session).range();
        let (store, env) = (self.ground.store(), self.ground.env());
        let mut watch = store.watch(range.clone());
        loop {
            if let Err(error) = self.look(&range).await {
                tracing::debug!(%error, "answers could not be read: it is tried again");
                env.sleep(PAUSE).await;
                continue;
            }
            watch.changed().await;
        }
    }

    /// Deletes keys of answers that were read and that no other commit takes along. Runs until its task is ended.
    pub(crate) async fn tidy(self: Arc<Self>) {
        let env = self.ground.env();
        loop {
            self.discarding.notified().await;
            loop {
                if self.discards.lock().len() < DISCARDS_MAX {
                    env.sleep(DISCARD_PAUSE).await;
                }
                let keys = self.take_discards(DISCARDS_MAX);
                if keys.is_empty() {
                    break;
                }
                let commit = keys.iter().fold(Commit::new(), |commit, key| commit.delete(key.clone()));
                if let Err(error) = self.ground.store().commit(commit).await {
                    tracing::debug!(%error, "answers that were read could not be deleted: it is tried again");
                    self.add_discards(keys);
                    env.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Reads all answers that are there, and hands them out.
    async fn look(&self, range: &Range) -> Result<(), StoreError> {
        let store = self.ground.store();
        let (mut range, mut parts) = (range.clone(), Vec::<Item>::new());
        loop {
            let page = store.scan(&range, store.limits().page_items).await?;
            let last = page.items.last().map(|item| item.key.clone());
            for item in page.items {
                parts.push(item);
                self.hand_out(&mut parts)?;
            }
            match last {
                Some(last) if page.more => range = range.after(&last),
                _ => return Ok(()),
            }
        }
    }

    /// Hands out the answers in `parts` if all their pieces are there.
    fn hand_out(&self, parts: &mut Vec<Item>) -> Result<(), StoreError> {
        let Some(last) = parts.last() else { return Ok(()) };
        let (mark, number) = keys::numbers_of(&last.key)?;
        let (count, _) = reply::piece(&last.key, &last.value)?;
        if number + 1 < count {
            return Ok(());
        }
        let mut whole = Vec::new();
        let own = parts.iter().filter(|item| keys::numbers_of(&item.key).is_ok_and(|(of, _)| of == mark));
        for item in own {
            whole.extend_from_slice(&reply::piece(&item.key, &item.value)?.1);
        }
        let answers = reply::read(&last.key, &whole)?;
        let mut desk = self.desk.lock();
        for (slot, outcome) in answers {
            if let Some((_, answer)) = desk.waiting.remove(&slot) {
                // Whoever waited may have given up just now.
                let _ = answer.send(outcome);
            }
        }
        drop(desk);
        self.add_discards(parts.drain(..).map(|item| item.key));
        Ok(())
    }
}

/// Returns when a session has ended, whether or not it had lapsed before.
pub(crate) async fn ended(session: &Session) {
    while session.ended().is_none() {
        session.lost().await;
        session.valid_or_ended().await;
    }
}
