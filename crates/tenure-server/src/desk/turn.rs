//! A desk's turn: gather, run, commit.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Check, Commit, CommitError, Conflict, Key, Moment, Pauses, Range, Read, Reason, Store as _, StoreError, StoreExt as _, Version,
    Write,
};

use super::{
    Desk, commit::{Made, Making},
    dirty,
    is_passing,
    item::{Body, Item, Load, Local, Origin, Told},
    load::{Memory, View},
    refuse,
    run::{Came, Run, Runner},
};
use crate::{
    Server, ServerError,
    courier::{Sending, Way},
    effects,
    head::{Claim, Fate, Head, SUSPECTS, fate},
    keys::{SWEEP, ServerKeys, numbers_of},
    kind::Kind,
    once,
    parcel::{Attempt, millis},
    reply::Outcome,
};

/// How long an owner that has a session may not get on before another takes over.
const PATIENCE: Duration = Duration::from_millis(20);

/// Between two looks at an owner that others leave alone.
const DEFER_PAUSE: Duration = Duration::from_millis(5);

/// How often a batch is run again because one more of its messages has failed, before it is cut there.
const FAILURES_MAX: usize = 4;

/// After so many conflicts in a row, what callers in this process want goes through the queue.
const CONFLICTS_MAX: u32 = 2;

/// What a desk remembers from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// How often in a row others have changed the server before us.
    conflicts: u32,
    /// The head at which an owner was seen, and since when it stands still.
    deferring: Option<(Option<Version>, Moment)>,
    /// The pauses since the store is in trouble.
    trouble: Option<Pauses>,
}

/// Who does the locked work, if there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Free,
    Ours,
    Theirs,
    /// Its worker has gone.
    Abandoned,
}

/// How a commit ended.
pub(super) enum End {
    Done(Version),
    /// Another has changed the server.
    Conflict,
    /// There is something in the queue.
    NotEmpty,
    Failed(StoreError),
    Unknown(Reason),
}

/// What one turn works with.
struct Plan<S: Server> {
    items: Vec<Item<S>>,
    queue: Load,
    urgent: Load,
    head: Head,
    /// Whether the store was looked at.
    looked: bool,
    /// Whether the commit must prove the queue empty.
    prove_empty: bool,
    /// Whether there are messages in the queue behind those of the plan.
    behind: bool,
    full: bool,
}

impl<S: Server> Desk<S> {
    /// One turn. Between turns the state in memory is what is stored, or there is none.
    pub(super) async fn turn(&mut self) {
        let Err(error) = self.try_turn().await else {
            self.turn.trouble = None;
            return;
        };
        let ground = &self.kind.ground;
        self.memory = None;
        match error {
            ServerError::Store(error) if is_passing(&error) => {
                let pauses = self.turn.trouble.get_or_insert_with(|| ground.retry().start(ground.env()));
                if !pauses.pause().await {
                    self.turn.trouble = None;
                    self.refuse_all(&error.into());
                }
            }
            error => {
                if matches!(error, ServerError::Newer { .. }) {
                    tracing::debug!(kind = S::KIND, server = %self.id, %error, "left to newer releases");
                } else {
                    tracing::error!(kind = S::KIND, server = %self.id, %error, "a server can't be used");
                }
                (self.look, self.worked) = (false, None);
                self.sweeps.clear();
                self.refuse_all(&error);
            }
        }
    }

    async fn try_turn(&mut self) -> Result<(), ServerError> {
        if self.memory.is_none() {
            self.memory = Some(Memory::load(&self.kind.ground, &self.id, &self.keys).await?);
        }
        if !self.looks.get_mut().is_empty() && !self.show().await? {
            return Ok(());
        }
        if let Some(at) = self.sweeps.pop() {
            return self.sweep(at).await;
        }
        if !self.look && self.worked.is_none() && self.urgent.is_empty() && self.waiting.is_empty() {
            return Ok(());
        }
        let view = match self.look || self.worked.is_some() {
            true => Some(View::read(&self.kind, &self.keys).await?),
            false => None,
        };
        if view.as_ref().is_some_and(|view| Some(view.version) != self.memory.as_ref().map(|memory| memory.version)) {
            self.memory = None;
            return Ok(());
        }
        if let Some(view) = &view {
            self.start_effects(view.effects);
        }
        let Some(plan) = self.plan(view).await? else { return Ok(()) };
        self.carry_out(plan).await
    }

