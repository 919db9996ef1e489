//! How what came of a run becomes one commit.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use tenure_cluster::{Ground, SessionId};
use tenure_store::{Check, Commit, Key, Limits, Name, Write};

use super::{
    item::{Body, Origin},
    plan::Plan,
    run::{Came, Run},
};
use crate::{
    Server, ServerError,
    context::Sent,
    courier::{append, entry, set_timer},
    dead, effects,
    head::Head,
    keys::{SWEEP, ServerKeys},
    kind::Kind,
    once::{self, Answer, Known, Late},
    owed,
    parcel::{Attempt, Parcel, millis},
    reply::{self, Outcome},
};

/// How much later answers that are owed are swept at least: callers rarely wait for longer than seconds.
const OWED_STEP: Duration = Duration::from_secs(60);

/// For how long a caller that waits for a later answer is told of a deletion at most.
const OWED_MOST: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a commit is made of.
pub(crate) struct Making<'a, S: Server> {
    pub(crate) kind: &'a Kind<S>,
    pub(crate) id: &'a Name,
    pub(crate) keys: &'a ServerKeys,
    pub(crate) limits: &'a Limits,
    pub(crate) now: Duration,
    pub(crate) mark: u64,
    pub(crate) plan: &'a mut Plan<S>,
    pub(crate) run: &'a mut Run<S>,
    /// What is kept under the idempotency keys of these messages.
    pub(crate) known: &'a Known,
}

/// A commit before it is made: what may change between two tries is apart.
pub(crate) struct Made {
    pub(crate) head: Head,
    /// Everything but the answers.
    pub(crate) commit: Commit,
    /// Answers by the session of their callers.
    pub(crate) replies: BTreeMap<SessionId, Vec<(u64, Outcome)>>,
    /// Answers to calls of before, for their idempotency keys, if these are still there and have none.
    pub(crate) late: Vec<Late>,
    pub(crate) mark: u64,
    /// What a flaw takes out of the commit: it is made after it.
    pub(crate) apart: Commit,
    /// Calls of this process that became dead letters in this run, by their place: the error.
    pub(crate) died: BTreeMap<usize, ServerError>,
}

impl Made {
    /// The commit with its answers, but for sessions that are gone.
    pub(crate) fn whole(&self, ground: &Ground, limits: &Limits) -> Commit {
        let mut commit = self.commit.clone();
        for (session, answers) in &self.replies {
            commit = commit.check(Check::Present(ground.keys().session(*session)));
            for (key, value) in reply::write(ground.keys(), *session, self.mark, answers, limits.value_bytes)
            {
                commit = commit.set(key, value);
            }
        }
        for late in &self.late {
            commit = commit.check(late.check.clone());
            commit.writes.extend(late.writes.iter().cloned());
        }
        commit
    }
}

