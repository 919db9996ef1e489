//! [`Mailroom`]: the mailboxes that are registered on this node, or about to be, and the closer, which closes them in time.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use tenure_cluster::SessionId;

use crate::{Entry, Undelivered, mailbox::Slot, member::Member, postman::Back};

/// What part of the ttl is left when mailboxes are closed, if the session was not renewed. A session is renewed at a third of it.
const NOTICE: u32 = 20;

/// The longest sleep after which the session is looked at again.
const STEP: Duration = Duration::from_secs(1);

/// The mailboxes of this node.
#[derive(Default)]
pub(crate) struct Mailroom {
    slots: RwLock<HashMap<u64, Kept, foldhash::quality::RandomState>>,
}

/// A mailbox, and the session that it is registered in.
struct Kept {
    session: SessionId,
    slot: Arc<dyn Slot>,
}

impl Mailroom {
    /// Takes a mailbox in, for a registration of this number in this session.
    pub(crate) fn add(&self, number: u64, session: SessionId, slot: Arc<dyn Slot>) {
        self.slots.write().insert(number, Kept { session, slot });
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.slots.read().contains_key(&number)
    }

    /// Those of some registrations that have no mailbox here.
    pub(crate) fn without<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Vec<&'a Entry> {
        let slots = self.slots.read();
        entries.filter(|entry| !slots.contains_key(&entry.number)).collect()
    }

    /// Lets a mailbox go. What is in it can still be taken out.
    pub(crate) fn remove(&self, number: u64) -> bool {
        self.slots.write().remove(&number).is_some()
    }

    /// Puts a message into a mailbox, if it is for the present session.
    pub(crate) fn deliver(
        &self,
        (meant, present): (SessionId, SessionId),
        number: u64,
        body: &[u8],
        back: Option<Back>,
    ) -> Result<(), Undelivered> {
        let slot = self.slots.read().get(&number).map(|kept| Arc::clone(&kept.slot));
        let Some(slot) = slot.filter(|_| meant == present) else {
            Back::forget(back);
            return Err(Undelivered::Closed);
        };
        slot.deliver(body, back)
    }

    /// Closes all but those of sessions that are kept.
    fn close(&self, keep: impl Fn(SessionId) -> bool) {
        let closing =
            self.slots.write().extract_if(|_, kept| !keep(kept.session)).collect::<BTreeMap<_, _>>();
        // In the order of numbers: in a simulation, the seed must decide who hears of it first.
        closing.values().for_each(|kept| kept.slot.shared().close());
    }

    /// Closes all.
    pub(crate) fn close_all(&self) {
        self.close(|_| false);
    }
}

/// The closer: closes mailboxes whenever the session they hang on is about to lapse, before it does. Ends when the node has left.
pub(crate) async fn watch(member: Arc<Member>) {
    let (env, room) = (member.ground.env().clone(), Arc::clone(&member.mailroom));
    let mut sessions = member.ground.sessions();
    loop {
        let session = sessions.borrow_and_update().clone();
        let notice = session.ttl() / NOTICE;
        room.close(|kept| kept == session.id());
        while session.ended().is_none() {
            let left = session.remaining();
            if left > notice {
                let sleep = (left - notice).min(STEP);
                tokio::select! {
                    biased;
                    () = session.lost() => {}
                    () = env.sleep(sleep) => {}
                }
            } else {
                room.close(|kept| kept != session.id());
                session.valid_or_ended().await;
                // If it goes on after all, its names are free all the same.
                member.take_back();
                env.sleep(notice / 4).await;
            }
        }
        // Not those of a session that may have begun meanwhile.
        room.close(|kept| kept != session.id());
        if sessions.changed().await.is_err() {
            return;
        }
    }
}

impl fmt::Debug for Mailroom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailroom").field("slots", &self.slots.read().len()).finish_non_exhaustive()
    }
}