    /// Answers those who want to see the state, if it is still what is stored.
    async fn show(&mut self) -> Result<bool, ServerError> {
        let looks = std::mem::take(self.looks.get_mut());
        let found = match self.kind.ground.store().get(&self.keys.head).await {
            Ok(found) => found.map(|found| found.version),
            Err(error) => {
                *self.looks.get_mut() = looks;
                return Err(error.into());
            }
        };
        match &self.memory {
            Some(memory) if memory.version == found => {
                looks.into_iter().for_each(|look| look(Ok(memory.state.get())));
                Ok(true)
            }
            _ => {
                *self.looks.get_mut() = looks;
                self.memory = None;
                Ok(false)
            }
        }
    }

    fn me(&self) -> SessionId {
        self.kind.ground.session().id()
    }

    async fn is_gone(&self, session: SessionId) -> Result<bool, StoreError> {
        Ok(self.kind.ground.store().get(&self.kind.ground.keys().session(session)).await?.is_none())
    }

    /// What to do in this turn; `None` if there is nothing, or not yet.
    async fn plan(&mut self, view: Option<View>) -> Result<Option<Plan<S>>, ServerError> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let mut head = memory.head.clone();
        let lock = self.lock(&head).await?;
        if lock != Lock::Ours {
            (self.worker, self.worked) = (None, None);
        }
        let looked = view.is_some();
        let (queue, urgent, full) = view.map_or_else(Default::default, |view| (view.queue, view.urgent, view.full));
        let mut plan = Plan { items: Vec::new(), queue, urgent, head: head.clone(), looked, prove_empty: false, behind: false, full };
        let mut fold = self.take_fold(&plan.queue, &head);
        let is_open = head.stopped.is_none() && (lock == Lock::Free || lock == Lock::Abandoned || fold.is_some());

