//! [`Reign`]: this node's leading of a registry, in one epoch.
//!
//! # What it promises
//! - Requests are decided one after another, each by what all before it have done, and committed in groups: whatever waits goes into one batch.
//! - Nothing is answered before it is committed. What is refused is refused by names that were complete at that moment.
//! - At most one batch is under way. Its commit lands once or never: it checks that the leader's key is as it was, that the log has nothing at its position, and that the log was not shortened since.
//! - A name is registered only while the session of its owner exists, and is free when that has ended.
//! - One that retires takes nothing more, commits what it has taken, and leads no longer: in one step. One that was deposed can't commit any more; what it has taken is sent again by those who asked, to the next one.
//!
//! # What it never does
//! It never writes after another was elected, and never changes what a batch says while a copy of it may still land.

mod draft;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_store::{
    Check, Commit, CommitError, EntryId, Moment, Range, Read, Store as _, StoreError, Version, latest,
    record::Encoder,
};
use tokio::sync::{mpsc, oneshot};

use self::draft::{Decided, Draft};
use crate::{
    Owner,
    batch::{Batch, Change},
    log::{Base, encode_floors},
    member::Member,
    message::Answer,
    names::Step,
    order::{Held, Order, Source},
    pages::Pages,
    streams::Streams,
};

/// How many requests wait for a leader.
const ORDERS_MAX: usize = 65_536;

/// How many requests are taken from the post at a time.
const POST_MAX: usize = 32;

/// How many pages go into one commit, at most, and about how many bytes of them: little enough that no batch waits long for them.
const PAGES_MAX: usize = 4;
const PAGES_BYTES: usize = 64 * 1024;

/// After a failure of the store.
const PAUSE: Duration = Duration::from_millis(10);

/// Before this node leads again, if nobody else was elected: what can't be committed now, such as for want of room, can hardly be a moment later.
const AGAIN: Duration = Duration::from_millis(100);

/// How often everything is looked at, though nothing seems to have changed.
const ROUND: Duration = Duration::from_secs(5);

const FORMAT: u8 = 1;

/// This node's leading of a registry, in one epoch.
#[derive(Debug)]
pub(crate) struct Reign {
    pub(crate) epoch: u64,
    /// The version of the leader's key: what every commit checks.
    pub(crate) fence: Version,
    orders: mpsc::Sender<Order>,
    streams: Streams,
    stop: latest::Sender<Stop>,
    ended: latest::Sender<bool>,
    /// The position of the last batch that was sent to the store: it may be read there before this leader knows that it has landed.
    under_way: AtomicU64,
}

impl Reign {
    /// Begins to lead. All names must be complete as of an instant at which the leader's key had this version.
    pub(crate) fn begin(
        member: &Arc<Member>,
        epoch: u64,
        fence: Version,
        base: (Base, Option<Version>),
    ) -> Arc<Self> {
        let (orders, waiting) = mpsc::channel(ORDERS_MAX);
        let reign = Arc::new(Self {
            epoch,
            fence,
            orders,
            streams: Streams::new(epoch, member.names.position()),
            stop: latest::Sender::default(),
            ended: latest::Sender::new(false),
            under_way: AtomicU64::new(member.names.position()),
        });
        let leader = Leader {
            ended: Ended(reign.ended.clone()),
            member: Arc::clone(member),
            reign: Arc::clone(&reign),
            orders: waiting,
            waiting: VecDeque::new(),
            base: base.0,
            base_version: base.1,
            pages: Pages::new(member.flaws.short_log),
            firsts: None,
            look: Look { here: true, post: true },
        };
        let me = member.me();
        tracing::info!(name: "registry.leads", registry = %member.registry, node = %me.node, epoch, position = member.names.position(), "this node leads the registry");
        member.meters.reigns.increment(1);
        member.ground.env().spawn(leader.run());
        reign
    }

