//! What operators do with a server: look at it, stop and start it, unlock it, delete it, and see to its dead letters.

use std::time::Duration;

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Check, Commit, CommitError, LaneError, Pauses, Read, Snapshot, Store as _, StoreError, StoreExt as _,
};

use crate::{
    DeadLetter, Server, ServerError, ServerRef,
    dead::DeadLetters,
    desk::Memory,
    error::of_commit,
    farewell::{Farewell, TRIES_MAX, tell},
    head::Head,
    keys::{SWEEP, ServerKeys},
    parcel::{Bundle, millis},
};

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// How many messages were ever applied.
    pub applied: u64,
    /// How many messages wait, counted no further than a page.
    pub waiting: u64,
    /// How long the oldest of them waits, by the wall clock.
    pub oldest: Option<Duration>,
    /// Whether locked work is being done.
    pub is_locked: bool,
    /// Why it is stopped, if it is.
    pub stopped: Option<String>,
    /// How many dead letters there ever were.
    pub died: u64,
    /// The schema of its state.
    pub schema: u32,
}

impl<S: Server> ServerRef<S> {
    /// What is known of it; `None` if there is no such server.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn status(&self) -> Result<Option<Status>, ServerError> {
        let ground = &self.servers.ground;
        let reads = reads(&self.keys, ground.store().limits().page_items);
        let found = ground.store().read(reads.into()).await?;
        Ok(status(&self.keys, &found, 0, S::SCHEMA, ground.env().unix_time())?)
    }

    /// The dead letters behind `after`, in the order in which they died.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn dead_letters(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, ServerError> {
        self.dead().list(after, limit).await
    }

    /// Puts a dead letter back into the queue, to be tried as if it were new. Nobody waits for its answer any more. Returns whether there was such a letter.
    ///
    /// # Errors
    /// Errors of the store. After [`ServerError::OutcomeUnknown`], look whether it is still there.
    pub async fn replay(&self, number: u64) -> Result<bool, ServerError> {
        self.bury(number, true).await
    }

    /// Removes a dead letter. Returns whether there was such a letter.
    ///
    /// # Errors
    /// As [`ServerRef::replay`].
    pub async fn drop_dead_letter(&self, number: u64) -> Result<bool, ServerError> {
        self.bury(number, false).await
    }

    /// Takes the claim from whoever does locked work, if anybody does: its result is refused, and the work is done again. Returns whether there was a claim. Nobody needs
    /// this when a worker dies; it is for one that does not get on.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn unlock(&self) -> Result<bool, ServerError> {
        self.change(|head| {
            let is_locked = head.claim.is_some();
            if is_locked {
                // Whoever finds it takes it for abandoned, its own worker too.
                head.take_claim(nobody());
            }
            is_locked
        })
        .await
    }

    /// Takes no more messages from the queue, until [`ServerRef::start`]. Returns whether it was not stopped.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn stop(&self, why: &str) -> Result<bool, ServerError> {
        self.change(|head| head.stopped.replace(why.to_owned()).is_none()).await
    }

    /// Takes messages again. Returns whether it was stopped.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn start(&self) -> Result<bool, ServerError> {
        self.change(|head| head.stopped.take().is_some()).await
    }

    /// Deletes everything that the server has; those who wait for an answer are told, also those who are to get it through
    /// [`Context::reply_to`](crate::Context::reply_to). Effects that are not done are done all the same. A later message
    /// makes a new one. Returns whether there was anything.
    ///
    /// # Errors
    /// Errors of the store. It may be asked for again. After [`ServerError::OutcomeUnknown`], the server that is there may
    /// be a new one.
    pub async fn delete(&self) -> Result<bool, ServerError> {
        let ground = &self.servers.ground;
        let mut pauses = ground.retry().start(ground.env());
        // One that may have landed: what it could not take along, the error, and the mark of the head that it was made on.
        let mut open: Option<(Farewell, ServerError, Option<u64>)> = None;
        for tries in 1_u32.. {
            let Some(Deletion { commit, farewell, mut marks }) = self.deletion(tries <= TRIES_MAX).await?
            else {
                let Some((farewell, ..)) = open else { return Ok(false) };
                farewell.finish(ground).await;
                return Ok(true);
            };
            if let Some((_, error, mark)) = &open
                && mark.is_none_or(|mark| !marks.contains(&mark))
            {
                // It may be another server of this name, which nobody wanted to be deleted.
                return Err(error.clone());
            }
            match self.make(commit).await {
                Ok(()) => {
                    farewell.finish(ground).await;
                    return Ok(true);
                }
                Err(error) => {
                    let told = of_commit(&error);
                    if matches!(error, CommitError::OutcomeUnknown(_)) {
                        open = Some((farewell, told.clone(), marks.pop()));
                    }
                    pause(&mut pauses, told).await?;
                }
            }
        }
        Ok(false)
    }

    /// The commit that deletes everything, and what is to follow it.
    async fn deletion(&self, gives_way: bool) -> Result<Option<Deletion>, ServerError> {
        let (ground, store) = (&self.servers.ground, self.servers.ground.store());
        let found = store.get(&self.keys.head).await?;
        let (check, head) = match found {
            Some(found) => {
                let head = Head::decode(&self.keys.head, &found.value)?;
                (Check::Version(self.keys.head.clone(), found.version), Some(head))
            }
            None => (Check::Absent(self.keys.head.clone()), None),
        };
        let mut farewell = Farewell::read(&**store, &self.keys, head.as_ref()).await?;
        if head.is_none() && !farewell.messages {
            return Ok(None);
        }
        let sweeps = head.iter().flat_map(|head| &head.sweeps).map(|at| self.keys.due(*at, SWEEP));
        farewell.add_dues(sweeps);
        let (answers, dues) = farewell.some(&store.limits());
        let mut commit = self.keys.delete(Commit::new().check(check), farewell.effects, self.servers.flaws);
        commit.checks.extend(farewell.unchanged.take().filter(|_| gives_way));
        commit = dues.into_iter().fold(commit, Commit::delete);
        for (session, answers) in answers {
            // An answer to a session that has ended would stay: only those that are there get one.
            if store.get(&ground.keys().session(session)).await?.is_some() {
                commit = commit.check(Check::Present(ground.keys().session(session)));
                commit = tell(commit, ground, session, &answers);
            }
        }
        Ok(Some(Deletion { commit, farewell, marks: head.map(|head| head.marks).unwrap_or_default() }))
    }

    /// Makes a commit that checks the head. If there is none, a copy that comes late must not meet another server of
    /// this name.
    async fn make(&self, commit: Commit) -> Result<(), CommitError> {
        if !commit.checks.contains(&Check::Absent(self.keys.head.clone())) {
            return self.servers.ground.store().commit(commit).await.map(|_| ());
        }
        let Err(unborn) = self.servers.births.make(commit).await else { return Ok(()) };
        Err(match unborn.error {
            LaneError::Conflict(conflict) => conflict.into(),
            LaneError::OutcomeUnknown(reason) => CommitError::OutcomeUnknown(reason),
            LaneError::Failed(error) => error.into(),
            other => StoreError::unavailable(other.to_string()).into(),
        })
    }

    /// Changes the head of a server that exists, or has messages at least. Returns whether `change` said that it did.
    async fn change(&self, change: impl Fn(&mut Head) -> bool) -> Result<bool, ServerError> {
        let (ground, store) = (&self.servers.ground, self.servers.ground.store());
        let mut pauses = ground.retry().start(ground.env());
        let mut doubt = false;
        loop {
            let now = Bytes::copy_from_slice(&millis(ground.env().unix_time()).to_be_bytes());
            // One that exists keeps its state as it is, under whatever schema.
            let (mut head, check, first) = match store.get(&self.keys.head).await? {
                Some(found) => {
                    let check = Check::Version(self.keys.head.clone(), found.version);
                    (Head::decode(&self.keys.head, &found.value)?, check, None)
                }
                None if store.entries(&self.keys.queue, 1).await?.items.is_empty() => return Ok(false),
                None => {
                    let memory = Memory::<S>::load(ground, &self.id, &self.keys).await?;
                    let check = memory.check(&self.keys);
                    (memory.head, check, Some(memory.state))
                }
            };
            if !change(&mut head) {
                return Ok(doubt);
            }
            head.mark(ground.env().random_u64());
            let mut commit = Commit::new()
                .check(check)
                .set(self.keys.head.clone(), head.encode())
                .set(self.keys.work.clone(), now);
            if let Some(mut state) = first {
                commit.writes.extend(state.changes()?);
            }
            match self.make(commit).await {
                Ok(()) => return Ok(true),
                Err(error) => {
                    doubt |= matches!(error, CommitError::OutcomeUnknown(_));
                    pause(&mut pauses, of_commit(&error)).await?;
                }
            }
        }
    }

    async fn bury(&self, number: u64, replay: bool) -> Result<bool, ServerError> {
        let env = self.servers.ground.env();
        self.dead().take(number, replay, env.unix_time(), env.random_u64()).await
    }

    fn dead(&self) -> DeadLetters<'_> {
        DeadLetters { store: &**self.servers.ground.store(), keys: &self.keys }
    }
}

