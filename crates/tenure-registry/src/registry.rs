//! [`Registry`]: the handle.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure_server::CallOptions;
use tenure_store::{Name, latest};
use tokio::sync::oneshot;

use crate::{
    Entry, Explanation, Inbox, Led, Mailbox, Metadata, Owner, Post, Query, Registration, RegistryError,
    Spawned, Status, Subscription, Undelivered,
    batch::Change,
    elector::{Answered, Inquiry, MemberId},
    mailbox::{mailbox, pack, unpack},
    member::{Member, Members, Seen},
    message::{Question, Reply},
    names::Names,
    open::step_down,
    postman,
    request::{Words, ask},
};

/// How long something is waited for if nothing else is said.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for a name that this node is taking back.
const OWN_PAUSE: Duration = Duration::from_millis(10);

/// Names for live mailboxes, unique across the cluster. Clones are the same.
#[derive(Clone)]
pub struct Registry {
    pub(crate) member: Arc<Member>,
    members: std::sync::Weak<Members>,
}

/// Who leads; see [`Registry::leaders`].
#[derive(Debug)]
pub struct Leaders {
    seen: latest::Receiver<Seen>,
    last: Led,
}

impl Leaders {
    /// The next one; changes that come fast may be folded into one. Nothing when this node takes part no longer.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Led> {
        loop {
            let present = self.seen.borrow_and_update().led.clone();
            if present != self.last {
                self.last = present.clone();
                return Some(present);
            }
            self.seen.changed().await.ok()?;
        }
    }
}

/// Some of what a query means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In the order of names.
    pub entries: Vec<Arc<Entry>>,
    /// Where the next page begins: to be given as `after`. Nothing if this is the last.
    pub next: Option<String>,
    /// The position of the log that all of these are as of.
    pub position: u64,
}

impl Page {
    pub(crate) fn of(names: &Names, query: &Query, after: Option<&str>, limit: usize) -> Self {
        let (mut entries, position) = names.list(query, after, limit.saturating_add(1));
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.name().to_owned());
        Self { entries, next, position }
    }
}

impl Registry {
    pub(crate) fn new(member: Arc<Member>, members: &Arc<Members>) -> Self {
        Self { member, members: Arc::downgrade(members) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.member.registry
    }

    /// Returns when this node knows all names that were registered before.
    pub(crate) async fn load(&self) -> Result<(), RegistryError> {
        let mut pauses = self.member.ground.retry().start(self.member.ground.env());
        loop {
            match self.member.refresh().await {
                Ok(()) => return Ok(()),
                Err(error) if !error.is_transient() => return Err(error.into()),
                Err(error) => {
                    if !pauses.pause().await {
                        return Err(error.into());
                    }
                }
            }
        }
    }

    /// Returns when somebody leads, so that names can be registered.
    ///
    /// # Errors
    /// [`RegistryError::Unavailable`] when nobody does within `timeout`.
    pub async fn ready(&self, timeout: Duration) -> Result<(), RegistryError> {
        let mut seen = self.member.seen.subscribe();
        let led = seen.wait_for(|seen| seen.led.leader.is_some());
        match self.member.ground.env().timeout(timeout, led).await {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(RegistryError::unavailable("waiting for a leader", format!("none within {timeout:?}")))
            }
        }
    }

    /// Registers a mailbox under a name, within [`TIMEOUT`].
    ///
    /// # Errors
    /// See [`Registry::register_with`].
    ///
    /// # Cancel safety
    /// See [`Registry::register_with`].
    pub async fn register<M: Post, R: Post>(
        &self,
        name: &str,
        mailbox: &Mailbox<M, R>,
    ) -> Result<Registration, RegistryError> {
        self.register_with(name, mailbox, Metadata::new(), TIMEOUT).await
    }

    /// Registers a mailbox under a name. When it returns, the name is this one's everywhere, and this node's own look-ups show it.
    ///
    /// # Errors
    /// [`RegistryError::Taken`] when it is another's, and only then; [`RegistryError::Invalid`]; [`RegistryError::Lost`] when the mailbox is closed for good, with the session that it
    /// hangs on; [`RegistryError::Unavailable`]: it was not registered, as while the session of this node has lapsed; [`RegistryError::OutcomeUnknown`]: if it was or is yet, it is taken back;
    /// [`RegistryError::Left`].
    ///
    /// # Cancel safety
    /// Dropping the future takes the registration back, if it was made.
    pub async fn register_with<M: Post, R: Post>(
        &self,
        name: &str,
        mailbox: &Mailbox<M, R>,
        metadata: Metadata,
        timeout: Duration,
    ) -> Result<Registration, RegistryError> {
        let name: Name = name.parse()?;
        metadata.admit()?;
        let env = self.member.ground.env();
        let until = env.now().after(timeout);
        loop {
            match self.register_once(&name, mailbox, metadata.clone(), until - env.now()).await {
                // It is still that of an earlier registration of this node, which is being taken back.
                Err(RegistryError::Taken { by, .. })
                    if by == self.member.me()
                        && self.member.is_abandoned(name.as_str())
                        && env.now() < until =>
                {
                    env.sleep(OWN_PAUSE).await;
                }
                other => return other,
            }
        }
    }

