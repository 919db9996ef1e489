//! [`Plan`]: what a desk is to do in one turn, and whether it is its turn at all.

use std::{sync::Arc, time::Duration};

use tenure_cluster::SessionId;
use tenure_store::{Commit, EntryId, StoreError, StoreExt as _, Version};

use super::{
    Desk,
    item::{Body, Item, Load, Local, Origin},
    load::View,
    settle::End,
    urgent::Urgent,
};
use crate::{
    Server, ServerError,
    head::{Head, SUSPECTS},
    parcel::Attempt,
};

/// How long an owner that has a session may not get on before another takes over.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

/// The same, while it says that it runs a message alone: callbacks should not take as long.
pub(super) const PATIENCE_ALONE: Duration = Duration::from_secs(5);

/// Between two looks at an owner that others leave alone.
const DEFER_PAUSE: Duration = Duration::from_millis(5);

/// After so many conflicts in a row, what callers in this process want goes through the queue.
const CONFLICTS_MAX: u32 = 2;

/// Why a message has failed whose runner is there no more.
pub(super) const GONE: &str = "the process that had it in hand went away";

/// Who does the locked work, if there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Free,
    Ours,
    Theirs,
    /// Its worker has gone.
    Abandoned,
}

/// What one turn works with.
pub(super) struct Plan<S: Server> {
    pub(super) items: Vec<Item<S>>,
    pub(super) queue: Load,
    pub(super) urgent: Load,
    pub(super) head: Head,
    /// Whether the store was looked at.
    pub(super) looked: bool,
    /// Whether the commit must prove the queue empty.
    pub(super) prove_empty: bool,
    /// Whether there are messages in the queue behind those of the plan.
    pub(super) behind: bool,
    /// The entry of the message behind one that is run alone, if it is there.
    pub(super) next: Option<EntryId>,
    /// Whether there are priority messages in the store that are not in the plan.
    pub(super) more_urgent: bool,
    pub(super) full: bool,
}

impl<S: Server> Desk<S> {
    pub(super) fn me(&self) -> SessionId {
        self.kind.ground.session().id()
    }

    pub(super) async fn is_gone(&self, session: SessionId) -> Result<bool, StoreError> {
        Ok(self.kind.ground.store().get(&self.kind.ground.keys().session(session)).await?.is_none())
    }

    /// Whether the session of this node may have ended. Whoever takes messages over without one would be taken for dead at once, and they be blamed for it.
    pub(super) fn has_lapsed(&self) -> bool {
        self.kind.ground.session().remaining().is_zero()
    }

    /// What to do in this turn; `None` if there is nothing, or not yet.
    /// `is_overtaking`: something was on its way to the queue when that was read.
    pub(super) async fn plan(
        &mut self,
        view: Option<View>,
        is_overtaking: bool,
    ) -> Result<Option<Plan<S>>, ServerError> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let mut head = memory.head.clone();
        let mut lock = self.lock(&head).await?;
        if lock != Lock::Ours {
            (self.worker, self.worked) = (None, None);
        }
        let (looked, is_unborn) = (view.is_some(), self.is_unborn(view.as_ref()));
        let (queue, urgent, full) =
            view.map_or_else(Default::default, |view| (view.queue, view.urgent, view.full));
        let mut plan = Plan {
            items: Vec::new(),
            queue,
            urgent,
            head: head.clone(),
            looked,
            prove_empty: false,
            behind: false,
            next: None,
            more_urgent: false,
            full,
        };
        if is_unborn {
            self.be_born(plan).await?;
            return Ok(None);
        }
        let mut fold = self.take_fold(&plan.queue, &head);
        let is_open =
            fold.is_some() || head.stopped.is_none() && matches!(lock, Lock::Free | Lock::Abandoned);

