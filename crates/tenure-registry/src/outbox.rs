//! [`Outbox`]: brings requests of this node to whoever leads, until they are answered.
//!
//! | the leader is | a request goes |
//! | --- | --- |
//! | this node | straight to it |
//! | another that can be reached | by a link, together with all others that wait |
//! | another that can't, or this node has no links | through the store: into the registry's post; the answer comes into the session's belongings |
//! | unknown | nowhere, until there is one |
//!
//! A request that was sent and not answered is sent again when another leads, and after a while. So there are copies, which may come at any time later. Requests are numbered upwards, and with all that is sent goes the
//! least number that is still waited for: the floor. What takes a registration back is kept until the floor is above that registration's number. Whoever leads remembers the floor, and so knows each
//! copy of that registration's request for one.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tenure_store::{
    Check, Commit, CommitError, Moment, Part, Read, Store as _, StoreError, Tuple, Watch, record::Decoder,
};
use tokio::sync::{Notify, oneshot};

use crate::{
    Owner,
    batch::Change,
    member::{Member, Numbers},
    message::{Answer, Message, Requests},
    order::{Order, Source},
    wire::Undelivered,
};

/// After how long without an answer a request is sent again.
const AGAIN: Duration = Duration::from_secs(1);

/// After a failure.
const PAUSE: Duration = Duration::from_millis(20);

/// After how many failures in a row a leader counts as out of reach.
const FAILURES_MAX: u32 = 3;

/// How long the store is used then, before links are tried again.
const DETOUR: Duration = Duration::from_secs(5);

/// How many requests go into one commit.
const POSTED_MAX: usize = 32;

const FORMAT: u8 = 1;

/// The requests of this node that wait for an answer.
#[derive(Debug)]
pub(crate) struct Outbox {
    numbers: Numbers,
    state: Mutex<State>,
    told: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: BTreeMap<u64, Pending>,
    /// Those that are to be sent, in order.
    unsent: VecDeque<u64>,
    /// Those that have to wait for the floor.
    kept: BTreeSet<u64>,
    closed: bool,
}

#[derive(Debug)]
struct Pending {
    owner: Owner,
    change: Change,
    /// Who waits, if anybody does.
    waiter: Option<oneshot::Sender<Told>>,
    /// When it was last sent.
    sent: Option<Moment>,
    /// Whether it was sent at all: then it may have happened.
    tried: bool,
    /// Whether it was sent again: then there are copies, each of which may be decided otherwise.
    copied: bool,
}

/// What came of a request, and whether there are copies of it.
pub(crate) type Told = (Answer, bool);

impl Outbox {
    pub(crate) fn new(numbers: Numbers) -> Self {
        Self { numbers, state: Mutex::default(), told: Notify::new() }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Takes a request in the name of a session of this node: what `change` makes of its number. That is returned; `None` if nothing is taken any more, or the session is no more.
    pub(crate) fn submit(
        &self,
        member: &Arc<Member>,
        owner: Owner,
        waiter: Option<oneshot::Sender<Told>>,
        change: impl FnOnce(u64) -> Change,
    ) -> Option<u64> {
        if owner.session != member.ground.session().id() {
            return None;
        }
        let reign = member.reign.lock();
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        // Numbers are given and waited for under one lock: the floor never passes one that is on its way here.
        let request = self.numbers.next();
        let floor = state.floor().min(request);
        let change = change(request);
        let mut pending = Pending { owner, change, waiter, sent: None, tried: false, copied: false };
        if !pending.may_go(floor) {
            state.kept.insert(request);
        } else if state.unsent.is_empty()
            && reign.as_ref().is_some_and(|reign| reign.offer(pending.order(request, floor)))
        {
            (pending.sent, pending.tried) = (Some(member.ground.env().now()), true);
        } else {
            state.unsent.push_back(request);
            self.told.notify_one();
        }
        state.pending.insert(request, pending);
        Some(request)
    }

    /// Gives a request up. Returns whether it may have happened.
    pub(crate) fn give_up(&self, request: u64) -> bool {
        let mut state = self.state.lock();
        let tried = state.pending.remove(&request).is_none_or(|pending| pending.tried);
        self.let_go(&mut state);
        tried
    }

    /// Has those sent that had to wait for the floor, as far as it has come.
    fn let_go(&self, state: &mut State) {
        if state.let_go() {
            self.told.notify_one();
        }
    }

    /// Answers have come.
    pub(crate) fn answered(&self, member: &Arc<Member>, answers: impl IntoIterator<Item = (u64, Answer)>) {
        let mut state = self.state.lock();
        let mut told = Vec::new();
        for (request, answer) in answers {
            if answer == Answer::NotLeader {
                if let Some(pending) = state.pending.get_mut(&request)
                    && pending.sent.take().is_some()
                {
                    // Not at once: who leads may not be known there yet, or here.
                    let (asking, env) = (Arc::clone(member), member.ground.env().clone());
                    env.spawn(async move {
                        asking.ground.env().sleep(PAUSE).await;
                        asking.outbox.send_again(request);
                    });
                }
            } else if let Some(Pending { waiter: Some(waiter), copied, .. }) = state.pending.remove(&request)
            {
                told.push((waiter, (answer, copied)));
            }
        }
        self.let_go(&mut state);
        // Whoever is told may ask for something else at once, on another processor.
        drop(state);
        for (waiter, answer) in told {
            // Whoever asked may have given up.
            let _ = waiter.send(answer);
        }
    }

    fn send_again(&self, request: u64) {
        let mut state = self.state.lock();
        if state.pending.contains_key(&request) && !state.unsent.contains(&request) {
            state.line_up(request);
            self.told.notify_one();
        }
    }

    /// Takes nothing any more. Those who wait are told.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.pending.clear();
        state.unsent.clear();
        state.kept.clear();
    }
}