    async fn register_once<M: Post, R: Post>(
        &self,
        name: &Name,
        mailbox: &Mailbox<M, R>,
        metadata: Metadata,
        timeout: Duration,
    ) -> Result<Registration, RegistryError> {
        self.member.admit()?;
        let lost = || RegistryError::Lost { name: name.to_string() };
        let hold = self.member.ground.session().hold();
        if hold.remaining().is_zero() && !mailbox.shared().is_closed() {
            let what = format!("the registration of {name}");
            return Err(RegistryError::unavailable(what, "the session of this node has lapsed"));
        }
        if !mailbox.shared().hang_on(&hold) {
            return Err(lost());
        }
        let session = hold.session().id();
        if self.member.flaws.refuse_by_hearsay
            && let Some(entry) = self.whereis(name.as_str())
        {
            return Err(RegistryError::Taken { name: name.to_string(), by: entry.owner().clone() });
        }
        let owner = Owner { node: self.member.ground.settings().node.clone(), session };
        let asked = ask(&self.member, owner, Words::new("the registration of", name), |number| {
            self.member.mailroom.add(number, session, mailbox.slot());
            Change::Register { name: name.clone(), number, metadata }
        })?;
        // From now on, whatever happens, it is taken back when this is dropped.
        let registration = Registration {
            member: Arc::clone(&self.member),
            name: name.clone(),
            number: asked.number,
            hold,
            shared: Arc::clone(mailbox.shared()),
            owned: true,
        };
        let until = self.member.ground.env().now().after(timeout);
        let (result, copied) = asked.outcome_and_copies(timeout).await;
        match result {
            Ok(()) if registration.remaining().is_zero() => Err(lost()),
            Ok(()) => Ok(registration),
            Err(refusal @ RegistryError::Taken { .. }) if copied => {
                // A copy may find the name free, and be granted: the refusal is told when that is over.
                let left = until - self.member.ground.env().now();
                registration.unregister(left).await.map_err(|error| RegistryError::OutcomeUnknown {
                    what: format!("the registration of {name} was done"),
                    why: format!("it was refused, and a copy of the request may be granted yet: {error}"),
                })?;
                Err(refusal)
            }
            Err(error @ (RegistryError::Taken { .. } | RegistryError::Unavailable { .. })) => {
                registration.forget();
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a task under a name: registers it, gives it an inbox, and takes the name back when it ends. It is dropped when the name is lost, before that can be another's.
    ///
    /// # Errors
    /// As [`Registry::register_with`]. The task is not run then.
    pub async fn spawn<M: Post, R: Post, Task: Future<Output = ()> + Send + 'static>(
        &self,
        name: &str,
        capacity: usize,
        task: impl FnOnce(Inbox<M, R>) -> Task,
    ) -> Result<Spawned, RegistryError> {
        let (mailbox, inbox) = mailbox::<M, R>(capacity);
        let registration = self.register(name, &mailbox).await?;
        let (name, shared) = (registration.name.clone(), Arc::clone(&registration.shared));
        let task = task(inbox);
        let task = self.member.ground.env().spawn(async move {
            tokio::select! {
                biased;
                () = registration.lost() => {}
                () = task => {}
            }
        });
        Ok(Spawned { name, shared, task })
    }

    /// Whose a name is, as far as this node knows. It reads memory, and takes no lock.
    #[must_use]
    pub fn whereis(&self, name: &str) -> Option<Arc<Entry>> {
        self.member.names.get(name)
    }

    /// Whose a name is, for sure: no registration that was acknowledged before this was asked is missed. The leader is asked, which proves that it still leads; if it can't be
    /// reached, the log in the store is read.
    ///
    /// # Errors
    /// [`RegistryError::Unverified`] when neither can be asked: that is not the same as that nobody has the name.
    pub async fn whereis_consistent(&self, name: &str) -> Result<Option<Arc<Entry>>, RegistryError> {
        let member = &self.member;
        let asked: Name = name.parse()?;
        if let Some(entry) = member.whereis_as_leader(name).await {
            return Ok(entry.map(Arc::new));
        }
        let leader = member.seen.borrow().leader().filter(|leader| *leader != member.me());
        if let (Some(leader), Some(_)) = (leader, &member.wire) {
            let question = Question::Whereis(asked);
            if let Ok(Reply::Found(entry)) =
                member.ask(&leader.node, question, member.ground.request_time()).await
            {
                return Ok(entry.map(Arc::new));
            }
        }
        member
            .refresh()
            .await
            .map_err(|error| RegistryError::Unverified { name: name.to_owned(), why: error.to_string() })?;
        Ok(member.names.get(name))
    }

    /// Sends a message to whoever has a name, and returns when it is in the mailbox.
    ///
    /// # Errors
    /// [`RegistryError::NotRegistered`], [`RegistryError::Undelivered`], [`RegistryError::TimedOut`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is delivered.
    pub async fn send<M: Post>(&self, name: &str, message: &M) -> Result<(), RegistryError> {
        match self.bring(name, pack(message)?, false, TIMEOUT).await? {
            postman::Outcome::Refused(why) => Err(RegistryError::Undelivered { name: name.to_owned(), why }),
            _ => Ok(()),
        }
    }

    /// Sends a message to whoever has a name, and waits for the answer.
    ///
    /// # Errors
    /// As [`Registry::send`]; [`RegistryError::TimedOut`] also when the owner did not answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer.
    pub async fn call<M: Post, R: Post>(
        &self,
        name: &str,
        message: &M,
        timeout: Duration,
    ) -> Result<R, RegistryError> {
        let undelivered = |why| RegistryError::Undelivered { name: name.to_owned(), why };
        match self.bring(name, pack(message)?, true, timeout).await? {
            postman::Outcome::Answer(body) => unpack(&body).map_err(|words| {
                RegistryError::Invalid(format!("the answer of {name} is not understood: {words}"))
            }),
            postman::Outcome::Refused(why) => Err(undelivered(why)),
            postman::Outcome::Dropped | postman::Outcome::Delivered => {
                Err(RegistryError::Unanswered { name: name.to_owned() })
            }
        }
    }

    /// Brings a message to whoever has a name, and counts what comes of it.
    async fn bring(
        &self,
        name: &str,
        body: bytes::Bytes,
        wants_reply: bool,
        timeout: Duration,
    ) -> Result<postman::Outcome, RegistryError> {
        let result = self.try_bring(name, body, wants_reply, timeout).await;
        let messages = &self.member.meters.messages;
        let outcome = match &result {
            Ok(postman::Outcome::Delivered) => &messages.delivered,
            Ok(postman::Outcome::Answer(_)) => &messages.answered,
            Ok(postman::Outcome::Dropped) => &messages.unanswered,
            Err(RegistryError::TimedOut { .. }) => &messages.timed_out,
            Ok(postman::Outcome::Refused(_)) | Err(_) => &messages.refused,
        };
        outcome.increment(1);
        result
    }

    async fn try_bring(
        &self,
        name: &str,
        body: bytes::Bytes,
        wants_reply: bool,
        timeout: Duration,
    ) -> Result<postman::Outcome, RegistryError> {
        let _: Name = name.parse()?;
        let unknown =
            || RegistryError::NotRegistered { name: name.to_owned(), position: self.member.names.position() };
        let timed_out = || RegistryError::TimedOut { name: name.to_owned() };
        let entry = self.whereis(name).ok_or_else(unknown)?;
        let (postman, env) = (&self.member.postman, self.member.ground.env());
        let until = env.now().after(timeout);
        let result = postman.send(entry.owner(), entry.number(), body.clone(), wants_reply, timeout).await;
        let undelivered = match &result {
            Some(postman::Outcome::Refused(why)) => {
                matches!(why, Undelivered::Closed | Undelivered::NoWay(_))
            }
            _ => false,
        };
        if !undelivered {
            return result.ok_or_else(timed_out);
        }
        // It was not delivered, for sure: the name may be another's by now.
        let Ok(present) = env.timeout(until - env.now(), self.whereis_consistent(name)).await else {
            return result.ok_or_else(timed_out);
        };
        let present = present?.ok_or_else(unknown)?;
        if (present.owner(), present.number()) == (entry.owner(), entry.number()) {
            return result.ok_or_else(timed_out);
        }
        let left = until - env.now();
        let again = postman.send(present.owner(), present.number(), body, wants_reply, left);
        again.await.ok_or_else(timed_out)
    }

    /// What a query means, in the order of names, behind `after`, up to `limit`. All of one page is of one instant.
    #[must_use]
    pub fn list(&self, query: &Query, after: Option<&str>, limit: usize) -> Page {
        Page::of(&self.member.names, query, after, limit)
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.member.names.size().0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What becomes of the names that a query means: first all that are there, then every change.
    #[must_use]
    pub fn subscribe(&self, query: Query) -> Subscription {
        Subscription::new(Arc::clone(&self.member.names), query)
    }

    /// All that this node knows about a name.
    ///
    /// # Errors
    /// [`RegistryError::Invalid`] when it is no [`Name`].
    pub fn explain(&self, name: &str) -> Result<Explanation, RegistryError> {
        let _: Name = name.parse()?;
        let entry = self.whereis(name);
        let now = self.member.ground.env().unix_time();
        Ok(Explanation {
            name: name.to_owned(),
            here: entry.as_ref().is_some_and(|entry| *entry.owner == self.member.me()),
            age: entry.as_ref().map(|entry| now.saturating_sub(entry.since())),
            applied: self.member.names.position(),
            epoch: self.member.names.epoch(),
            entry,
        })
    }

    /// How this member is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.member.status()
    }

    /// How all members are, as they say themselves. Those that don't answer within `timeout` are among them, unheard.
    ///
    /// # Errors
    /// When the elector can't be asked who takes part.
    pub async fn statuses(&self, timeout: Duration) -> Result<Vec<Status>, RegistryError> {
        let mut statuses = Vec::new();
        let mut asked = Vec::new();
        for owner in self.members().await? {
            if owner == self.member.me() {
                statuses.push(self.status());
                continue;
            }
            let member = Arc::clone(&self.member);
            let (told, answer) = oneshot::channel();
            self.member.ground.env().spawn(async move {
                let status = match member.ask(&owner.node, Question::Status, timeout).await {
                    Ok(Reply::Status(status)) => status,
                    _ => Status::unheard(owner),
                };
                // Whoever asked may have given up.
                let _ = told.send(status);
            });
            asked.push(answer);
        }
        for answer in asked {
            statuses.extend(answer.await);
        }
        statuses.sort_by(|one, other| one.member.node.cmp(&other.member.node));
        Ok(statuses)
    }

    /// Who leads, as the elector says.
    ///
    /// # Errors
    /// When it can't be asked.
    pub async fn leader(&self) -> Result<Led, RegistryError> {
        match self.member.elector.priority_call(Inquiry::GetLeader, CallOptions::default()).await? {
            Answered::Leader(led) => Ok(led),
            Answered::Members(_) => Err(RegistryError::Invalid("the elector answers something else".into())),
        }
    }

    /// Who leads, as this node sees it, from now on: first the present one, if there is one, then each change.
    #[must_use]
    pub fn leaders(&self) -> Leaders {
        Leaders { seen: self.member.seen.subscribe(), last: Led::default() }
    }

    /// Who takes part, as the elector says.
    ///
    /// # Errors
    /// When it can't be asked.
    pub async fn members(&self) -> Result<Vec<Owner>, RegistryError> {
        match self.member.elector.priority_call(Inquiry::GetMembers, CallOptions::default()).await? {
            Answered::Members(members) => Ok(members
                .into_iter()
                .filter_map(|(node, joined)| MemberId { node, token: joined.token }.owner())
                .collect()),
            Answered::Leader(_) => Err(RegistryError::Invalid("the elector answers something else".into())),
        }
    }

    /// Takes part no longer: all mailboxes of this node are closed, their names taken back, and if this node leads, another does. Returns when that is so, or after a little more than a ttl.
    /// A clone of one that has left changes nothing, though the registry may be open again.
    pub async fn leave(self) {
        let Some(members) = self.members.upgrade().filter(|members| members.has(&self.member)) else {
            return;
        };
        self.member.leaving.store(true, Ordering::SeqCst);
        self.member.mailroom.close_all();
        let words = Words { does: "taking back", name: None };
        // What can't be taken back now goes with the session.
        if let Ok(asked) = ask(&self.member, self.member.me(), words, |through| Change::Left { through }) {
            let _ = asked.outcome(self.member.ground.request_time()).await;
        }
        step_down(&self.member).await;
        members.close(&self.member);
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("name", self.name()).finish_non_exhaustive()
    }
}
