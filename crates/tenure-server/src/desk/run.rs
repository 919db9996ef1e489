//! [`Run`]: messages folded over a state, and all that comes of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tenure_cluster::{Ground, SessionId};
use tenure_store::{Key, Limits, Name};

use super::item::{Body, Item, Origin};
use crate::{
    Context, Failure, Server, ServerError, State as _,
    context::{AfterCommit, Caller, Sent, Timer, Wishes, admit},
    effects::Wanted,
    mailroom::Mailroom,
    once::{Answer, Given, Known, Place},
    parcel::pack,
    reply::Outcome,
    watchdog::Slot,
};

/// What came of one message.
pub(crate) enum Came<S: Server> {
    /// It was handled; with the answer, if there is one now.
    Done(Option<S::Reply>),
    /// It was handled before, under the same idempotency key.
    Again(Option<Bytes>),
    /// It failed in this turn.
    Failed,
    /// It asked for locked work, and is the last.
    Locked,
    /// It goes through the queue instead.
    Queued,
}

/// All that comes of running some messages.
pub(crate) struct Run<S: Server> {
    /// What came of each, in order.
    pub(crate) came: Vec<Came<S>>,
    pub(crate) replies: BTreeMap<SessionId, Vec<(u64, Outcome)>>,
    /// What says that answers are owed which these give.
    pub(crate) paid: BTreeSet<Key>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) cancelled: Vec<Timer>,
    pub(crate) effects: Vec<Wanted>,
    pub(crate) after_commit: Vec<AfterCommit>,
    /// Answers under idempotency keys that are new.
    pub(crate) onces: BTreeMap<String, Given>,
    /// Answers to calls of before that have idempotency keys.
    pub(crate) late: Vec<(Place, Bytes)>,
    pub(crate) stop: Option<String>,
    pub(crate) delete: bool,
    /// Bytes of all that, about.
    pub(crate) weight: usize,
    /// Operations of all that, about.
    pub(crate) operations: usize,
}

impl<S: Server> Default for Run<S> {
    fn default() -> Self {
        Self {
            came: Vec::new(),
            replies: BTreeMap::new(),
            paid: BTreeSet::new(),
            sent: Vec::new(),
            cancelled: Vec::new(),
            effects: Vec::new(),
            after_commit: Vec::new(),
            onces: BTreeMap::new(),
            late: Vec::new(),
            stop: None,
            delete: false,
            weight: 0,
            operations: 0,
        }
    }
}

/// What runs messages.
pub(crate) struct Runner<'a, S: Server> {
    pub(crate) server: &'a S,
    pub(crate) ground: &'a Ground,
    pub(crate) room: &'a Arc<Mailroom>,
    pub(crate) id: &'a Name,
    /// What is kept under the idempotency keys of these messages.
    pub(crate) known: &'a Known,
    /// What the store takes: half of what a commit may hold ends the run.
    pub(crate) limits: &'a Limits,
    /// Where it says what is being run.
    pub(crate) slot: &'a Slot,
}

