//! [`Mailroom`]: the mailboxes that are registered on this node, or about to be, and the closer, which closes them in time.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use parking_lot::RwLock;
use tenure_cluster::SessionId;

use crate::{
    Undelivered,
    mailbox::Slot,
    member::{Member, Numbers},
    postman::Back,
};

/// What part of the ttl is left when mailboxes are closed, if the session was not renewed. A session is renewed at a third of it.
const NOTICE: u32 = 20;

/// The longest sleep after which the session is looked at again.
const STEP: Duration = Duration::from_secs(1);

/// The mailboxes of this node.
pub(crate) struct Mailroom {
    slots: RwLock<BTreeMap<u64, Kept>>,
    numbers: Numbers,
}

/// A mailbox, and the session that it is registered in.
struct Kept {
    session: SessionId,
    slot: Arc<dyn Slot>,
}

impl Mailroom {
    pub(crate) fn new(numbers: Numbers) -> Self {
        Self { slots: RwLock::default(), numbers }
    }

    /// Takes a mailbox in, for a registration in this session. Returns the number.
    pub(crate) fn add(&self, session: SessionId, slot: Arc<dyn Slot>) -> u64 {
        let number = self.numbers.next();
        self.slots.write().insert(number, Kept { session, slot });
        number
    }

    /// The number of the last one, or a later one.
    pub(crate) fn last(&self) -> u64 {
        self.numbers.next()
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.slots.read().contains_key(&number)
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
        let mut slots = self.slots.write();
        slots.retain(|_, kept| {
            let stays = keep(kept.session);
            if !stays {
                kept.slot.shared().close();
            }
            stays
        });
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