/// The deletion of a server.
struct Deletion {
    commit: Commit,
    /// What is to follow.
    farewell: Farewell,
    /// The marks of the head that it is made on, if there is one.
    marks: Vec<u64>,
}

/// What must be read to know the [`Status`] of a server.
pub(crate) fn reads(keys: &ServerKeys, limit: usize) -> [Read; 2] {
    [Read::Key(keys.head.clone()), Read::List { list: keys.queue.clone(), after: None, limit }]
}

/// The status of a server, whose [`reads`] begin at `index`; `schema` is that of a server without a head.
pub(crate) fn status(
    keys: &ServerKeys,
    found: &Snapshot,
    index: usize,
    schema: u32,
    now: Duration,
) -> Result<Option<Status>, StoreError> {
    let head = found.key(index).map(|found| Head::decode(&keys.head, &found.value)).transpose()?;
    let entries = &found.list(index + 1).items;
    if head.is_none() && entries.is_empty() {
        return Ok(None);
    }
    let head = head.unwrap_or_else(|| Head::new(schema));
    let (mut waiting, mut sent) = (0, None);
    for entry in entries {
        match Bundle::decode(&keys.queue, &entry.value)? {
            Bundle::Here(parcels) => {
                waiting += parcels.len() as u64;
                let skip = if sent.is_none() { usize::try_from(head.cursor).unwrap_or(0) } else { 0 };
                sent = sent.or(parcels.get(skip).map(|parcel| parcel.sent_ms));
            }
            Bundle::InPieces { .. } => waiting += 1,
        }
    }
    Ok(Some(Status {
        applied: head.applied,
        waiting: waiting - head.cursor.min(waiting),
        oldest: sent.map(|sent| now.saturating_sub(Duration::from_millis(sent))),
        is_locked: head.claim.is_some(),
        stopped: head.stopped,
        died: head.died,
        schema: head.schema,
    }))
}

/// A session that there never was.
fn nobody() -> SessionId {
    SessionId::from_bytes([0; SessionId::BYTES])
}

/// Waits before the next try.
///
/// # Errors
/// The one of the last try, if there is to be none.
async fn pause(pauses: &mut Pauses, error: ServerError) -> Result<(), ServerError> {
    let passes = !matches!(&error, ServerError::Store(error) if !error.is_transient());
    if passes && pauses.pause().await { Ok(()) } else { Err(error) }
}