        let some = !plan.queue.entries.is_empty();
        let mine = head.owner == Some(self.me());
        let mut take = some && is_open && (mine || !self.has_lapsed());
        if take
            && !mine
            && let Some(owner) = head.owner
        {
            take = self.is_gone(owner).await? || self.has_patience_ended(self.version(), head.alone);
        }
        if mine || !some {
            self.turn.deferring = None;
        }
        // What is announced as run alone goes before priority messages, so that they can't be blamed on it.
        if take && mine && head.alone && fold.is_none() {
            plan.more_urgent = !plan.urgent.entries.is_empty() || !self.urgent.is_empty();
        } else {
            match self.take_urgent(&mut plan).await? {
                Urgent::Taken => head = plan.head.clone(),
                Urgent::Alone => return Ok(Some(plan)),
                Urgent::Theirs => return Ok(self.defer(plan).await),
                Urgent::Lost => return Ok(None),
            }
        }
        if some && is_open && !take {
            return Ok(self.defer(plan).await);
        }
        if !is_open {
            // A cast must be durable when it returns, however long the lock is held.
            self.send_waiting();
            self.look &= !looked;
            return Ok((!plan.items.is_empty()).then_some(plan));
        }
        if self.kind.flaws.removed_at_lock {
            if lock == Lock::Abandoned {
                (lock, head.claim) = (Lock::Free, None);
                plan.head.claim = None;
            }
            if let Some(fold) = fold.take() {
                plan.items.insert(0, fold);
            }
        }
        if take {
            if !mine && head.owner.replace(self.me()).is_some() {
                // One that stands still may be dead, though its session has not ended yet.
                head.suspects = SUSPECTS;
            }
            plan.head = head;
            match self.take_queue(&mut plan, fold, lock, mine).await {
                Ok(true) => {}
                other => {
                    self.give_back(plan.items);
                    return other.map(|_| None);
                }
            }
        } else if looked && self.is_stillborn(&plan) {
            self.unmake().await?;
            return Ok(None);
        } else if looked {
            // Nothing is there: what is marked as possible is not.
            self.look = false;
            self.kind.report_idle(&self.id);
        }
        // What this desk has sent is not in the queue yet: what comes behind it must go the same way.
        let is_overtaking = is_overtaking || self.has_under_way();
        if !plan.behind && (is_overtaking || self.turn.conflicts > CONFLICTS_MAX && !mine) {
            self.turn.conflicts = 0;
            self.send_waiting();
        } else if !plan.behind {
            plan.prove_empty = !looked && !self.waiting.is_empty();
            let room = S::POLICY.batch_max.saturating_sub(plan.items.len());
            let count = room.min(self.waiting.len());
            plan.items.extend(self.waiting.drain(..count));
        }
        Ok((!plan.items.is_empty()).then_some(plan))
    }

    /// Whether something that this desk has sent may not be in the queue yet.
    pub(super) fn has_under_way(&self) -> bool {
        Arc::strong_count(&self.under_way) > 1
    }

    /// Another gets on with it, and with what our callers want; what the plan has is done.
    async fn defer(&mut self, mut plan: Plan<S>) -> Option<Plan<S>> {
        self.send_waiting();
        self.kind.ground.env().sleep(DEFER_PAUSE).await;
        // Whether it does is looked at again.
        plan.behind = true;
        (!plan.items.is_empty()).then_some(plan)
    }

    async fn lock(&self, head: &Head) -> Result<Lock, StoreError> {
        Ok(match (head.claim, &self.worker) {
            (None, _) => Lock::Free,
            // Tokens begin again when a server is deleted: another's may have the same.
            (Some(claim), Some(worker)) if worker.token == claim.token && claim.session == self.me() => {
                Lock::Ours
            }
            (Some(claim), _) if claim.session == self.me() || self.is_gone(claim.session).await? => {
                Lock::Abandoned
            }
            _ => Lock::Theirs,
        })
    }

    /// Whether an owner that has a session has stood still for long enough.
    fn has_patience_ended(&mut self, version: Option<Version>, alone: bool) -> bool {
        let now = self.kind.ground.env().now();
        match self.turn.deferring {
            Some((seen, since)) if seen == version => {
                now - since >= if alone { PATIENCE_ALONE } else { PATIENCE }
            }
            _ => {
                self.turn.deferring = Some((version, now));
                false
            }
        }
    }

    /// What the locked work of the message at the cursor has found. It is kept until it is committed.
    fn take_fold(&mut self, queue: &Load, head: &Head) -> Option<Item<S>> {
        let (worked, worker) = (self.worked.as_ref()?, self.worker.as_ref()?);
        let Some(outcome) = worked.outcome.as_ref().filter(|_| worker.token == worked.token) else {
            (self.worker, self.worked) = (None, None);
            return None;
        };
        let first = queue.entries.first();
        let at_cursor = first.and_then(|entry| entry.parcels.get(usize::try_from(head.cursor).ok()?));
        if at_cursor.is_none_or(|parcel| parcel.id != worker.parcel.id) && !self.kind.flaws.removed_at_lock {
            // It was worked on for a server that was deleted meanwhile.
            (self.worker, self.worked) = (None, None);
            return None;
        }
        let count = first.map_or(0, |entry| entry.parcels.len() as u64);
        let mut origin = Origin::Queue { entry: 0, last: head.cursor + 1 >= count };
        if self.kind.flaws.removed_at_lock {
            origin = Origin::Local { told: Local::Cast(None), urgent: true };
        }
        let mut item = Item::read(worker.parcel.clone(), origin);
        item.locked = true;
        match outcome {
            Ok(fold) => item.body = Body::Fold(Arc::clone(fold)),
            Err(error) => item.failed = Some(error.clone()),
        }
        Some(item)
    }

    /// Adds messages of the queue. Returns whether the turn goes on.
    async fn take_queue(
        &mut self,
        plan: &mut Plan<S>,
        fold: Option<Item<S>>,
        lock: Lock,
        mine: bool,
    ) -> Result<bool, ServerError> {
        let mut items = self.queue_items(plan, fold.is_some());
        let is_fold = fold.is_some();
        if let Some(fold) = fold {
            items.insert(0, fold);
        }
        let Some(first) = items.first_mut() else { return Ok(true) };
        if !is_fold {
            first.attempts.extend(plan.head.attempts.iter().cloned());
        }
        let was_alone = !mine && self.memory.as_ref().is_some_and(|memory| memory.head.alone);
        let was_locked = lock == Lock::Abandoned && !is_fold;
        first.locked |= was_locked;
        if was_locked || was_alone {
            // It keeps its place: that its process went away may not have been its fault.
            if first.attempts.len() + 1 >= S::POLICY.tries() {
                first.failed = Some(GONE.to_owned());
            } else {
                let ground = &self.kind.ground;
                let attempt = Attempt::new(ground.env().unix_time(), ground.settings().node.as_str(), GONE);
                first.attempts.push(attempt.clone());
                plan.head.attempts.push(attempt);
                plan.head.alone = false;
            }
        }
        let first_failed = first.failed.is_some();
        let is_suspect = |item: &Item<S>| !item.attempts.is_empty() && item.failed.is_none();
        let suspicious = !is_fold && (plan.head.suspects > 0 || is_suspect(first)) && first.failed.is_none();
        if !mine || suspicious && !plan.head.alone {
            if suspicious && !plan.items.is_empty() {
                // Priority messages first, so that they can't be blamed on this one.
                plan.head =
                    self.memory.as_ref().map_or_else(|| plan.head.clone(), |memory| memory.head.clone());
                plan.behind = true;
                return Ok(true);
            }
            plan.head.alone = suspicious;
            let says = suspicious || plan.head.cursor > 0 || !plan.head.attempts.is_empty();
            plan.head.in_hand = if says { plan.queue.entry_of(first) } else { None };
            if first.failed.is_none() && lock != Lock::Abandoned && !self.announce(plan).await? {
                return Ok(false);
            }
        }
        if suspicious || first_failed || plan.head.stopped.is_some() {
            // Nothing else goes along, not even what callers in this process want.
            // Priority messages that wait come before the next one.
            let next = items.get(1).filter(|_| !plan.more_urgent);
            plan.next = next.and_then(|item| plan.queue.entry_of(item));
            plan.behind = true;
            items.truncate(1);
        } else if let Some(at) = items.iter().skip(1).position(is_suspect) {
            // What has failed before is run alone.
            plan.behind = true;
            items.truncate(at + 1);
        }
        if is_fold {
            // Before the priority messages: it is older than they are.
            items.append(&mut plan.items);
            plan.items = items;
        } else {
            plan.items.append(&mut items);
        }
        Ok(true)
    }

    fn queue_items(&self, plan: &mut Plan<S>, is_fold: bool) -> Vec<Item<S>> {
        let mut items = Vec::new();
        let mut skip = plan.head.cursor + u64::from(is_fold);
        plan.behind = plan.queue.more;
        'all: for (entry, loaded) in plan.queue.entries.iter().enumerate() {
            let count = loaded.parcels.len();
            for (at, parcel) in loaded.parcels.iter().enumerate() {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                if items.len() >= S::POLICY.batch_max {
                    plan.behind = true;
                    break 'all;
                }
                items.push(Item::read(parcel.clone(), Origin::Queue { entry, last: at + 1 == count }));
            }
        }
        items
    }

    /// Writes that this node takes from the queue, before it does. Returns whether it is so.
    pub(super) async fn announce(&mut self, plan: &mut Plan<S>) -> Result<bool, ServerError> {
        self.announce_with(plan, Commit::new()).await
    }

    /// The same, along with something else.
    pub(super) async fn announce_with(
        &mut self,
        plan: &mut Plan<S>,
        commit: Commit,
    ) -> Result<bool, ServerError> {
        let Some(memory) = &mut self.memory else { return Ok(false) };
        let mark = self.kind.ground.env().random_u64();
        plan.head.mark(mark);
        let mut commit =
            commit.check(memory.check(&self.keys)).set(self.keys.head.clone(), plan.head.encode());
        // What is new about the state (that it exists, or was migrated) belongs to the head.
        commit.writes.extend(memory.state.changes()?);
        match self.settle(commit, mark).await {
            End::Done(version) => {
                if let Some(memory) = &mut self.memory {
                    (memory.head, memory.version) = (plan.head.clone(), Some(version));
                    memory.state.keep();
                }
                Ok(true)
            }
            End::Conflict | End::NotEmpty => {
                self.memory = None;
                Ok(false)
            }
            End::Failed(error) => Err(error.into()),
            End::Unknown(reason, _) => Err(StoreError::unavailable(reason).into()),
        }
    }
}