impl<S: Server> Making<'_, S> {
    /// The commit that does what the run found, if `check` holds. `writes` are the changes of the state.
    pub(crate) fn make(mut self, check: Check, writes: Vec<Write>) -> Result<Made, ServerError> {
        let mut head = self.plan.head.clone();
        head.mark(self.mark);
        let mut died = BTreeMap::new();
        let mut commit = Commit::new().check(check);
        if self.plan.prove_empty && !self.kind.flaws.inline_without_proof {
            commit = commit.check(Check::Empty(self.keys.queue.clone()));
        }
        commit = self.take_from_queue(commit, &mut head);
        commit = self.take_from_urgent(commit, &mut head);
        for at in 0..self.run.came.len() {
            match self.run.came[at] {
                Came::Failed => commit = self.set_aside(commit, at, &mut head, &mut died)?,
                Came::Done(_) | Came::Again(_) => head.applied += 1,
                Came::Locked | Came::Queued => {}
            }
        }
        if let Some(why) = self.run.stop.take() {
            head.stopped = Some(why);
        }
        commit = self.owe(commit, &mut head);
        commit = self.cancel(commit)?;
        let mut apart = Commit::new();
        match self.kind.flaws.sent_apart {
            true => apart = self.send(apart),
            false => commit = self.send(commit),
        }
        for wanted in &self.run.effects {
            let session = self.kind.ground.session().id();
            let into = if self.kind.flaws.effects_apart { &mut apart } else { &mut commit };
            *into = effects::add(std::mem::take(into), self.keys, wanted, session, self.limits);
        }
        let says_so = |sent: &Sent| sent.keys.work == self.keys.work && sent.later.is_none();
        if !self.run.effects.is_empty() && !self.run.sent.iter().any(says_so) {
            commit = commit.set(self.keys.work.clone(), self.time());
        }
        for answer in self.overwritten() {
            commit = answer.forget(commit, self.keys);
        }
        for (key, given) in &self.run.onces {
            let (until, sweep) = until(self.now, S::POLICY.answers_kept, eighth(S::POLICY.answers_kept));
            let number = self.kind.ground.env().random_u64();
            let (with_pieces, record) = once::record(commit, self.keys, until, given, number, self.limits);
            commit = with_pieces.set(self.keys.once(key), record);
            commit = self.sweep_at(commit, &mut head, sweep);
        }
        if self.plan.full && !self.plan.queue.more {
            commit = commit.delete(self.keys.full.clone());
        }
        commit = self.mark_next(commit, &mut head);
        commit.writes.extend(writes);
        commit = commit.set(self.keys.head.clone(), head.encode());
        let replies = std::mem::take(&mut self.run.replies);
        let late = self.late()?;
        Ok(Made { head, commit, replies, late, mark: self.mark, apart, died })
    }

    /// Notes whom an answer is owed that comes later, so that they are told if the server is deleted before; and forgets
    /// those who get it.
    fn owe(&self, commit: Commit, head: &mut Head) -> Commit {
        let mut commit = self.run.paid.iter().cloned().fold(commit, Commit::delete);
        for (item, came) in self.plan.items.iter().zip(&self.run.came) {
            let (Came::Done(None), Some(to)) = (came, item.address()) else { continue };
            let answers = self.run.replies.get(&to.session());
            if answers.is_some_and(|answers| answers.iter().any(|(slot, _)| *slot == to.slot)) {
                continue;
            }
            let kept = Duration::from_millis(item.until_ms).saturating_sub(self.now).min(OWED_MOST);
            // Of few sorts, however many different times callers wait.
            let steps = (kept / 8).as_secs() / OWED_STEP.as_secs();
            let (until, sweep) = until(self.now, kept, OWED_STEP * (1 << steps.max(1).ilog2()));
            commit = commit.set(self.keys.owed(to.session(), to.slot), owed::record(until));
            commit = self.sweep_at(commit, head, sweep);
        }
        commit
    }

    /// Answers whose time is over, and that new ones take the place of.
    fn overwritten(&self) -> impl Iterator<Item = &Answer> {
        self.run.onces.keys().filter_map(|key| self.known.over.get(key))
    }

    /// Answers to calls of before, for their idempotency keys: the first one of each, unless its time is over.
    fn late(&mut self) -> Result<Vec<Late>, ServerError> {
        let over = self.overwritten().filter_map(|answer| match answer {
            Answer::Later(number) => Some(*number),
            Answer::Here(_) | Answer::InPieces { .. } => None,
        });
        let mut done: BTreeSet<u64> = over.collect();
        let keys = self.kind.ground.keys();
        let late = std::mem::take(&mut self.run.late).into_iter();
        let first = late.filter(|(place, _)| done.insert(place.number));
        let late = first.map(|(place, body)| Late::new(keys, &place, &body, self.limits.value_bytes));
        Ok(late.collect::<Result<_, _>>()?)
    }

    /// Claims the message at the cursor, if the run ended with its locked work; or says that the next one is run alone, if it is.
    fn mark_next(&self, mut commit: Commit, head: &mut Head) -> Commit {
        let ground = &self.kind.ground;
        if !matches!(self.run.came.last(), Some(Came::Locked)) {
            // Said in the same commit as what came before, it costs nothing.
            let mine = head.owner == Some(ground.session().id());
            if mine && head.suspects > 0 && self.plan.next.is_some() {
                head.alone = true;
                head.in_hand.clone_from(&self.plan.next);
            }
            return commit;
        }
        head.take_claim(ground.session().id());
        head.alone = false;
        let item = self.plan.items.get(self.run.came.len() - 1);
        head.in_hand = item.and_then(|item| self.plan.queue.entry_of(item));
        let origin = item.map(|item| &item.origin);
        if self.kind.flaws.removed_at_lock
            && let Some(Origin::Queue { entry, last }) = origin
        {
            head.cursor = if *last { 0 } else { head.cursor + 1 };
            if *last {
                head.in_hand = None;
                let entry = self.plan.queue.entries[*entry].id.clone();
                commit = commit.remove(self.keys.queue.clone(), entry);
            }
        }
        commit
    }

    fn time(&self) -> Bytes {
        Bytes::copy_from_slice(&millis(self.now).to_be_bytes())
    }

    /// Takes timers back; those of this very run are not set at all.
    fn cancel(&mut self, mut commit: Commit) -> Result<Commit, ServerError> {
        let mut done = BTreeSet::new();
        for timer in std::mem::take(&mut self.run.cancelled) {
            if !done.insert(timer.timer) {
                continue;
            }
            let before = self.run.sent.len();
            self.run.sent.retain(|sent| sent.later != Some((timer.at_ms, timer.timer)));
            if self.run.sent.len() == before {
                let keys = timer.keys(self.kind.ground.keys())?;
                commit = commit
                    .delete(keys.timer(timer.timer, timer.at_ms))
                    .delete(keys.due(timer.at_ms, timer.timer));
            }
        }
        Ok(commit)
    }

    /// Takes what was handled out of the queue.
    fn take_from_queue(&self, mut commit: Commit, head: &mut Head) -> Commit {
        for (item, came) in self.plan.items.iter().zip(&self.run.came) {
            if matches!(item.body, Body::Fold(_)) {
                head.claim = None;
            }
            let Origin::Queue { entry, last } = item.origin else { continue };
            if matches!(came, Came::Locked) {
                continue;
            }
            (head.alone, head.claim) = (false, None);
            head.attempts.clear();
            head.suspects = head.suspects.saturating_sub(1);
            head.in_hand = None;
            if last {
                head.cursor = 0;
                let loaded = &self.plan.queue.entries[entry];
                commit = commit.remove(self.keys.queue.clone(), loaded.id.clone());
                commit = delete_pieces(commit, self.keys, loaded.pieces);
            } else {
                head.cursor += 1;
                head.in_hand = self.plan.queue.entry_of(item);
            }
        }
        commit
    }

    /// The same with priority messages; what is left of an entry is put behind the others, since these have no order.
    fn take_from_urgent(&self, mut commit: Commit, head: &mut Head) -> Commit {
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        for item in &self.plan.items[..self.run.came.len()] {
            let Origin::Urgent { entry } = item.origin else { continue };
            *taken.entry(entry).or_default() += 1;
            if let Some(rush) = &mut head.rush {
                (rush.suspects, rush.alone) = (rush.suspects.saturating_sub(1), None);
            }
        }
        for (entry, count) in taken {
            let loaded = &self.plan.urgent.entries[entry];
            commit = commit.remove(self.keys.urgent.clone(), loaded.id.clone());
            commit = delete_pieces(commit, self.keys, loaded.pieces);
            let rest = &loaded.parcels[count..];
            if !rest.is_empty() {
                let number = self.kind.ground.env().random_u64();
                commit = append(commit, self.keys, &self.keys.urgent, rest, number, self.limits);
            }
        }
        commit
    }

    /// Puts a message that has failed aside: it comes back later, or is a dead letter.
    fn set_aside(
        &mut self,
        commit: Commit,
        at: usize,
        head: &mut Head,
        died: &mut BTreeMap<usize, ServerError>,
    ) -> Result<Commit, ServerError> {
        let item = &mut self.plan.items[at];
        let error = item.failed.clone().unwrap_or_default();
        let urgent = matches!(item.origin, Origin::Urgent { .. } | Origin::Local { urgent: true, .. });
        let node = self.kind.ground.settings().node.as_str();
        item.attempts.push(Attempt::new(self.kind.ground.env().unix_time(), node, &error));
        let parcel = item.parcel();
        item.attempts.pop();
        let parcel = parcel?;
        let attempts = parcel.attempts.len();
        if attempts < S::POLICY.tries() && !self.plan.items[at].hopeless {
            let due = millis(self.now.saturating_add(S::POLICY.pause(attempts)));
            let timer = self.kind.ground.env().random_u64().max(1);
            tracing::warn!(kind = S::KIND, server = %self.id, message = parcel.id, attempts, %error, "a message failed: it is tried again later");
            return Ok(set_timer(commit, self.keys, due, timer, &parcel, urgent, self.limits));
        }
        tracing::error!(kind = S::KIND, server = %self.id, message = parcel.id, attempts, %error, "a message failed for the last time: it is a dead letter");
        metrics::counter!("tenure_server_dead_letters_total", "kind" => S::KIND).increment(1);
        if let Some(to) = parcel.to {
            let outcome = Outcome::Failed { attempts: attempts as u64, error: error.clone() };
            self.run.replies.entry(to.session()).or_default().push((to.slot, outcome));
        }
        died.insert(at, ServerError::Failed { server: self.id.clone(), attempts: attempts as u64, error });
        head.died += 1;
        let (until, sweep) = until(self.now, S::POLICY.dead_kept, eighth(S::POLICY.dead_kept));
        let number = self.kind.ground.env().random_u64();
        let (commit, entry) = entry(commit, self.keys, std::slice::from_ref(&parcel), number, self.limits);
        let commit = commit.set(self.keys.dead(head.died), dead::record(millis(self.now), until, &entry));
        Ok(self.sweep_at(commit, head, sweep))
    }

    /// Sends what callbacks have sent.
    fn send(&mut self, mut commit: Commit) -> Commit {
        let mut bundles: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (at, sent) in self.run.sent.iter().enumerate() {
            match sent.later {
                Some((at_ms, timer)) => {
                    commit = set_timer(commit, &sent.keys, at_ms, timer, &sent.parcel, false, self.limits);
                }
                None => bundles.entry(sent.keys.queue.clone()).or_default().push(at),
            }
        }
        let now = self.time();
        for places in bundles.into_values() {
            let keys = &self.run.sent[places[0]].keys;
            let parcels: Vec<Parcel> = places.iter().map(|at| self.run.sent[*at].parcel.clone()).collect();
            commit =
                append(commit, keys, &keys.queue, &parcels, self.kind.ground.env().random_u64(), self.limits);
            commit = commit.set(keys.work.clone(), now.clone());
        }
        commit
    }

    fn sweep_at(&self, commit: Commit, head: &mut Head, at_ms: u64) -> Commit {
        if head.sweeps.contains(&at_ms) {
            return commit;
        }
        head.sweeps.push(at_ms);
        commit.set(self.keys.due(at_ms, SWEEP), Bytes::new())
    }
}

/// Until when something is kept, and when it is swept: one such step later at most.
fn until(now: Duration, kept: Duration, step: Duration) -> (u64, u64) {
    let (step, until) = (millis(step), millis(now.saturating_add(kept)));
    (until, until.div_ceil(step).saturating_mul(step))
}

/// The step of what is kept for so long, so that a server has few sweeps to come.
fn eighth(kept: Duration) -> Duration {
    (kept / 8).max(Duration::from_secs(1))
}

pub(crate) fn delete_pieces(commit: Commit, keys: &ServerKeys, pieces: Option<(u64, u64)>) -> Commit {
    let (number, count) = pieces.unwrap_or_default();
    (0..count).fold(commit, |commit, at| commit.delete(keys.piece(number, at)))
}
