//! A desk's turn: gather, run, commit.

use std::{sync::Arc, time::Duration};

use tenure_store::{Commit, Moment, Pauses, Read, Store as _, StoreError, StoreExt as _, Version};

use super::{
    Desk,
    commit::{Made, Making},
    is_passing,
    item::{Body, Item, Origin},
    load::{Memory, View, pieces},
    plan::Plan,
    refuse,
    run::{Came, Run, Runner},
    settle::End,
    urgent::Seen,
};
use crate::{
    Server, ServerError, StateError,
    farewell::Farewell,
    once::{self, Answer, Known},
    parcel::millis,
};

/// How often a batch is run again because one more of its messages has failed, before it is cut there.
const FAILURES_MAX: usize = 4;

/// What a desk remembers from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// How often in a row others have changed the server before us.
    pub(super) conflicts: u32,
    /// The head at which an owner was seen, and since when it stands still.
    pub(super) deferring: Option<(Option<Version>, Moment)>,
    /// How often in a row a deletion was tried.
    pub(super) deletions: u32,
    /// Who was seen to take priority messages.
    pub(super) seen: Option<Seen>,
    /// The pauses since the store is in trouble.
    trouble: Option<Pauses>,
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
                if matches!(error, ServerError::Newer { .. }) {
                    // A newer node handles it.
                    self.send_waiting();
                }
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
        self.handle().await?;
        // A little between two turns, so that no message waits for long.
        match self.sweeps.pop_if(|_| self.memory.is_some()) {
            Some(sweep) => self.sweep(sweep).await,
            None => Ok(()),
        }
    }

    /// Handles some messages, if there are any.
    async fn handle(&mut self) -> Result<(), ServerError> {
        if !self.look && self.worked.is_none() && self.urgent.is_empty() && self.waiting.is_empty() {
            return Ok(());
        }
        // What is on its way now may be missing in what is read.
        let is_overtaking = self.has_under_way();
        let view = match self.look || self.worked.is_some() {
            true => Some(View::read(&self.kind, &self.keys).await?),
            false => None,
        };
        if view
            .as_ref()
            .is_some_and(|view| Some(view.version) != self.memory.as_ref().map(|memory| memory.version))
        {
            self.memory = None;
            return Ok(());
        }
        if let Some(view) = &view {
            self.measure(view);
            if view.effects && !self.effects {
                self.start_effects();
            }
        }
        let Some(plan) = self.plan(view, is_overtaking).await? else { return Ok(()) };
        self.carry_out(plan).await
    }

    #[allow(clippy::cast_precision_loss, reason = "a histogram is approximate")]
    fn measure(&self, view: &View) {
        let waiting: usize = view.queue.entries.iter().map(|entry| entry.parcels.len()).sum();
        metrics::histogram!("tenure_server_queue_messages", "kind" => S::KIND).record(waiting as f64);
        if let Some(first) = view.queue.entries.first().and_then(|entry| entry.parcels.first()) {
            let sent = Duration::from_millis(first.sent_ms);
            let age = self.kind.ground.env().unix_time().saturating_sub(sent);
            metrics::histogram!("tenure_server_queue_seconds", "kind" => S::KIND).record(age);
        }
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

    /// Runs the messages of a plan, makes the commit, and tells everybody.
    async fn carry_out(&mut self, mut plan: Plan<S>) -> Result<(), ServerError> {
        let known = match self.known(&plan.items).await {
            Ok(Some(known)) => known,
            other => {
                self.memory = None;
                self.give_back(plan.items);
                return other.map(|_| ());
            }
        };
        loop {
            let (mut made, run) = match self.fold(&mut plan, &known) {
                Ok(done) => done,
                Err(ServerError::State(error)) if matches!(*error, StateError::Replaced(_)) => {
                    // What can't be undone is read again.
                    match self.load_again().await {
                        Ok(true) => continue,
                        other => {
                            self.give_back(plan.items);
                            return other.map(|_| ());
                        }
                    }
                }
                Err(error) => {
                    self.memory = None;
                    self.give_back(plan.items);
                    return Err(error);
                }
            };
            let is_locked = matches!(run.came.last(), Some(Came::Locked));
            // Held until the work has begun: a claim without work would lock the server for as long as this session lasts.
            let own = if is_locked { self.own.upgrade() } else { None };
            if is_locked && own.is_none() {
                // This node serves no more: what comes before it is done, the work is for others.
                self.undo();
                self.cut(&mut plan, run.came.len() - 1);
                if plan.items.is_empty() || self.memory.is_none() {
                    self.give_back(plan.items);
                    return Ok(());
                }
                continue;
            }
            if is_locked && self.has_lapsed() {
                // Nobody can hold a claim whose session may be ended at any moment.
                self.undo();
                self.give_back(plan.items);
                return Err(StoreError::unavailable("the session of this node has lapsed").into());
            }
            let mut farewell = None;
            if run.delete {
                let head = self.memory.as_ref().map(|memory| &memory.head);
                match Farewell::read(&**self.kind.ground.store(), &self.keys, head).await {
                    Ok(read) => {
                        self.turn.deletions += 1;
                        self.make_deletion(&plan, &run, &mut made, farewell.insert(read));
                    }
                    Err(error) => {
                        self.memory = None;
                        self.give_back(plan.items);
                        return Err(error);
                    }
                }
            }
            match self.send_off(&mut made).await {
                End::Failed(error @ (StoreError::TooLarge(_) | StoreError::Invalid(_))) => {
                    self.undo();
                    if let [item] = &mut plan.items[..] {
                        if item.hopeless {
                            plan.items.into_iter().for_each(|item| refuse(item, error.clone().into()));
                            return Err(error.into());
                        }
                        item.fail_for_good(error.to_string());
                    } else {
                        self.cut(&mut plan, run.came.len().div_ceil(2));
                    }
                    if self.memory.is_none() {
                        self.give_back(plan.items);
                        return Ok(());
                    }
                }
                End::Done(version) => {
                    match farewell {
                        Some(farewell) => self.complete_deletion(plan, run, made, farewell),
                        None => self.complete(plan, run, made, version),
                    }
                    drop(own);
                    return Ok(());
                }
                failed => return self.fall_back(plan, failed),
            }
        }
    }

    /// What a commit did is done.
    fn complete(&mut self, mut plan: Plan<S>, mut run: Run<S>, made: Made, version: Version) {
        self.turn.conflicts = 0;
        let token = made.head.claim.map(|claim| claim.token);
        self.make_apart(made.apart);
        if let Some(memory) = &mut self.memory {
            (memory.head, memory.version) = (made.head, Some(version));
            memory.state.keep();
        }
        let done = run.came.len();
        let all = !plan.behind && !plan.more_urgent && done == plan.items.len();
        self.give_back(plan.items.split_off(done));
        if plan.looked {
            self.look = !all;
        }
        let is_work =
            |item: &Item<S>| item.locked && (item.failed.is_some() || matches!(item.body, Body::Fold(_)));
        if plan.items.iter().any(is_work) {
            (self.worker, self.worked) = (None, None);
        }
        self.tell(plan.items, &mut run, made.died, token);
    }

    /// Makes what a flaw has taken out of a commit.
    fn make_apart(&self, apart: Commit) {
        if apart.writes.is_empty() {
            return;
        }
        let store = Arc::clone(self.kind.ground.store());
        self.kind.ground.env().spawn(async move { drop(store.commit(apart).await) });
    }

    /// Nothing was done, as far as is known.
    fn fall_back(&mut self, plan: Plan<S>, end: End) -> Result<(), ServerError> {
        match end {
            End::Conflict => {
                self.turn.conflicts += 1;
                metrics::counter!("tenure_server_conflicts_total", "kind" => S::KIND).increment(1);
                self.memory = None;
                self.give_back(plan.items);
                Ok(())
            }
            End::NotEmpty => {
                self.look = true;
                self.undo();
                self.give_back(plan.items);
                Ok(())
            }
            End::Failed(error) => {
                self.memory = None;
                if is_passing(&error) {
                    self.give_back(plan.items);
                } else {
                    plan.items.into_iter().for_each(|item| refuse(item, error.clone().into()));
                }
                Err(error.into())
            }
            End::Unknown(reason, doubt) => {
                self.memory = None;
                // Effects that it may have recorded, or may record yet, are this node's to do.
                self.look_into(doubt);
                let error = ServerError::OutcomeUnknown(reason);
                plan.items.into_iter().for_each(|item| refuse(item, error.clone()));
                Ok(())
            }
            End::Done(_) => Ok(()),
        }
    }

    /// Reads the state again. Returns whether it is the same as before.
    async fn load_again(&mut self) -> Result<bool, ServerError> {
        let before = self.version();
        let memory = Memory::load(&self.kind.ground, &self.id, &self.keys).await?;
        let same = memory.version == before;
        self.memory = Some(memory);
        Ok(same)
    }

    /// Leaves the messages from this place on for later.
    fn cut(&mut self, plan: &mut Plan<S>, at: usize) {
        let rest = plan.items.split_off(at);
        plan.behind |= rest.iter().any(|item| !matches!(item.origin, Origin::Local { .. }));
        self.give_back(rest);
    }

    /// Puts messages of this process back, from this place on. Those of the store are still there.
    pub(super) fn give_back(&mut self, items: Vec<Item<S>>) {
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

    /// Takes back what was not committed. What can't be taken back is forgotten, and read again.
    fn undo(&mut self) {
        if let Some(memory) = &mut self.memory
            && memory.state.undo().is_err()
        {
            self.memory = None;
        }
    }

    /// The version of the head that the state in memory belongs to.
    pub(super) fn version(&self) -> Option<Version> {
        self.memory.as_ref().and_then(|memory| memory.version)
    }

    /// The answers that are kept under the idempotency keys of these messages; `None` if the state in memory is no longer that of the store.
    async fn known(&self, items: &[Item<S>]) -> Result<Option<Known>, ServerError> {
        let wanted: Vec<&String> = items.iter().filter_map(|item| item.key.as_ref()).collect();
        let mut known = Known::default();
        let store = self.kind.ground.store();
        let now = millis(self.kind.ground.env().unix_time());
        // One question is for the head.
        for some in wanted.chunks(store.limits().read_questions - 1) {
            let mut reads = vec![Read::Key(self.keys.head.clone())];
            reads.extend(some.iter().map(|key| Read::Key(self.keys.once(key))));
            let found = store.read(reads).await?;
            if found.key(0).map(|found| found.version) != self.version() {
                return Ok(None);
            }
            for (at, key) in some.iter().enumerate() {
                let Some(found) = found.key(at + 1) else { continue };
                let (until, answer) = once::read(&self.keys.once(key), &found.value)?;
                if until <= now {
                    known.over.insert((*key).clone(), answer);
                    continue;
                }
                let answer = match answer {
                    Answer::Here(body) => Some(body),
                    Answer::InPieces { number, .. } | Answer::Later(number) => {
                        pieces(&**store, &self.keys.pieces(number)).await?
                    }
                };
                known.answers.insert((*key).clone(), answer);
            }
        }
        Ok(Some(known))
    }

    /// Runs messages over the state, again whenever one of them fails, and builds the commit. Afterwards the state has their changes; after an error it is to be
    /// read again.
    fn fold(&mut self, plan: &mut Plan<S>, known: &Known) -> Result<(Made, Run<S>), ServerError> {
        let mut failures = 0;
        let turn = self.kind.watchdog.begin_turn(&self.slot);
        let mut run = loop {
            let Some(memory) = &mut self.memory else { return Err(forgotten()) };
            let runner = Runner {
                server: &self.kind.server,
                ground: &self.kind.ground,
                room: &self.kind.room,
                id: &self.id,
                known,
                limits: &self.limits,
                slot: &self.slot,
            };
            match runner.run(memory.state.get_mut(), &mut plan.items) {
                Ok(run) => break run,
                Err(at) => {
                    failures += 1;
                    memory.state.undo()?;
                    if failures > FAILURES_MAX {
                        self.cut(plan, at + 1);
                    }
                }
            }
        };
        drop(turn);
        for (item, came) in plan.items.iter_mut().zip(&run.came) {
            if matches!(came, Came::Failed | Came::Queued) && item.is_call() && item.waiting.is_none() {
                item.waiting = Some(self.kind.room.wait());
            }
        }
        let Some(memory) = &mut self.memory else { return Err(forgotten()) };
        let writes = memory.state.changes()?;
        let making = Making {
            kind: &self.kind,
            id: &self.id,
            keys: &self.keys,
            limits: &self.limits,
            now: self.kind.ground.env().unix_time(),
            mark: self.kind.ground.env().random_u64(),
            plan,
            run: &mut run,
            known,
        };
        let made = making.make(memory.check(&self.keys), writes)?;
        Ok((made, run))
    }
}

fn forgotten() -> ServerError {
    StoreError::unavailable("the state is to be read again").into()
}