impl Pending {
    fn order(&self, request: u64, floor: u64) -> Order {
        let (owner, change) = (self.owner.clone(), self.change.clone());
        Order { source: Source::Here, request, floor, owner, change }
    }

    /// Whether it can be sent: what takes a registration back can when no request up to that one's is waited for.
    fn may_go(&self, floor: u64) -> bool {
        !matches!(self.change, Change::Unregister { number, .. } if number >= floor)
    }
}

impl State {
    /// The least number that is waited for. It only ever rises.
    fn floor(&self) -> u64 {
        self.pending.first_key_value().map_or(u64::MAX, |(request, _)| *request)
    }

    /// Has a request sent, in order: what was asked for later may rest on it.
    fn line_up(&mut self, request: u64) {
        let place = self.unsent.partition_point(|unsent| *unsent < request);
        self.unsent.insert(place, request);
    }

    /// Has those sent that had to wait for the floor, as far as it has come. Returns whether there are any.
    fn let_go(&mut self) -> bool {
        if self.kept.is_empty() {
            return false;
        }
        let (floor, pending) = (self.floor(), &self.pending);
        let stays = |request: &u64| pending.get(request).is_some_and(|pending| !pending.may_go(floor));
        let free: Vec<u64> = self.kept.iter().copied().filter(|request| !stays(request)).collect();
        self.kept.retain(stays);
        free.iter().for_each(|request| self.line_up(*request));
        !free.is_empty()
    }

    /// Has all sent again that were sent so long ago, in order, and drops those of sessions that are no more.
    fn renew(&mut self, me: &Owner, now: Moment, ago: Duration) {
        self.pending.retain(|_, pending| pending.owner == *me);
        self.let_go();
        let unanswered =
            self.pending.iter().filter(|(_, pending)| pending.sent.is_some_and(|sent| now - sent >= ago));
        let mut again: Vec<u64> = unanswered.map(|(request, _)| *request).collect();
        again.extend(&self.unsent);
        again.sort_unstable();
        again.dedup();
        self.unsent = again.into();
    }

    /// The next ones to be sent, and the floor.
    fn take(&mut self, bytes_max: usize, most: usize, now: Moment) -> (u64, Vec<(u64, Owner, Change)>) {
        let (floor, mut taken, mut bytes) = (self.floor(), Vec::new(), 0);
        while let Some(request) = self.unsent.front().copied() {
            let Some(pending) = self.pending.get_mut(&request) else {
                self.unsent.pop_front();
                continue;
            };
            bytes += pending.change.weight() + 16;
            if !taken.is_empty() && (bytes > bytes_max || taken.len() >= most) {
                break;
            }
            pending.copied |= pending.tried;
            (pending.sent, pending.tried) = (Some(now), true);
            taken.push((request, pending.owner.clone(), pending.change.clone()));
            self.unsent.pop_front();
        }
        (floor, taken)
    }

    /// They were not sent, for sure or maybe.
    fn put_back(&mut self, requests: impl DoubleEndedIterator<Item = u64>) {
        for request in requests.rev() {
            if let Some(pending) = self.pending.get_mut(&request) {
                pending.sent = None;
                self.unsent.push_front(request);
            }
        }
    }
}

/// Runs until its task is ended.
pub(crate) async fn run(member: Arc<Member>) {
    let env = member.ground.env().clone();
    let mut seen = member.seen.subscribe();
    let mut carrier =
        Carrier { member: Arc::clone(&member), failures: 0, detour: None, answers: None, look: false };
    let mut me = member.me();
    loop {
        if member.me() != me {
            me = member.me();
            carrier.answers = None;
            member.outbox.state.lock().renew(&me, env.now(), Duration::ZERO);
        }
        let waits = !member.outbox.state.lock().unsent.is_empty();
        if waits && !carrier.carry().await {
            env.sleep(PAUSE).await;
        }
        let pending = member.outbox.len() > 0;
        let unsent = pending && !member.outbox.state.lock().unsent.is_empty();
        tokio::select! {
            biased;
            _ = seen.changed() => {
                carrier.failures = 0;
                carrier.detour = None;
                member.outbox.state.lock().renew(&member.me(), env.now(), Duration::ZERO);
            }
            () = carrier.answered() => {}
            () = member.outbox.told.notified() => {}
            () = std::future::ready(()), if unsent && member.seen.borrow().leader().is_some() => {}
            () = env.sleep(AGAIN / 2), if pending => {
                member.outbox.state.lock().renew(&member.me(), env.now(), AGAIN);
            }
        }
    }
}

