//! [`Member`]: this node's part in one registry, and [`Members`]: in all of them.
//!
//! | task | what it does | where |
//! | --- | --- | --- |
//! | the scout | watches who leads, and keeps names up to date where no stream does | `scout.rs` |
//! | the usher | joins, and tells the elector who has gone | `usher.rs` |
//! | the receiver | takes what other members say | `receiver.rs` |
//! | the outbox | brings requests of this node to whoever leads | `outbox.rs` |
//! | the leader | commits in groups, while this node leads | `leader.rs` |
//! | the closer | closes mailboxes before the session's deadline | `mailroom.rs` |
//! | the postman | brings messages to mailboxes | `postman.rs` |

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_cluster::{Ground, SessionId};
use tenure_server::ServerRef;
use tenure_store::{Env, Moment, Name, StoreError, Version, latest};
use tokio::task::JoinHandle;

use crate::{
    Elector, Entry, Owner, RegistryError, Status, Undelivered, Wire,
    batch::Change,
    calls::Calls,
    elector::{CALL_TIME, Led, MemberId},
    flaws::Flaws,
    leader::Reign,
    log::{Base, Log},
    mailroom::Mailroom,
    message::{Message, Question, Reply},
    meters::Meters,
    names::{Moved, Names, Step},
    outbox::Outbox,
    postman::Postman,
};

/// How often a leader lets its followers hear from it.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// After how long without a word from the leader a follower reads the store itself.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);

/// Who leads, as this node saw it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) led: Led,
    /// Of the leader's key.
    pub(crate) version: Option<Version>,
}

impl Seen {
    /// The leader as an owner.
    pub(crate) fn leader(&self) -> Option<Owner> {
        self.led.leader.as_ref().and_then(MemberId::owner)
    }
}

/// This node's part in one registry.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) ground: Ground,
    pub(crate) registry: Name,
    pub(crate) elector: ServerRef<Elector>,
    pub(crate) wire: Option<Arc<dyn Wire>>,
    pub(crate) topic: Name,
    pub(crate) log: Log,
    pub(crate) names: Arc<Names>,
    pub(crate) seen: latest::Sender<Seen>,
    /// The sessions of all nodes of the cluster that are there.
    pub(crate) here: latest::Sender<Arc<std::collections::BTreeSet<SessionId>>>,
    pub(crate) outbox: Outbox,
    pub(crate) mailroom: Arc<Mailroom>,
    pub(crate) postman: Postman,
    pub(crate) reign: Mutex<Option<Arc<Reign>>>,
    pub(crate) flaws: Flaws,
    pub(crate) meters: Meters,
    /// Up to which position the log is known to be.
    pub(crate) tail: AtomicU64,
    /// When the leader was heard last.
    pub(crate) heard: Mutex<Moment>,
    /// One reads at a time: what the others wanted to know is known then, too.
    reading: tokio::sync::Mutex<()>,
    /// Whether this node takes part no longer.
    pub(crate) leaving: AtomicBool,
    /// The session in which this node took part before, and left.
    left_in: Option<SessionId>,
    calls: Calls<Reply>,
    numbers: Numbers,
}

/// Gives numbers, none twice on this node: to registrations, requests, questions and messages. So nothing that is late is taken for something else.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(Arc<AtomicU64>);

impl Numbers {
    /// They start anywhere: what was meant for a process that had this node's name before must not be taken for something of this one.
    pub(crate) fn new(env: &Env) -> Self {
        Self(Arc::new(AtomicU64::new(env.random_u64() >> 1)))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl Member {
    pub(crate) fn new(
        ground: Ground,
        registry: Name,
        elector: ServerRef<Elector>,
        wire: Option<Arc<dyn Wire>>,
        topics: (Name, Name),
        log: Log,
        members: &Members,
    ) -> Arc<Self> {
        let (numbers, flaws) = (members.numbers.clone(), members.flaws());
        let (topic, mail) = topics;
        let mailroom = Arc::new(Mailroom::default());
        Arc::new(Self {
            postman: Postman::new(ground.clone(), wire.clone(), mail, Arc::clone(&mailroom), numbers.clone()),
            seen: latest::Sender::default(),
            here: latest::Sender::default(),
            names: Arc::default(),
            outbox: Outbox::new(numbers.clone()),
            reign: Mutex::default(),
            tail: AtomicU64::new(0),
            heard: Mutex::new(ground.env().now()),
            reading: tokio::sync::Mutex::default(),
            leaving: AtomicBool::new(false),
            left_in: members.left.lock().get(&registry).copied(),
            calls: Calls::default(),
            meters: Meters::new(&registry),
            numbers,
            ground,
            registry,
            elector,
            wire,
            topic,
            log,
            mailroom,
            flaws,
        })
    }

    /// This node in its present session.
    pub(crate) fn me(&self) -> Owner {
        Owner { node: self.ground.settings().node.clone(), session: self.ground.session().id() }
    }

    /// Reads who leads and what is behind what this node knows, all of one instant. If it is this node that leads, it does so from then on, with all names.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        let tail = loop {
            let after = self.names.position();
            let tail = self.log.tail(after).await?;
            // Compared with where the reading began: names may have moved on meanwhile, by what the leader told, and still lack what was committed before it.
            if tail.base.position <= after {
                break tail;
            }
            // The log was shortened: what is missing is in pages. It is read again only if it is shortened while they are.
            let loaded = self.log.load().await?;
            let moved = self.names.replace(loaded);
            self.look_after(&moved);
        };
        for (position, bytes) in &tail.batches {
            self.apply(*position, bytes)?;
        }
        self.tail.fetch_max(self.names.position(), Ordering::SeqCst);
        let seen = Seen { led: tail.led, version: tail.version };
        self.take_office(&seen, (tail.base, tail.base_version));
        self.seen.send_if_modified(|present| {
            // What was read earlier never counts over what was read later.
            let newer = present.version < seen.version;
            if newer {
                *present = seen;
            }
            newer
        });
        Ok(())
    }