        let some = !plan.queue.entries.is_empty();
        let mut take = some && is_open;
        let mine = head.owner == Some(self.me());
        let mut owner_gone = false;
        if take && !mine && let Some(owner) = head.owner {
            owner_gone = self.is_gone(owner).await?;
            take = owner_gone || self.has_patience_ended(memory_version(&self.memory), head.alone);
        }
        if mine || !some {
            self.turn.deferring = None;
        }
        self.take_urgent(&mut plan);
        if some && is_open && !take {
            // The owner gets on with it, and with what our callers want.
            self.send_waiting();
            self.kind.ground.env().sleep(DEFER_PAUSE).await;
            return Ok((!plan.items.is_empty()).then_some(plan));
        }
        if !is_open {
            if lock == Lock::Theirs || head.stopped.is_some() {
                self.send_waiting();
            }
            self.look &= !looked;
            return Ok((!plan.items.is_empty()).then_some(plan));
        }
        if self.kind.flaws.removed_at_lock {
            if lock == Lock::Abandoned {
                head.claim = None;
                plan.head.claim = None;
            }
            if let Some(fold) = fold.take() {
                plan.items.insert(0, fold);
            }
        }
        if take {
            if !mine {
                head.owner = Some(self.me());
                head.suspects = if owner_gone { SUSPECTS } else { head.suspects };
            }
            plan.head = head;
            if !self.take_queue(&mut plan, fold, lock, mine).await? {
                return Ok(None);
            }
        } else if looked {
            // Nothing is there: what is marked as possible is not.
            self.look = false;
            self.kind.report_idle(&self.id);
        }
        if !plan.behind && self.turn.conflicts > CONFLICTS_MAX && !mine {
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

    async fn lock(&self, head: &Head) -> Result<Lock, StoreError> {
        Ok(match (head.claim, &self.worker) {
            (None, _) => Lock::Free,
            (Some(claim), Some(worker)) if worker.token == claim.token => Lock::Ours,
            (Some(claim), _) if claim.session == self.me() || self.is_gone(claim.session).await? => Lock::Abandoned,
            _ => Lock::Theirs,
        })
    }

    /// Whether an owner that has a session has stood still for long enough.
    fn has_patience_ended(&mut self, version: Option<Version>, alone: bool) -> bool {
        let now = self.kind.ground.env().now();
        match self.turn.deferring {
            Some((seen, since)) if seen == version => !alone && now - since >= PATIENCE,
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
        let count = queue.entries.first().map_or(0, |entry| entry.parcels.len() as u64);
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

    /// Adds the priority messages.
    fn take_urgent(&mut self, plan: &mut Plan<S>) {
        for (entry, loaded) in plan.urgent.entries.iter().enumerate() {
            
            for parcel in &loaded.parcels {
                let origin = Origin::Urgent { entry };
                plan.items.push(Item::read(parcel.clone(), origin));
            }
        }
        plan.items.extend(self.urgent.drain(..));
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
        let gone = "the process that worked on it went away";
        let was_alone = self.memory.as_ref().is_some_and(|memory| memory.head.alone && !mine);
        if lock == Lock::Abandoned && !is_fold {
            let attempt = Attempt::new(self.kind.ground.env().unix_time(), self.kind.ground.settings().node.as_str(), gone);
            first.locked = true;
            if first.attempts.len() + 1 >= S::POLICY.attempts_max() {
                first.failed = Some(gone.to_owned());
            } else {
                first.attempts.push(attempt.clone());
                plan.head.attempts.push(attempt);
            }
        } else if was_alone {
            first.failed = Some("the process that ran it went away".to_owned());
        }
        let first_failed = first.failed.is_some();
        let is_suspect = |item: &Item<S>| !item.attempts.is_empty() && item.failed.is_none();
        let suspicious = !is_fold && (plan.head.suspects > 0 || is_suspect(first)) && first.failed.is_none();
        if !mine || suspicious && !plan.head.alone {
            if suspicious && !plan.items.is_empty() {
                // Priority messages first, so that they can't be blamed on this one.
                plan.head = self.memory.as_ref().map_or_else(|| plan.head.clone(), |memory| memory.head.clone());
                plan.behind = true;
                return Ok(true);
            }
            plan.head.alone = suspicious;
            if first.failed.is_none() && lock != Lock::Abandoned && !self.announce(plan).await? {
                return Ok(false);
            }
        }
        if suspicious || first_failed {
            plan.behind |= items.len() > 1;
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
    async fn announce(&mut self, plan: &mut Plan<S>) -> Result<bool, ServerError> {
        let Some(memory) = &mut self.memory else { return Ok(false) };
        let mark = self.kind.ground.env().random_u64();
        plan.head.mark(mark);
        let mut commit =
            Commit::new().check(memory.check(&self.keys)).set(self.keys.head.clone(), plan.head.encode());
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
            End::Unknown(reason) => Err(StoreError::unavailable(reason).into()),
        }
    }

    /// Runs the messages of a plan, makes the commit, and tells everybody.
    async fn carry_out(&mut self, mut plan: Plan<S>) -> Result<(), ServerError> {
        let known = match self.known(&plan.items).await {
            Ok(Some(known)) => known,
            other => {
                self.give_back(plan.items);
                self.memory = None;
                return other.map(|_| ());
            }
        };
        let now_ms = millis(self.kind.ground.env().unix_time());
        let mut most = plan.items.len();
        let (made, mut run) = loop {
            let rest = plan.items.split_off(most);
            plan.behind |= rest.iter().any(|item| !matches!(item.origin, Origin::Local { .. }));
            self.give_back(rest);
            match self.fold(&mut plan, &known, now_ms) {
                Ok(done) => break done,
                Err(Trouble::TooLarge(_)) if plan.items.len() > 1 => most = plan.items.len() / 2,
                Err(Trouble::TooLarge(error)) => plan.items[0].fail_for_good(error.to_string()),
                Err(Trouble::State(error)) => {
                    self.give_back(plan.items);
                    return Err(error);
                }
            }
        };
        let mut made = made;
        if run.delete {
            return self.delete(plan, run, made).await;
        }
        let end = self.send_off(&mut made).await;
        let done = run.came.len();
        match end {
            End::Done(version) => {
                self.turn.conflicts = 0;
                let token = made.head.claim.map(|claim| claim.token);
                if let Some(memory) = &mut self.memory {
                    (memory.head, memory.version) = (made.head, Some(version));
                    memory.state.keep();
                }
                let all = !plan.behind && done == plan.items.len();
                let rest = plan.items.split_off(done);
                self.give_back(rest);
                if plan.looked {
                    self.look = !all;
                }
                if plan.items.iter().any(|item| item.locked && !matches!(item.body, Body::Call(_) | Body::Cast(_)) || item.locked && item.failed.is_some()) {
                    (self.worker, self.worked) = (None, None);
                }
                self.tell(plan.items, &mut run, made.died, token);
                Ok(())
            }
            End::Conflict => {
                self.turn.conflicts += 1;
                metrics::counter!("tenure_server_conflicts_total", "kind" => S::KIND).increment(1);
                self.memory = None;
                self.give_back(plan.items);
                Ok(())
            }
            End::NotEmpty => {
                self.look = true;
                self.undo()?;
                self.give_back(plan.items);
                Ok(())
            }
            End::Failed(error) if is_passing(&error) => {
                self.give_back(plan.items);
                Err(error.into())
            }
            End::Failed(error) => {
                self.memory = None;
                plan.items.into_iter().for_each(|item| refuse(item, error.clone().into()));
                Err(error.into())
            }
            End::Unknown(reason) => {
                self.memory = None;
                let error = ServerError::OutcomeUnknown(reason);
                plan.items.into_iter().for_each(|item| refuse(item, error.clone()));
                Ok(())
            }
        }
    }

    /// Puts messages of this process back, from this place on. Those of the store are still there.
    fn give_back(&mut self, items: Vec<Item<S>>) {
        for mut item in items.into_iter().rev() {
            match item.origin {
                Origin::Local { .. } if matches!(item.body, Body::Fold(_)) => {}
                Origin::Local { urgent, .. } => {
                    item.failed = None;
                    if urgent { self.urgent.push_front(item) } else { self.waiting.push_front(item) }
                }
                Origin::Queue { .. } | Origin::Urgent { .. } => self.look = true,
            }
        }
    }

    fn undo(&mut self) -> Result<(), ServerError> {
        if let Some(memory) = &mut self.memory {
            memory.state.undo()?;
        }
        Ok(())
    }

    /// The answers that are kept under the idempotency keys of these messages; `None` if the state in memory is no longer that of the store.
    async fn known(&self, items: &[Item<S>]) -> Result<Option<BTreeMap<String, Option<Bytes>>>, ServerError> {
        let wanted: Vec<&String> = items.iter().filter_map(|item| item.key.as_ref()).collect();
        let mut known = BTreeMap::new();
        let store = self.kind.ground.store();
        let now = millis(self.kind.ground.env().unix_time());
        // One question is for the head.
        for some in wanted.chunks(store.limits().read_questions - 1) {
            let mut reads = vec![Read::Key(self.keys.head.clone())];
            reads.extend(some.iter().map(|key| Read::Key(self.keys.once(key))));
            let found = store.read(reads).await?;
            if found.key(0).map(|found| found.version) != memory_version(&self.memory) {
                return Ok(None);
            }
            for (at, key) in some.iter().enumerate() {
                let Some(found) = found.key(at + 1) else { continue };
                let (until, answer) = once::read(&self.keys.once(key), &found.value)?;
                if until > now {
                    known.insert((*key).clone(), answer);
                }
            }
        }
        Ok(Some(known))
    }

    /// Runs messages over the state, again whenever one of them fails, and builds the commit. Afterwards the state has their changes.
    fn fold(
        &mut self,
        plan: &mut Plan<S>,
        known: &BTreeMap<String, Option<Bytes>>,
        now_ms: u64,
    ) -> Result<(Made, Run<S>), Trouble> {
        let Some(memory) = &mut self.memory else { return Err(Trouble::gone()) };
        let runner = Runner {
            server: &self.kind.server,
            ground: &self.kind.ground,
            room: &self.kind.room,
            id: &self.id,
            known,
            bytes_max: self.limits.commit_bytes / 2,
            operations_max: self.limits.commit_operations / 2,
        };
        let mut failures = 0;
        let mut run = loop {
            match runner.run(memory.state.get_mut(), &mut plan.items, dirty::<S>) {
                Ok(run) => break run,
                Err(halt) => {
                    memory.state.undo().map_err(Trouble::state)?;
                    failures += 1;
                    if failures > FAILURES_MAX {
                        let at = halt.at();
                        let rest = plan.items.split_off(at + 1);
                        plan.behind |= rest.iter().any(|item| !matches!(item.origin, Origin::Local { .. }));
                        for item in rest.into_iter().rev() {
                            if let Origin::Local { urgent, .. } = item.origin {
                                if urgent { self.urgent.push_front(item) } else { self.waiting.push_front(item) }
                            }
                        }
                        failures = 0;
                    }
                }
            }
        };
        for (item, came) in plan.items.iter_mut().zip(&run.came) {
            let is_late = matches!(came, Came::Failed | Came::Queued);
            if is_late && item.is_call() && item.waiting.is_none() {
                item.waiting = Some(self.kind.room.wait());
            }
        }
        let outcome = (|| {
            let writes = memory.state.changes().map_err(Trouble::state)?;
            let check = memory.check(&self.keys);
            let making = Making {
                ground: &self.kind.ground,
                keys: &self.keys,
                limits: &self.limits,
                policy: S::POLICY,
                items: &mut plan.items,
                run: &mut run,
                queue: &plan.queue,
                urgent: &plan.urgent,
                now_ms,
                mark: self.kind.ground.env().random_u64(),
            };
            let mut made = making.make(&self.id, check, plan.head.clone(), writes).map_err(Trouble::State)?;
            if let (Some(Came::Locked), Some(item)) = (run.came.last(), plan.items.get(run.came.len() - 1)) {
                made = claim(&self.kind, &self.keys, made, item, &plan.queue);
            } else if made.head.suspects > 0 && plan.behind && !made.head.alone && made.head.owner == Some(self.kind.ground.session().id()) {
                // Said in the same commit as the one before.
                made.head.alone = true;
                made.rewrite_head(&self.keys);
            }
            if plan.prove_empty && !self.kind.flaws.inline_without_proof {
                made.commit = made.commit.check(Check::Empty(self.keys.queue.clone()));
            }
            if plan.full && !plan.queue.more {
                made.commit = made.commit.delete(self.keys.full.clone());
            }
            match self.limits.admit_commit(&made.whole(&self.kind.ground, &self.limits)) {
                Err(error @ (StoreError::TooLarge(_) | StoreError::Invalid(_))) => Err(Trouble::TooLarge(error)),
                _ => Ok(made),
            }
        })();
        match outcome {
            Ok(made) => Ok((made, run)),
            Err(trouble) => {
                memory.state.undo().map_err(Trouble::state)?;
                Err(trouble)
            }
        }
    }

    /// Makes a commit with its answers. Callers whose session has ended get none.
    async fn send_off(&mut self, made: &mut Made) -> End {
        loop {
            let commit = made.whole(&self.kind.ground, &self.limits);
            match self.settle_or_tell(commit, made.mark).await {
                Ok(end) => return end,
                Err(key) => {
                    let keys = self.kind.ground.keys();
                    let before = made.replies.len();
                    made.replies.retain(|session, _| keys.session(*session) != key);
                    if made.replies.len() == before {
                        // A check that only answers have, and none of them has it: another's mistake.
                        return End::Conflict;
                    }
                }
            }
        }
    }

    pub(super) async fn settle(&self, commit: Commit, mark: u64) -> End {
        self.settle_or_tell(commit, mark).await.unwrap_or(End::Conflict)
    }

    /// Makes a commit that is marked in the head, and finds out what became of it though answers get lost.
    ///
    /// # Errors
    /// The key of a check that did not hold, if it is neither the head's nor the queue's.
    async fn settle_or_tell(&self, commit: Commit, mark: u64) -> Result<End, Key> {
        let ground = &self.kind.ground;
        let base = self.memory.as_ref().and_then(|memory| memory.head.marks.last().copied());
        let version = memory_version(&self.memory);
        let mut pauses = ground.retry().start(ground.env());
        let mut doubt = false;
        loop {
            let conflict = match ground.store().commit(commit.clone()).await {
                Ok(receipt) => return Ok(End::Done(receipt.version)),
                Err(CommitError::Conflict(Conflict::Contention)) => {
                    if !pauses.pause().await {
                        return Ok(if doubt { unsure() } else { End::Failed(StoreError::unavailable("others kept changing the store")) });
                    }
                    continue;
                }
                Err(CommitError::Conflict(Conflict::Check { key, .. })) => Some(key),
                Err(CommitError::Failed(error)) if !doubt && !error.is_transient() => return Ok(End::Failed(error)),
                Err(CommitError::Failed(error)) => {
                    if !pauses.pause().await {
                        return Ok(if doubt { unsure() } else { End::Failed(error) });
                    }
                    continue;
                }
                Err(_) => {
                    doubt = true;
                    None
                }
            };
            if !doubt && let Some(key) = conflict {
                return self.meaning(key);
            }
            // A copy may have landed, or may land yet unless the head is another by now.
            loop {
                match ground.store().get(&self.keys.head).await {
                    Ok(found) if found.as_ref().map(|found| found.version) == version => {
                        if let Some(key) = conflict {
                            // Refused by something else than the head: so may its copies be, or not.
                            if key == self.keys.head {
                                break;
                            }
                            return self.void(mark, key).await;
                        }
                        break;
                    }
                    Ok(found) => {
                        let head = found.as_ref().and_then(|found| Head::decode(&self.keys.head, &found.value).ok());
                        return Ok(match fate(head.as_ref(), mark, base) {
                            Fate::Landed if head.as_ref().is_some_and(|head| head.marks.last() == Some(&mark)) => {
                                End::Done(found.map_or(Version(0), |found| found.version))
                            }
                            // Its state is not the present one any more; what it did is done.
                            Fate::Landed => End::Done(Version(0)),
                            Fate::Never => End::Conflict,
                            Fate::Forgotten => unsure(),
                        });
                    }
                    Err(_) if pauses.pause().await => {}
                    Err(_) => return Ok(unsure()),
                }
            }
            if !pauses.pause().await {
                return Ok(unsure());
            }
        }
    }

    /// What it means that this check did not hold.
    fn meaning(&self, key: Key) -> Result<End, Key> {
        if key == self.keys.head {
            Ok(End::Conflict)
        } else if key == self.keys.queue {
            Ok(End::NotEmpty)
        } else {
            Err(key)
        }
    }

    /// A copy was refused by a check on `key` while another may be under way: makes sure that none can land any more, by changing the head.
    async fn void(&self, mark: u64, key: Key) -> Result<End, Key> {
        let Some(memory) = &self.memory else { return Ok(unsure()) };
        let mut head = memory.head.clone();
        let own = self.kind.ground.env().random_u64();
        head.mark(own);
        let commit = Commit::new().check(memory.check(&self.keys)).set(self.keys.head.clone(), head.encode());
        let ground = &self.kind.ground;
        let mut pauses = ground.retry().start(ground.env());
        loop {
            // Whatever comes of it, the head tells.
            let _ = ground.store().commit(commit.clone()).await;
            if let Ok(found) = ground.store().get(&self.keys.head).await
                && found.as_ref().map(|found| found.version) != memory.version
            {
                let head = found.as_ref().and_then(|found| Head::decode(&self.keys.head, &found.value).ok());
                return match fate(head.as_ref(), mark, memory.head.marks.last().copied()) {
                    Fate::Landed => Ok(End::Done(Version(0))),
                    // The head is another now: the state must be read again, and the messages run again.
                    Fate::Never => Ok(End::Conflict),
                    Fate::Forgotten => {
                        drop(key);
                        Ok(unsure())
                    }
                };
            }
            if !pauses.pause().await {
                return Ok(unsure());
            }
        }
    }

    /// Tells callers what came of it, and begins what comes after the commit.
    fn tell(&mut self, items: Vec<Item<S>>, run: &mut Run<S>, mut died: BTreeMap<usize, ServerError>, token: Option<u64>) {
        metrics::counter!("tenure_server_commits_total", "kind" => S::KIND).increment(1);
        metrics::counter!("tenure_server_messages_total", "kind" => S::KIND).increment(run.came.len() as u64);
        #[allow(clippy::cast_precision_loss, reason = "a histogram is approximate")]
        metrics::histogram!("tenure_server_batch_messages", "kind" => S::KIND).record(run.came.len() as f64);
        let env = self.kind.ground.env().clone();
        for run in run.after_commit.drain(..) {
            env.spawn(run);
        }
        for sent in run.sent.drain(..).filter(|sent| sent.later.is_none()) {
            (self.kind.told)(&sent.kind, &sent.id);
        }
        if !run.effects.is_empty() {
            self.start_effects(true);
        }
        for (at, (mut item, came)) in items.into_iter().zip(run.came.drain(..)).enumerate() {
            if let Came::Locked = came {
                match (item.parcel(), token) {
                    (Ok(mut parcel), Some(token)) => {
                        parcel.locked = true;
                        self.begin_work(token, parcel, &item.body);
                    }
                    _ => self.look = true,
                }
                continue;
            }
            if let Came::Queued = came {
                self.send_through_queue(item);
                continue;
            }
            let waiting = item.waiting.take();
            let Origin::Local { told, .. } = item.origin else { continue };
            let died = died.remove(&at);
            // Callers may have given up.
            match (told, came) {
                (Local::Call(told), _) if died.is_some() => drop(told.send(died.map_or(Err(ServerError::Left), Err))),
                (Local::Call(told), Came::Done(Some(reply))) => drop(told.send(Ok(Told::Reply(reply)))),
                (Local::Call(told), Came::Again(Some(reply))) => drop(told.send(Ok(Told::Again(reply)))),
                (Local::Call(told), _) => {
                    let waiting = waiting.unwrap_or_else(|| self.kind.room.wait());
                    drop(told.send(Ok(Told::Later(waiting))));
                }
                (Local::Cast(Some(told)), _) => drop(told.send(Ok(()))),
                (Local::Cast(None), _) => {}
            }
        }
    }

    fn start_effects(&mut self, some: bool) {
        if some && !self.effects {
            self.effects = true;
            effects::start(&self.kind, &self.id, &self.keys, self.own.clone());
        }
    }

    /// Sends what callers in this process want through the queue.
    fn send_waiting(&mut self) {
        for item in std::mem::take(&mut self.waiting) {
            self.send_through_queue(item);
        }
    }

    fn send_through_queue(&self, mut item: Item<S>) {
        if item.is_call() && item.waiting.is_none() {
            item.waiting = Some(self.kind.room.wait());
        }
        let parcel = match item.parcel() {
            Ok(parcel) => parcel,
            Err(error) => return refuse(item, error),
        };
        let mut sending = Sending {
            kind: self.kind.name.clone(),
            id: self.id.clone(),
            keys: Arc::clone(&self.keys),
            way: Way::Queue,
            parcels: vec![parcel],
            queue_max: S::POLICY.queue_max,
            done: None,
        };
        let waiting = item.waiting.take();
        let (courier, env) = (self.kind.courier.clone(), self.kind.ground.env());
        let Origin::Local { told, .. } = item.origin else { return };
        // In a task, since it may have to wait; in order, since its place in the lane is taken here.
        match (told, waiting) {
            (Local::Call(told), Some(waiting)) => {
                let (done, sent) = super::question();
                sending.done = Some(done);
                if let Err(error) = courier.send_soon(sending) {
                    drop(told.send(Err(error)));
                    return;
                }
                env.spawn(async move {
                    let outcome = sent.await.unwrap_or(Err(ServerError::Left));
                    drop(told.send(outcome.map(|()| Told::Later(waiting))));
                });
            }
            (Local::Cast(told), _) => {
                sending.done = told;
                if let Err(error) = courier.send_soon(sending) {
                    tracing::warn!(kind = S::KIND, server = %self.id, %error, "a message could not be sent");
                }
            }
            (Local::Call(told), None) => drop(told.send(Err(ServerError::Left))),
        }
    }

    /// Deletes the server, and tells those who wait in its queue.
    async fn delete(&mut self, plan: Plan<S>, mut run: Run<S>, mut made: Made) -> Result<(), ServerError> {
        let done = run.came.len();
        let deletion = self.keys.delete(Commit::new());
        let gone: Vec<Range> = deletion.writes.iter().map(Write::range).collect();
        let mut commit = std::mem::take(&mut made.commit);
        commit.writes.retain(|write| !gone.iter().any(|range| range.contains(write.range().start())));
        let mut dues = BTreeSet::new();
        for item in self.kind.scan(&self.keys.timers()).await? {
            let (timer, at) = numbers_of(&item.key)?;
            dues.insert(self.keys.due(at, timer));
        }
        dues.extend(made.head.sweeps.iter().map(|at| self.keys.due(*at, SWEEP)));
        let written: BTreeSet<Key> = commit.writes.iter().map(|write| write.range().start().clone()).collect();
        commit = commit.and(deletion);
        commit = dues.difference(&written).fold(commit, |commit, due| commit.delete(due.clone()));
        made.commit = commit;
        for item in &plan.items[done..] {
            if let Some(to) = item.to {
                made.replies.entry(to.session()).or_default().push((to.slot, Outcome::Deleted));
            }
        }
        match self.send_off(&mut made).await {
            End::Done(_) => {
                self.memory = None;
                let mut items = plan.items;
                for item in items.split_off(done) {
                    refuse(item, ServerError::Deleted(self.id.clone()));
                }
                self.look = false;
                self.tell(items, &mut run, made.died, None);
                Ok(())
            }
            End::Conflict | End::NotEmpty | End::Unknown(_) => {
                self.memory = None;
                self.give_back(plan.items);
                Ok(())
            }
            End::Failed(error) => {
                self.memory = None;
                self.give_back(plan.items);
                Err(error.into())
            }
        }
    }
}

/// Why messages could not be made into a commit.
enum Trouble {
    /// More than a commit takes.
    TooLarge(StoreError),
    State(ServerError),
}

impl Trouble {
    fn state(error: crate::StateError) -> Self {
        Self::State(error.into())
    }

    fn gone() -> Self {
        Self::State(StoreError::unavailable("the state is to be read again").into())
    }
}

fn unsure() -> End {
    End::Unknown(Reason::new("the store gave no answer for as long as was to be tried, or too much has happened since"))
}

fn memory_version<S: Server>(memory: &Option<Memory<S>>) -> Option<Version> {
    memory.as_ref().and_then(|memory| memory.version)
}

/// Claims the message at the cursor, in the commit that stores what its callback did.
fn claim<S: Server>(kind: &Kind<S>, keys: &ServerKeys, mut made: Made, item: &Item<S>, queue: &Load) -> Made {
    made.head.claim = Some(Claim::new(&kind.ground));
    made.head.alone = false;
    if kind.flaws.removed_at_lock
        && let Origin::Queue { entry, last } = item.origin
    {
        if last {
            made.head.cursor = 0;
            made.commit = made.commit.remove(keys.queue.clone(), queue.entries[entry].id.clone());
        } else {
            made.head.cursor += 1;
        }
    }
    made.rewrite_head(keys);
    made
}