impl<S: Server> Runner<'_, S> {
    /// Runs messages in order, as many as fit a commit.
    ///
    /// # Errors
    /// The place of one that can't be handled in this way, and now says so: undo, and run again.
    pub(crate) fn run(&self, state: &mut S::State, items: &mut [Item<S>]) -> Result<Run<S>, usize> {
        let mut run = Run::default();
        let now = self.ground.env().unix_time();
        for (at, item) in items.iter_mut().enumerate() {
            let full = run.weight > self.limits.commit_bytes / 2
                || run.operations + state.dirty() > self.limits.commit_operations / 2;
            if full && at > 0 || run.delete || run.stop.is_some() {
                break;
            }
            match self.one(state, item, &mut run, now) {
                Ok(Came::Locked) => {
                    run.came.push(Came::Locked);
                    break;
                }
                Ok(came) => run.came.push(came),
                Err(Stop::Failed(failure)) => {
                    item.failed = Some(failure.to_string());
                    return Err(at);
                }
                Err(Stop::ThroughQueue) => {
                    item.through_queue = true;
                    return Err(at);
                }
            }
        }
        Ok(run)
    }

    fn one(
        &self,
        state: &mut S::State,
        item: &mut Item<S>,
        run: &mut Run<S>,
        now: Duration,
    ) -> Result<Came<S>, Stop> {
        // Leaving the queue, or the timer that it comes back by.
        run.operations += if item.failed.is_some() { 4 } else { 1 };
        if item.failed.is_some() {
            return Ok(Came::Failed);
        }
        if item.through_queue {
            return Ok(Came::Queued);
        }
        if let Some(key) = &item.key
            && let Some(answer) = self.known.answers.get(key).cloned().or_else(|| given(&run.onces, key))
        {
            if let (Some(to), Some(body)) = (item.to, &answer) {
                run.replies.entry(to.session()).or_default().push((to.slot, Outcome::Reply(body.clone())));
            }
            return Ok(Came::Again(answer));
        }
        if item.locked && !matches!(item.body, Body::Fold(_)) {
            return Ok(Came::Locked);
        }
        let (reply, wishes) = self.call_back(state, item, now)?;
        if wishes.lock {
            if matches!(item.origin, Origin::Local { .. }) {
                return Err(Stop::ThroughQueue);
            }
            self.grant(run, wishes);
            return Ok(Came::Locked);
        }
        let packed = match (&reply, item.to.is_some() || item.key.is_some()) {
            (Some(reply), true) => Some(pack(reply).map_err(|error| Stop::Failed(error.into()))?),
            _ => None,
        };
        if let (Some(to), Some(body)) = (item.to, &packed) {
            run.weight += body.len() + 64;
            run.replies.entry(to.session()).or_default().push((to.slot, Outcome::Reply(body.clone())));
        }
        if let Some(key) = &item.key {
            let bytes = packed.as_ref().map_or(0, Bytes::len);
            if let Err(error) = admit("an answer under an idempotency key", bytes, self.limits) {
                item.hopeless = true;
                return Err(error.into());
            }
            run.weight += key.len() + bytes;
            run.operations += 3 + bytes / self.limits.value_bytes;
            run.operations += self.known.over.get(key).map_or(0, Answer::operations);
            run.onces.insert(key.clone(), packed.map_or(Given::Later(item.id), Given::Now));
        }
        if reply.is_none() && item.address().is_some() {
            // That it is owed, and maybe when that is swept.
            run.operations += 2;
        }
        self.grant(run, wishes);
        Ok(Came::Done(reply))
    }

    /// Calls the callback of a message.
    fn call_back(
        &self,
        state: &mut S::State,
        item: &mut Item<S>,
        now: Duration,
    ) -> Result<(Option<S::Reply>, Wishes), Stop> {
        let env = self.ground.env();
        let (is_call, lockable) = (item.is_call(), lockable(item));
        let Item { waiting, to, body, .. } = item;
        let mut address = || waiting.get_or_insert_with(|| self.room.wait()).address;
        let caller = match to {
            Some(to) => Caller::At(*to),
            None if is_call => Caller::Here(&mut address),
            None => Caller::Nobody,
        };
        let mut context = Context::<'_, S> {
            env,
            keys: self.ground.keys(),
            id: self.id,
            now,
            attempt: item.attempts.len(),
            limits: *self.limits,
            message: item.id,
            key: item.key.as_deref(),
            lockable,
            caller,
            wishes: Wishes::default(),
            server: PhantomData,
        };
        let sort = match body {
            Body::Call(_) => "call",
            Body::Cast(_) => "cast",
            Body::Fold(_) => "fold",
            Body::Broken(_) => "broken",
        };
        self.slot.begin(env, sort, item.id);
        let span =
            tracing::debug_span!("server.handle", kind = S::KIND, server = %self.id, message = item.id);
        let outcome = span.in_scope(|| {
            catch_unwind(AssertUnwindSafe(|| match &*body {
                Body::Call(call) => self.server.handle_call(state, call, &mut context),
                Body::Cast(cast) => self.server.handle_cast(state, cast, &mut context).map(|()| None),
                Body::Fold(fold) => (fold.0)(state, &mut context),
                Body::Broken(words) => Err(Failure::new(words.clone())),
            }))
        });
        metrics::histogram!("tenure_server_callback_seconds", "kind" => S::KIND).record(self.slot.end(env));
        let wishes = context.wishes;
        let reply = outcome.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))).map_err(Stop::Failed)?;
        Ok((reply, wishes))
    }

    /// Adds what a callback has asked for.
    fn grant(&self, run: &mut Run<S>, wishes: Wishes) {
        run.operations += 2 * wishes.replies.len()
            + 4 * wishes.sent.len()
            + 2 * wishes.cancelled.len()
            + wishes.effects.iter().map(|it| 2 + it.body.len() / self.limits.value_bytes).sum::<usize>()
            + wishes.late.iter().map(|(_, body)| 3 + body.len() / self.limits.value_bytes).sum::<usize>();
        run.weight += wishes.replies.iter().map(|(_, outcome)| outcome.weight()).sum::<usize>()
            + wishes.sent.iter().map(|sent| 256 + sent.parcel.weight()).sum::<usize>()
            + wishes.effects.iter().map(|it| it.body.len() + 64).sum::<usize>()
            + wishes.late.iter().map(|(_, body)| body.len() + 64).sum::<usize>();
        for (place, body) in wishes.late {
            match place.key.as_ref().and_then(|key| run.onces.get_mut(key)) {
                // It is a call of this very run.
                Some(given) if self.is_own(&place) && *given == Given::Later(place.number) => {
                    *given = Given::Now(body);
                }
                _ => run.late.push((place, body)),
            }
        }
        for (to, outcome) in wishes.replies {
            run.replies.entry(to.session()).or_default().push((to.slot, outcome));
        }
        run.paid.extend(wishes.paid);
        run.sent.extend(wishes.sent);
        run.cancelled.extend(wishes.cancelled);
        run.effects.extend(wishes.effects);
        run.after_commit.extend(wishes.after_commit);
        run.stop = wishes.stop.or(run.stop.take());
        run.delete |= wishes.delete;
    }

    fn is_own(&self, place: &Place) -> bool {
        place.kind == S::KIND && place.id == self.id.as_str()
    }
}

/// The answer under a key that was given in this run, or will be.
fn given(onces: &BTreeMap<String, Given>, key: &str) -> Option<Option<Bytes>> {
    onces.get(key).map(|given| match given {
        Given::Now(body) => Some(body.clone()),
        Given::Later(_) => None,
    })
}

/// Why a message was not handled.
enum Stop {
    Failed(Failure),
    ThroughQueue,
}

fn lockable<S: Server>(item: &Item<S>) -> Result<(), &'static str> {
    match (&item.body, &item.origin) {
        (Body::Fold(_), _) => {
            Err("a fold can't lock: its server is locked already; send a cast to it, which can")
        }
        (_, Origin::Urgent { .. } | Origin::Local { urgent: true, .. }) => {
            Err("a priority message can't lock: send an ordinary one")
        }
        _ => Ok(()),
    }
}

impl From<ServerError> for Stop {
    fn from(error: ServerError) -> Self {
        Self::Failed(error.into())
    }
}