    /// Begins or ends this node's leading, by what was read of the leader's key while all names were complete.
    fn take_office(self: &Arc<Self>, seen: &Seen, base: (Base, Option<Version>)) {
        let mut reign = self.reign.lock();
        let mine = seen.leader() == Some(self.me()) && !self.leaving.load(Ordering::SeqCst);
        reign.take_if(|reign| reign.has_ended());
        if let Some(present) = &*reign {
            if mine && present.epoch >= seen.led.epoch {
                return;
            }
            if seen.version > Some(present.fence) {
                present.depose();
                *reign = None;
            }
        }
        if let (true, None, Some(version)) = (mine, &*reign, seen.version) {
            *reign = Some(Reign::begin(self, seen.led.epoch, version, base));
        }
    }

    /// Applies a batch, if it is the next. Returns whether nothing is missing before it.
    pub(crate) fn apply(self: &Arc<Self>, position: u64, bytes: &[u8]) -> Result<bool, StoreError> {
        if position <= self.names.position() {
            return Ok(true);
        }
        let batch = self.log.batch(position, bytes)?;
        match self.names.apply(position, batch) {
            Step::Applied(moved) => {
                self.look_after(&moved);
                Ok(true)
            }
            Step::Known => Ok(true),
            Step::Gap => Ok(false),
        }
    }

    /// Takes back what is registered for this session and has no mailbox: it was given up before its registration was known to have happened.
    pub(crate) fn look_after(self: &Arc<Self>, moved: &[Moved]) {
        let me = self.me();
        let own = moved.iter().filter_map(|moved| match moved {
            Moved::Joined(entry) if entry.owner.session == me.session => Some(&**entry),
            _ => None,
        });
        for entry in self.mailroom.without(own) {
            self.check(&me, entry);
        }
        self.measure();
    }

    /// Tells how many names there are, and how many batches are missing.
    #[allow(clippy::cast_precision_loss, reason = "there are not that many names")]
    pub(crate) fn measure(&self) {
        let (applied, names) = (self.names.position(), self.names.size().0);
        let lag = self.tail.load(Ordering::SeqCst).saturating_sub(applied);
        self.meters.names.set(names as f64);
        self.meters.lag_batches.set(lag as f64);
    }

    /// The same for all names of this session.
    pub(crate) fn take_back(self: &Arc<Self>) {
        let me = self.me();
        for entry in self.names.owned_by(me.session) {
            self.check(&me, &entry);
        }
    }

    /// The same for one name.
    pub(crate) fn take_back_if_abandoned(self: &Arc<Self>, name: &str) {
        if let Some(entry) = self.names.get(name) {
            self.check(&self.me(), &entry);
        }
    }

    /// Whether a name of this node has no mailbox, so that it is being taken back, or already was.
    pub(crate) fn is_abandoned(&self, name: &str) -> bool {
        self.names.get(name).is_none_or(|entry| !self.mailroom.has(entry.number))
    }

    fn check(self: &Arc<Self>, me: &Owner, entry: &Entry) {
        if *entry.owner == *me
            && !self.mailroom.has(entry.number)
            && let Ok(name) = entry.name.parse()
        {
            let number = entry.number;
            self.outbox.submit(self, me.clone(), None, |_| Change::Unregister { name, number });
        }
    }

    /// Refuses whoever asks for something of a registry that this node has left.
    pub(crate) fn admit(&self) -> Result<(), RegistryError> {
        if self.leaving.load(Ordering::SeqCst) { Err(RegistryError::Left) } else { Ok(()) }
    }

