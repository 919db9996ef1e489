//! Priority messages: who takes them from the store, and how those that kill are found.
//!
//! Whoever takes some is known from the head: as their owner, or as the owner of the queue if they have none. So as
//! long as nobody goes, they cost no commit of their own. If another took them before, those that are there are run one
//! by one, each announced before it is. One whose runner goes at that moment has failed.

use tenure_store::{EntryId, Moment};

use super::{
    Desk,
    item::{Item, Load, Origin},
    plan::{GONE, PATIENCE, PATIENCE_ALONE, Plan},
};
use crate::{
    Server, ServerError,
    head::{Head, Rush, SUSPECTS},
};

/// What a turn does with priority messages.
pub(super) enum Urgent {
    /// The plan has all that it is to have, maybe none.
    Taken,
    /// The plan has one, and nothing is to go along.
    Alone,
    /// Another takes them; the plan has those of this process.
    Theirs,
    /// The server was changed meanwhile.
    Lost,
}

/// Another that takes priority messages, as it was seen: since when it has this one in hand.
#[derive(Debug)]
pub(super) struct Seen {
    rush: Rush,
    since: Moment,
}

impl<S: Server> Desk<S> {
    /// Adds priority messages to a plan that has nothing yet.
    pub(super) async fn take_urgent(&mut self, plan: &mut Plan<S>) -> Result<Urgent, ServerError> {
        if plan.urgent.entries.is_empty() {
            self.turn.seen = None;
            plan.items.extend(self.urgent.drain(..));
            return Ok(Urgent::Taken);
        }
        let before = owner(&plan.head);
        let mine = before.as_ref().is_some_and(|rush| rush.session == self.me());
        let is_theirs = match before.as_ref().filter(|_| !mine) {
            _ if !mine && self.has_lapsed() => true,
            Some(rush) => !self.is_gone(rush.session).await? && !self.stands_still(rush),
            None => false,
        };
        if is_theirs {
            plan.items.extend(self.urgent.drain(..));
            return Ok(Urgent::Theirs);
        }
        self.turn.seen = None;
        let in_hand = before.as_ref().and_then(|rush| place(&plan.urgent, rush.alone.as_ref()?));
        let suspects = match &before {
            Some(rush) if mine => rush.suspects,
            // What came since was in nobody's hands.
            Some(_) => SUSPECTS.min(plan.urgent.entries.iter().map(|entry| entry.parcels.len() as u64).sum()),
            None => 0,
        };
        let is_calm = |entry: &usize| {
            plan.urgent.entries[*entry].parcels.iter().all(|parcel| parcel.attempts.is_empty())
        };
        let calm: Vec<usize> = (0..plan.urgent.entries.len()).filter(is_calm).collect();
        plan.more_urgent = plan.urgent.more || calm.len() < plan.urgent.entries.len();
        let careful = in_hand.is_some() || suspects > 0 || calm.is_empty();
        if !mine || careful {
            plan.head.rush = Some(Rush { session: self.me(), suspects, alone: None });
        }
        if careful {
            return self.take_alone(plan, in_hand, mine).await;
        }
        if !mine && !self.announce(plan).await? {
            return Ok(Urgent::Lost);
        }
        for entry in calm {
            let parcels = plan.urgent.entries[entry].parcels.iter().cloned();
            plan.items.extend(parcels.map(|parcel| Item::read(parcel, Origin::Urgent { entry })));
        }
        plan.items.extend(self.urgent.drain(..));
        Ok(Urgent::Taken)
    }

    /// Adds one priority message, which is run alone. The one in hand has failed if it was in another's.
    async fn take_alone(
        &mut self,
        plan: &mut Plan<S>,
        in_hand: Option<usize>,
        mine: bool,
    ) -> Result<Urgent, ServerError> {
        let entry = in_hand.unwrap_or(0);
        let Some(parcel) = plan.urgent.entries[entry].parcels.first().cloned() else {
            return Ok(Urgent::Lost);
        };
        let mut item = Item::read(parcel, Origin::Urgent { entry });
        let is_blamed = in_hand.is_some() && !mine;
        if is_blamed {
            item.failed = Some(GONE.to_owned());
        } else if let Some(rush) = &mut plan.head.rush {
            rush.alone = Some(plan.urgent.entries[entry].id.clone());
        }
        // What this node runs alone of the queue is run again: only one of both can be blamed.
        plan.head.alone &= plan.head.owner != Some(self.me());
        if in_hand.is_none() && !self.announce(plan).await? {
            return Ok(Urgent::Lost);
        }
        plan.items.push(item);
        plan.behind = true;
        Ok(Urgent::Alone)
    }

    /// Whether another that has a session does not get on with priority messages: it had its time.
    fn stands_still(&mut self, rush: &Rush) -> bool {
        let now = self.kind.ground.env().now();
        match &self.turn.seen {
            Some(seen) if seen.rush == *rush => {
                let patience = if rush.alone.is_some() { PATIENCE_ALONE } else { PATIENCE };
                now - seen.since >= patience
            }
            _ => {
                self.turn.seen = Some(Seen { rush: rush.clone(), since: now });
                false
            }
        }
    }
}

/// Who takes priority messages.
fn owner(head: &Head) -> Option<Rush> {
    let of_queue = head.owner.map(|session| Rush { session, suspects: 0, alone: None });
    head.rush.clone().or(of_queue)
}

/// Where an entry is in a list.
fn place(list: &Load, id: &EntryId) -> Option<usize> {
    list.entries.iter().position(|entry| entry.id == *id)
}