/// What carries requests.
struct Carrier {
    member: Arc<Member>,
    /// How often links have failed in a row.
    failures: u32,
    /// Until when the store is used.
    detour: Option<Moment>,
    /// Wakes when an answer to a posted request may be there.
    answers: Option<Watch>,
    /// Whether it has woken, and nobody has looked since.
    look: bool,
}

impl Carrier {
    /// Sends what waits. Returns whether to go on at once.
    async fn carry(&mut self) -> bool {
        let leader = self.member.seen.borrow().leader();
        let Some(leader) = leader else { return true };
        let now = self.member.ground.env().now();
        if leader == self.member.me() {
            return self.give(now);
        }
        self.detour = self.detour.filter(|until| *until > now);
        match self.member.wire.clone() {
            Some(wire) if self.detour.is_none() => {
                let bytes_max = wire.message_bytes_max() / 2;
                let (floor, taken) = self.member.outbox.state.lock().take(bytes_max, usize::MAX, now);
                if taken.is_empty() {
                    return true;
                }
                let numbers: Vec<u64> = taken.iter().map(|(request, ..)| *request).collect();
                let changes = taken.into_iter().map(|(request, _, change)| (request, change)).collect();
                let message = Message::Requests(Requests { floor, changes }).encode();
                let Err(error) = wire.send(&leader.node, &self.member.topic, message).await else {
                    self.failures = 0;
                    return true;
                };
                self.member.outbox.state.lock().put_back(numbers.into_iter());
                self.failures += 1;
                if matches!(error, Undelivered::Never(_)) || self.failures >= FAILURES_MAX {
                    self.detour = Some(now.after(DETOUR));
                }
                false
            }
            _ => self.post(now).await.is_ok(),
        }
    }

    /// Gives requests to the leader on this node.
    fn give(&self, now: Moment) -> bool {
        let reign = self.member.reign.lock().clone().filter(|reign| !reign.has_ended());
        let Some(reign) = reign else { return false };
        let mut state = self.member.outbox.state.lock();
        let (floor, taken) = state.take(usize::MAX, usize::MAX, now);
        for (request, owner, change) in taken {
            if !reign.offer(Order { source: Source::Here, request, floor, owner, change }) {
                state.put_back(std::iter::once(request));
                return false;
            }
        }
        true
    }

    /// Posts requests, in the store.
    async fn post(&mut self, now: Moment) -> Result<(), CommitError> {
        let member = Arc::clone(&self.member);
        let (keys, store, me) = (&member.log.keys, member.ground.store(), member.me());
        if self.answers.is_none() {
            self.answers = Some(store.watch(keys.answers(me.session)));
        }
        let bytes_max = store.limits().commit_bytes / 2;
        let (floor, taken) = member.outbox.state.lock().take(bytes_max, POSTED_MAX, now);
        if taken.is_empty() {
            return Ok(());
        }
        let mut commit = Commit::new().check(Check::Present(keys.session(me.session)));
        for (request, owner, change) in &taken {
            commit = commit.append(keys.post.clone(), Order::encode(*request, floor, owner, change));
        }
        let posted = store.commit(commit).await;
        if posted.is_err() {
            member.outbox.state.lock().put_back(taken.iter().map(|(request, ..)| *request));
        }
        posted.map(|_| ())
    }

    /// Returns when answers to posted requests were taken.
    async fn answered(&mut self) {
        let Some(answers) = &mut self.answers else { return std::future::pending().await };
        if !self.look {
            answers.changed().await;
            // Remembered: whoever drops this while it reads must not lose the waking.
            self.look = true;
        }
        match self.take_answers().await {
            Ok(()) => self.look = false,
            Err(error) => {
                tracing::debug!(name: "registry.not_read", registry = %self.member.registry, %error, "answers can't be read at present");
                self.member.ground.env().sleep(PAUSE).await;
            }
        }
    }

    async fn take_answers(&self) -> Result<(), StoreError> {
        let member = &self.member;
        let (keys, store) = (&member.log.keys, member.ground.store());
        let range = keys.answers(member.me().session);
        let limit = store.limits().commit_operations.min(store.limits().page_items) / 2;
        let found = store.read(vec![Read::Range { range, limit }]).await?;
        let mut commit = Commit::new();
        for item in &found.range(0).items {
            let answer = Decoder::all(&item.key, &item.value, FORMAT, Answer::decode)?;
            if let Some(Part::Int(request)) = Tuple::decode(&item.key)?.parts().last()
                && let Ok(request) = u64::try_from(*request)
            {
                member.outbox.answered(member, [(request, answer)]);
            }
            commit = commit.delete(item.key.clone());
        }
        if !commit.writes.is_empty() {
            // What stays is found again, and goes with the session.
            let _ = store.commit(commit).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