    /// Whether this node leads, proven: as long as its session holds, nobody else can. In a session in which it took part before and left, that is no proof: the elector may still hear of that.
    pub(crate) fn leads_for_sure(&self) -> bool {
        let session = self.ground.session();
        if self.leaving.load(Ordering::SeqCst) || self.left_in == Some(session.id()) {
            return false;
        }
        let reigns = self.reign.lock().as_ref().is_some_and(|reign| !reign.has_ended());
        reigns
            && !session.remaining().is_zero()
            && self.seen.borrow().leader().is_some_and(|leader| leader.session == session.id())
    }

    /// Asks another member.
    pub(crate) async fn ask(
        &self,
        to: &Name,
        question: Question,
        time: Duration,
    ) -> Result<Reply, Undelivered> {
        let Some(wire) = &self.wire else {
            return Err(Undelivered::NoWay("this node has no links".into()));
        };
        let call = self.numbers.next();
        let mut waiting = self.calls.begin(call);
        let asked = async {
            wire.send(to, &self.topic, Message::Ask(call, question).encode())
                .await
                .map_err(|error| Undelivered::Unreachable(error.to_string()))?;
            let gone = || Undelivered::Unreachable("this node takes no part any more".into());
            waiting.answer().await.ok_or_else(gone)
        };
        let reply = self.ground.env().timeout(time, asked).await;
        reply.unwrap_or_else(|_| Err(Undelivered::Unreachable(format!("{to} has not answered in time"))))
    }

    /// A reply has come.
    pub(crate) fn replied(&self, call: u64, reply: Reply) {
        self.calls.end(call, reply);
    }

    /// Answers a question of another member.
    pub(crate) async fn answer(self: &Arc<Self>, question: Question) -> Reply {
        match question {
            Question::TransferSnapshot { epoch } => Reply::Transferred(self.transfer_snapshot(epoch).await),
            Question::AssumeAndDistribute { epoch, position, members } => {
                match self.assume_and_distribute(epoch, position, &members).await {
                    Ok(()) => Reply::Assumed,
                    Err(why) => Reply::Refused(why),
                }
            }
            Question::Whereis(name) => match self.whereis_as_leader(name.as_str()).await {
                Some(entry) => Reply::Found(entry),
                None => Reply::Refused("this node does not lead, or can't prove it".into()),
            },
            Question::Status => Reply::Status(self.status()),
        }
    }

    /// Whose a name is, if this node leads for sure: with all that anybody may have read of the log before this was asked.
    pub(crate) async fn whereis_as_leader(&self, name: &str) -> Option<Option<Entry>> {
        let reign = self.reign.lock().clone()?;
        let settled = async {
            tokio::select! {
                biased;
                () = reign.ended() => {}
                () = self.names.reach(reign.under_way()) => {}
            }
        };
        self.ground.env().timeout(self.ground.request_time(), settled).await.ok()?;
        let entry = self.names.get(name).map(|entry| (*entry).clone());
        // Proven after it was read: so it was true when it was.
        self.leads_for_sure().then_some(entry)
    }

    /// Leads no longer, if it is in an epoch before this one, whose leader is elected: settles what is under way, and says up to where everything is committed.
    pub(crate) async fn transfer_snapshot(self: &Arc<Self>, epoch: u64) -> u64 {
        let reign = self.reign.lock().take_if(|reign| reign.epoch < epoch);
        if let Some(reign) = reign {
            reign.depose();
            reign.ended().await;
        }
        self.names.position()
    }

    /// Leads no longer, of its own will: commits all that it has taken before.
    pub(crate) async fn retire(&self) {
        let reign = self.reign.lock().take();
        if let Some(reign) = reign {
            reign.retire();
            reign.ended().await;
        }
    }

    /// Leads in this epoch, from the names that this node has and what is in the store behind them, and tells all members.
    pub(crate) async fn assume_and_distribute(
        self: &Arc<Self>,
        epoch: u64,
        position: u64,
        members: &[Owner],
    ) -> Result<(), String> {
        self.refresh().await.map_err(|error| error.to_string())?;
        let reign = self.reign.lock().clone();
        let Some(reign) = reign.filter(|reign| reign.epoch == epoch) else {
            let known = self.seen.borrow().led.epoch;
            return Err(format!("epoch {epoch} is outdated here, where {known} is known"));
        };
        if self.names.position() < position {
            return Err(format!("batch {position} is committed, and not in the store"));
        }
        for member in members {
            reign.greet(self, member);
        }
        Ok(())
    }