    /// Gives it a request. Returns whether it takes it.
    pub(crate) fn offer(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Lets it end when what it has taken is committed.
    pub(crate) fn retire(&self) {
        self.stop.send_if_modified(|stop| {
            let goes_on = *stop == Stop::No;
            if goes_on {
                *stop = Stop::Retire;
            }
            goes_on
        });
    }

    /// Lets it end when the batch under way is settled.
    pub(crate) fn depose(&self) {
        self.stop.send_replace(Stop::Depose);
    }

    fn stops(&self) -> bool {
        *self.stop.borrow() != Stop::No
    }

    /// Up to which position somebody may know the log: one that this leader may not have applied yet.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::SeqCst)
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Returns when it has ended.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as this.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Tells a follower how far the log is, and everything from now on.
    pub(crate) fn greet(&self, member: &Arc<Member>, follower: &Owner) {
        if follower.node != member.me().node && !self.has_ended() {
            self.streams.greet(member, &follower.node);
        }
    }
}

/// Whether a reign is to end, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stop {
    /// It goes on.
    #[default]
    No,
    /// When all that was taken is committed.
    Retire,
    /// Now: another was elected.
    Depose,
}

/// Says that a reign has ended, however it did.
struct Ended(latest::Sender<bool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// What is to be looked at.
#[derive(Debug)]
struct Look {
    /// Which sessions are there.
    here: bool,
    post: bool,
}

struct Leader {
    member: Arc<Member>,
    reign: Arc<Reign>,
    orders: mpsc::Receiver<Order>,
    waiting: VecDeque<Order>,
    base: Base,
    base_version: Option<Version>,
    pages: Pages,
    /// What pages there are, when it is read.
    firsts: Option<oneshot::Receiver<BTreeSet<String>>>,
    look: Look,
    ended: Ended,
}

/// What came of a commit.
enum Fate {
    /// It landed, in this version.
    Landed(Version),
    /// It never will.
    Deposed,
}

impl Leader {
    async fn run(mut self) {
        let env = self.member.ground.env().clone();
        let (mut stop, mut here) = (self.reign.stop.subscribe(), self.member.here.subscribe());
        let mut sessions = self.member.ground.sessions();
        let mut post = self.member.ground.store().watch(Range::Key(self.member.log.keys.post.clone()));
        let mut round = env.now();
        while !self.reign.stops() {
            // Those who were just answered, and others that wait to be run, may ask for something too: it goes into the same batch.
            tokio::task::yield_now().await;
            if round <= env.now() {
                (self.look.here, round) = (true, env.now().after(ROUND));
            }
            if let Err(error) = self.gather().await {
                tracing::debug!(name: "registry.not_gathered", registry = %self.member.registry, %error, "what is to be done can't be read at present");
                env.sleep(PAUSE).await;
            }
            let idle = self.waiting.is_empty() && !self.pages.is_at_work();
            tokio::select! {
                biased;
                _ = stop.changed() => break,
                changed = sessions.changed(), if idle => if changed.is_err() { break },
                () = post.changed() => self.look.post = true,
                _ = here.changed() => self.look.here = true,
                order = self.orders.recv(), if idle => {
                    self.waiting.extend(order);
                    continue;
                }
                () = env.sleep(round - env.now()), if idle => {}
                () = std::future::ready(()), if !idle => {}
            }
            if self.waiting.is_empty() && !self.pages.is_at_work() {
                continue;
            }
            let draft = self.draft();
            if !self.carry_out(draft).await {
                break;
            }
        }
        self.flush().await;
        tracing::info!(name: "registry.leads_no_longer", registry = %self.member.registry, epoch = self.reign.epoch, position = self.member.names.position(), "this node leads the registry no longer");
        drop(self.ended);
        env.sleep(AGAIN).await;
        // If nobody else was elected, this node leads again, from what it reads.
        while !self.reign.stops() && self.member.refresh().await.is_err() {
            env.sleep(PAUSE).await;
        }
    }

    /// Takes nothing more, and commits what was taken, if this one retires. As many as were taken are few enough to be committed soon, and whoever waits for it does so for a ttl at most.
    async fn flush(&mut self) {
        self.orders.close();
        while *self.reign.stop.borrow() == Stop::Retire {
            self.take_orders();
            if self.waiting.is_empty() {
                return;
            }
            let draft = self.draft();
            if !self.carry_out(draft).await {
                return;
            }
        }
    }

    fn take_orders(&mut self) {
        while self.waiting.len() < ORDERS_MAX {
            match self.orders.try_recv() {
                Ok(order) => self.waiting.push_back(order),
                Err(_) => break,
            }
        }
    }

    /// Finds out what is to be done.
    async fn gather(&mut self) -> Result<(), StoreError> {
        self.take_orders();
        if self.look.here {
            self.find_ended().await?;
            self.look.here = false;
        }
        if self.look.post {
            self.read_post().await?;
        }
        self.find_pages();
        Ok(())
    }

    /// Frees the names of sessions that have ended.
    async fn find_ended(&mut self) -> Result<(), StoreError> {
        let here = Arc::clone(&self.member.here.borrow());
        let gone: Vec<Arc<Owner>> =
            self.member.names.owners().into_iter().filter(|owner| !here.contains(&owner.session)).collect();
        for owner in gone {
            if crate::usher::has_ended(&self.member, owner.session).await? {
                let owner = (*owner).clone();
                let (source, change) = (Source::Nobody, Change::Ended);
                self.waiting.push_back(Order { source, request: 0, floor: 0, owner, change });
            }
        }
        Ok(())
    }

    /// Takes requests of nodes that have no link to this one.
    async fn read_post(&mut self) -> Result<(), StoreError> {
        let list = self.member.log.keys.post.clone();
        let reads = vec![Read::List { list: list.clone(), after: None, limit: POST_MAX }];
        let found = self.member.ground.store().read(reads).await?;
        let page = found.list(0);
        // What is taken is removed with its batch; until then it must not be taken again.
        let known =
            |entry: &EntryId| self.waiting.iter().any(|order| order.source == Source::Post(entry.clone()));
        let new: Vec<_> = page.items.iter().filter(|entry| !known(&entry.id)).cloned().collect();
        for entry in new {
            match Order::decode(&list, entry.id.clone(), &entry.value) {
                Ok(order) => self.waiting.push_back(order),
                Err(error) => {
                    tracing::warn!(name: "registry.not_understood", registry = %self.member.registry, %error, "a request is not understood, and removed");
                    let commit = Commit::new().remove(list.clone(), entry.id);
                    // If it is still there, it is found again.
                    let _ = self.member.ground.store().commit(commit).await;
                }
            }
        }
        self.look.post = page.more;
        Ok(())
    }

    /// Begins to shorten the log, if it is time to.
    fn find_pages(&mut self) {
        if let Some(firsts) = &mut self.firsts {
            match firsts.try_recv() {
                Ok(found) => {
                    self.pages.set_firsts(found);
                    self.firsts = None;
                }
                Err(oneshot::error::TryRecvError::Closed) => self.firsts = None,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
        } else if self.pages.needs_firsts(&self.member.names, self.base) {
            // Aside: reading all pages takes a while.
            let (told, firsts) = oneshot::channel();
            let log = self.member.log.clone();
            self.member.ground.env().spawn(async move {
                if let Ok(found) = log.firsts().await {
                    // The leader may be gone.
                    let _ = told.send(found);
                }
            });
            self.firsts = Some(firsts);
        }
        self.pages.begin(&self.member.names, self.base);
    }

    /// Decides what waits, as much as fits one commit.
    fn draft(&mut self) -> Draft {
        let names = Arc::clone(&self.member.names);
        let position = names.position() + 1;
        let limits = self.member.ground.store().limits();
        let wire = self.member.wire.as_ref().map_or(usize::MAX, |wire| wire.message_bytes_max() / 2);
        let bytes_max = (limits.value_bytes / 2).min(limits.commit_bytes / 4).min(wire);
        let at_ms = u64::try_from(self.member.ground.env().unix_time().as_millis()).unwrap_or(u64::MAX);
        let mut batch = Batch { epoch: self.reign.epoch, at_ms, ..Batch::default() };
        // The checks of leader, log and base, the batch itself, and the base with the floors and what is removed.
        let (mut bytes, mut operations) = (0, 8 + 2 * PAGES_MAX);
        let mut held = Held::new(&names, self.member.flaws);
        let mut decided = Vec::with_capacity(self.waiting.len());
        batch.changes.reserve(self.waiting.len());
        while let Some(order) = self.waiting.front() {
            let weight = order.change.weight() + order.owner.node.as_str().len() + 32;
            let costs = if matches!(order.source, Source::Post(_)) { 3 } else { 0 }
                + usize::from(!batch.has(&order.owner));
            // The end of a session may free many names, which takes all nodes a while: what waits before it need not wait for that.
            let ends = order.change == Change::Ended;
            if !decided.is_empty()
                && (ends || bytes + weight > bytes_max || operations + costs > limits.commit_operations)
            {
                break;
            }
            let Some(order) = self.waiting.pop_front() else { break };
            (bytes, operations) = (bytes + weight, operations + costs);
            let (answer, changes) = held.judge(&order, position);
            let settled = order.settles();
            let Order { source, request, owner, change, .. } = order;
            if changes {
                batch.add(&owner, settled, change);
            }
            decided.push(Decided { source, request, session: owner.session, answer });
        }
        drop(held);
        let (pages, base) = self.pages.take(&names, PAGES_BYTES, PAGES_MAX);
        let base = base.map(|base| (base, encode_floors(&names.parties())));
        Draft { position, bytes: batch.encode(bytes), batch, decided, pages, base }
    }

    /// Commits, applies, tells. Returns whether this node still leads.
    async fn carry_out(&mut self, mut draft: Draft) -> bool {
        let empty = draft.batch.changes.is_empty() && draft.pages.is_empty() && draft.base.is_none();
        let posted = draft.decided.iter().any(Decided::is_posted);
        if empty && !posted {
            // Nothing to write: it is enough to know that nobody else can have.
            if self.member.leads_for_sure() {
                let position = self.member.names.position();
                self.answer(draft.decided, position);
                return true;
            }
        }
        self.reign.under_way.store(draft.position, Ordering::SeqCst);
        let started = self.member.ground.env().now();
        let Fate::Landed(version) = self.commit(&mut draft).await else { return false };
        self.measure(&draft, started);
        if let Some((base, _)) = draft.base {
            (self.base, self.base_version) = (base, Some(version));
        }
        // First, so that all apply it at the same time.
        self.reign.streams.publish(draft.position, &draft.bytes);
        match self.member.names.apply(draft.position, draft.batch) {
            Step::Applied(moved) => {
                self.pages.note(&moved, draft.bytes.len());
                self.member.look_after(&moved);
            }
            // Somebody on this node has read it from the store before, and knows what it has changed.
            Step::Known | Step::Gap => self.pages.note_all(draft.bytes.len()),
        }
        self.answer(draft.decided, draft.position);
        true
    }

    fn measure(&self, draft: &Draft, started: Moment) {
        let meters = &self.member.meters;
        meters.commit_seconds.record(self.member.ground.env().now() - started);
        #[allow(clippy::cast_precision_loss, reason = "a batch has not that many changes")]
        meters.batch_changes.record(draft.batch.changes.len() as f64);
    }

    /// Commits a batch, once, however often it has to be sent.
    async fn commit(&self, draft: &mut Draft) -> Fate {
        let store = self.member.ground.store();
        loop {
            match store.commit(self.commit_of(draft)).await {
                Ok(receipt) => return Fate::Landed(receipt.version),
                Err(CommitError::Failed(error)) if !error.is_transient() => {
                    tracing::error!(name: "registry.not_committed", registry = %self.member.registry, %error, "a batch can't be committed");
                    return Fate::Deposed;
                }
                Err(_) => {}
            }
            loop {
                match self.find_out(draft).await {
                    Ok(Some(fate)) => return fate,
                    Ok(None) => {
                        // It is made again, and not at once: whatever was in its way may stay there.
                        self.member.ground.env().sleep(PAUSE).await;
                        break;
                    }
                    Err(_) => {
                        self.member.ground.env().sleep(PAUSE).await;
                        if self.reign.stops() && self.is_over() {
                            return Fate::Deposed;
                        }
                    }
                }
            }
        }
    }

    /// Whether the node has left.
    fn is_over(&self) -> bool {
        self.member.ground.session().ended().is_some()
    }

    fn commit_of(&self, draft: &Draft) -> Commit {
        let keys = &self.member.log.keys;
        let mut commit = Commit::new().check(Check::Absent(keys.batch(draft.position)));
        if !self.member.flaws.guard_without_epoch {
            commit = commit.check(Check::Version(keys.leader.clone(), self.reign.fence));
        }
        commit = commit.check(match self.base_version {
            Some(version) => Check::Version(keys.base.clone(), version),
            None => Check::Absent(keys.base.clone()),
        });
        for session in draft.sessions() {
            commit = commit.check(Check::Present(keys.session(session)));
        }
        commit = commit.set(keys.batch(draft.position), draft.bytes.clone());
        // A request may have been posted twice, and is answered once: by what came of it first.
        let mut answered = BTreeSet::new();
        for Decided { source, request, session, answer } in &draft.decided {
            if let Source::Post(entry) = source {
                commit = commit.remove(keys.post.clone(), entry.clone());
                if *answer != Answer::Ended && answered.insert((*session, *request)) {
                    let bytes = answer.encode(Encoder::new(FORMAT)).finish();
                    commit = commit.set(keys.answer(*session, *request), bytes);
                }
            }
        }
        for write in &draft.pages {
            let key = keys.page(&write.first);
            commit = match &write.page {
                Some(page) => commit.set(key, page.encode()),
                None => commit.delete(key),
            };
        }
        if let Some((base, floors)) = &draft.base {
            commit = commit
                .set(keys.base.clone(), base.encode())
                .set(keys.floors.clone(), floors.clone())
                .delete_range(keys.log_through(base.position));
        }
        commit
    }

    /// Finds out what became of a commit; `None` if it can be sent again, without what was asked for in the name of sessions that have ended.
    async fn find_out(&self, draft: &mut Draft) -> Result<Option<Fate>, StoreError> {
        let keys = &self.member.log.keys;
        let sessions = draft.sessions();
        let mut reads = vec![Read::Key(keys.leader.clone()), Read::Key(keys.batch(draft.position))];
        reads.extend(sessions.iter().map(|session| Read::Key(keys.session(*session))));
        let found = self.member.ground.store().read(reads).await?;
        let fenced = found.key(0).map(|leader| leader.version) != Some(self.reign.fence);
        if let Some(batch) = found.key(1) {
            let own = batch.value == draft.bytes;
            return Ok(Some(if own { Fate::Landed(batch.version) } else { Fate::Deposed }));
        }
        if fenced && !self.member.flaws.guard_without_epoch {
            return Ok(Some(Fate::Deposed));
        }
        // A session that has ended never comes back, so no copy of what was sent can land any more.
        for (at, session) in sessions.into_iter().enumerate() {
            if found.key(at + 2).is_none() {
                draft.drop_session(session);
            }
        }
        Ok(None)
    }

    /// Tells those who asked.
    fn answer(&self, decided: Vec<Decided>, position: u64) {
        let mut here = Vec::with_capacity(decided.len());
        for Decided { source, request, answer, .. } in decided {
            let answer = match answer {
                Answer::Done(_) => Answer::Done(position),
                other => other,
            };
            match source {
                Source::Here => here.push((request, answer)),
                Source::Peer(node) => self.reign.streams.answer(&self.member, &node, request, answer),
                Source::Post(_) | Source::Nobody => {}
            }
        }
        self.member.outbox.answered(&self.member, here);
    }
}

#[cfg(test)]
mod tests;