    /// How this member is.
    pub(crate) fn status(&self) -> Status {
        let (me, seen) = (self.me(), self.seen.borrow().clone());
        let applied = self.names.position();
        Status {
            leader: seen.leader(),
            epoch: seen.led.epoch,
            applied,
            tail: self.tail.load(Ordering::SeqCst).max(applied),
            names: self.names.size().0 as u64,
            own: self.names.count_of(me.session) as u64,
            waiting: self.outbox.len() as u64,
            heard: true,
            member: me,
        }
    }
}

/// What is open on this node.
#[derive(Debug)]
struct Open {
    member: Arc<Member>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(reign) = self.member.reign.lock().take() {
            reign.depose();
        }
        self.member.mailroom.close_all();
        self.member.outbox.close();
    }
}

/// This node's part in all its registries.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) ground: Ground,
    open: Mutex<BTreeMap<Name, Open>>,
    flaws: Mutex<Flaws>,
    /// The sessions in which this node has left registries.
    left: Mutex<BTreeMap<Name, SessionId>>,
    numbers: Numbers,
}

impl Members {
    pub(crate) fn new(ground: Ground) -> Self {
        let numbers = Numbers::new(ground.env());
        Self { ground, open: Mutex::default(), flaws: Mutex::default(), left: Mutex::default(), numbers }
    }

    pub(crate) fn flaws(&self) -> Flaws {
        *self.flaws.lock()
    }

    #[cfg(feature = "flaws")]
    pub(crate) fn plant(&self, flaws: Flaws) {
        *self.flaws.lock() = flaws;
    }

    /// The member of a registry that is open here, or the one that `make` makes with its tasks.
    pub(crate) fn open(
        &self,
        registry: &Name,
        make: impl FnOnce() -> (Arc<Member>, Vec<JoinHandle<()>>),
    ) -> Arc<Member> {
        let mut open = self.open.lock();
        let found = open.entry(registry.clone()).or_insert_with(|| {
            let (member, tasks) = make();
            Open { member, tasks }
        });
        Arc::clone(&found.member)
    }

    pub(crate) fn get(&self, registry: &Name) -> Option<Arc<Member>> {
        self.open.lock().get(registry).map(|open| Arc::clone(&open.member))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.open.lock().values().map(|open| Arc::clone(&open.member)).collect()
    }

    /// Whether this one is open here, and not another that came after it.
    pub(crate) fn has(&self, member: &Arc<Member>) -> bool {
        self.get(&member.registry).is_some_and(|open| Arc::ptr_eq(&open, member))
    }

    /// Ends this node's part in a registry, if it is this one.
    pub(crate) fn close(&self, member: &Arc<Member>) {
        let mut open = self.open.lock();
        if open.get(&member.registry).is_some_and(|open| Arc::ptr_eq(&open.member, member)) {
            self.left.lock().insert(member.registry.clone(), self.ground.session().id());
            open.remove(&member.registry);
        }
    }

    /// Step 2 of a change of leader: see [`Elector`].
    pub(crate) async fn transfer_snapshot(&self, registry: &Name, old: &MemberId, epoch: u64) -> Option<u64> {
        let (member, old) = (self.get(registry)?, old.owner()?);
        if old == member.me() {
            return self.ground.env().timeout(CALL_TIME, member.transfer_snapshot(epoch)).await.ok();
        }
        match member.ask(&old.node, Question::TransferSnapshot { epoch }, CALL_TIME).await {
            Ok(Reply::Transferred(position)) => Some(position),
            other => {
                tracing::debug!(name: "registry.not_transferred", %registry, %old, epoch, ?other, "the old leader has not transferred its snapshot: the new one reads the store");
                None
            }
        }
    }

    /// Step 3 of a change of leader: see [`Elector`].
    pub(crate) async fn assume_and_distribute(
        &self,
        registry: &Name,
        leader: &MemberId,
        epoch: u64,
        position: u64,
        members: Vec<Owner>,
    ) {
        let (Some(member), Some(leader)) = (self.get(registry), leader.owner()) else { return };
        let assumed = if leader == member.me() {
            let assuming = member.assume_and_distribute(epoch, position, &members);
            let assumed = self.ground.env().timeout(CALL_TIME, assuming).await;
            assumed.unwrap_or_else(|_| Err("the store has not answered in time".into()))
        } else {
            let question = Question::AssumeAndDistribute { epoch, position, members };
            match member.ask(&leader.node, question, CALL_TIME).await {
                Ok(Reply::Assumed) => Ok(()),
                Ok(other) => Err(format!("{other:?}")),
                Err(error) => Err(error.to_string()),
            }
        };
        if let Err(why) = assumed {
            tracing::debug!(name: "registry.not_assumed", %registry, %leader, epoch, why, "the new leader was not told: it finds out by itself");
        }
    }
}

#[cfg(test)]
mod tests;
