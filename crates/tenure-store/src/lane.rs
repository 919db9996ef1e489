//! [`Lane`]: commits that happen exactly once, though answers get lost.
//!
//! # What it promises
//! Every commit made through a lane that returned `Ok` happened exactly once. Every one that returned an error other than
//! [`LaneError::OutcomeUnknown`] never happened and never will, however late one of its copies arrives at the store. They happen
//! in the order in which they were made.
//!
//! # What is durable and what is local
//! Durable: one small key, holding who owns the lane, the number of the last commit made through it, and the same of the owner before, as
//! it was when the lane passed on. Local: that number, and the version in which the key was written last.
//!
//! # How
//! 1. Each commit also checks that the lane's key is still in the version that the lane knows, and writes the next number to it.
//! 2. If the answer is lost, the lane reads the key. The commit's number there: it happened, and since all that a commit
//!    writes gets one version, even its receipt is known.
//! 3. Not there: the same commit is sent again, with the same check. However many copies are under way, at most one can land.
//! 4. A copy that is refused while another may be under way proves nothing about the other. The lane then writes the
//!    number as *void*, again with the same check: once that has landed, no copy can any more, and the refusal is the answer.
//! 5. If the lane was taken over meanwhile, the new owner's mark tells what it found: the commit, which then happened, or the one before,
//!    and then it never will. Only if it has passed on twice, or its key was deleted, does the outcome stay unknown.
//!
//! # Life cycle
//! A lane is opened on a key that belongs to one session. Opening takes it over: once [`Lane::open`] has returned, no commit of an
//! earlier owner can land. A lane whose key was taken over is [`LaneError::Lost`] for good.
//!
//! # Safety and liveness
//! Safety needs nothing but the store's contract. To make progress, the store must answer now and then within the [`Retry`].
//! If it does not, the outcome stays open ([`LaneError::OutcomeUnknown`]), and the next use of the lane settles it first.
//!
//! # What it never does
//! It has no more than one commit of its own under way at a time, spawns nothing, and remembers nothing about earlier commits.

use std::{future::Future, sync::Arc};

use bytes::Bytes;

use crate::{
    Check, Commit, CommitError, Conflict, Env, Key, Reason, Receipt, Retry, Store, StoreError, StoreExt,
    Version, Versioned, retry::Pauses,
};

/// A sequence of commits, each of which happens exactly once. The module says how.
#[derive(Debug)]
pub struct Lane {
    store: Arc<dyn Store>,
    env: Env,
    retry: Retry,
    key: Key,
    /// Random, chosen at opening: tells this owner's marks from those of earlier ones.
    owner: u64,
    /// The number of the last commit whose outcome is known.
    number: u64,
    /// The version of the key after that commit; `None` while the key does not exist.
    version: Option<Version>,
    /// Whether the commit after `number` was sent and its outcome is not known.
    open: bool,
    /// What the owner before us had written last.
    before: Option<(Mark, Version)>,
    /// What must hold for it to be opened.
    opening: Vec<Check>,
}

/// How a commit ended whose outcome had been open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing was open.
    Clear,
    /// It happened.
    Landed(Receipt),
    /// It did not happen, and never will.
    Void,
}

/// Why a commit through a lane gave no receipt.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// A check did not hold. The commit never happened and never will. Read again, decide again.
    #[error(transparent)]
    Conflict(Conflict),
    /// The store gave no answer for as long as was to be tried: the commit may have happened or may happen yet, and
    /// [`Lane::settle`], or the next commit, finds out. Or the lane has passed on twice since, and nobody can tell any more.
    #[error("the outcome of a commit is unknown: {0}")]
    OutcomeUnknown(Reason),
    /// Somebody else has opened this lane. The commit never happened; nothing can be done through this lane any more.
    #[error("lane {key} now belongs to another owner: open a lane of your own")]
    Lost {
        /// The lane's key.
        key: Key,
    },
    /// It could not be done. The commit never happened and never will.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// What became of the open commit, as far as the lane's key tells.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It is not there. A copy may still land.
    Open,
    /// It happened, in this version.
    Landed(Version),
    /// It was declared void, in this version.
    Void(Version),
    /// The lane has passed on, and it never happened.
    Never,
    /// The lane has passed on too often to tell.
    Forgotten,
}

impl Lane {
    /// Opens the lane at `key`, taking it over from whoever had it.
    ///
    /// # Errors
    /// See [`LaneError`]. Opening is itself a commit through the lane; after [`LaneError::OutcomeUnknown`], open again.
    /// [`StoreError::Corrupt`] if the key holds something else than a lane.
    pub async fn open(store: Arc<dyn Store>, env: Env, key: Key, retry: Retry) -> Result<Self, LaneError> {
        Self::open_if(store, env, key, retry, Vec::new()).await
    }

    /// Opens the lane at `key` if these checks hold at that instant: whoever keeps lanes with something that may go makes sure that none comes after.
    ///
    /// # Errors
    /// As [`Lane::open`]; [`LaneError::Conflict`] when one of them does not hold.
    pub async fn open_if(
        store: Arc<dyn Store>,
        env: Env,
        key: Key,
        retry: Retry,
        checks: Vec<Check>,
    ) -> Result<Self, LaneError> {
        let mut pauses = retry.start(&env);
        loop {
            let failure = match Self::try_open(&store, &env, &key, retry, &checks).await {
                // Somebody else has opened it at the same time, or an earlier try of ours came late. Opening does nothing else, so
                // that trying again is safe even if its outcome is unknown.
                Err(error @ (LaneError::Lost { .. } | LaneError::OutcomeUnknown(_))) => error,
                Err(LaneError::Failed(error)) if error.is_transient() => LaneError::Failed(error),
                done => return done,
            };
            if !pauses.pause().await {
                return Err(failure);
            }
        }
    }

    async fn try_open(
        store: &Arc<dyn Store>,
        env: &Env,
        key: &Key,
        retry: Retry,
        checks: &[Check],
    ) -> Result<Self, LaneError> {
        let found = store.get(key).await?;
        let before = match &found {
            Some(found) => Some((Record::decode(key, &found.value)?.mark, found.version)),
            None => None,
        };
        let mut lane = Self {
            store: Arc::clone(store),
            env: env.clone(),
            retry,
            key: key.clone(),
            owner: env.random_u64(),
            number: 0,
            version: found.map(|found| found.version),
            open: false,
            before,
            opening: checks.to_vec(),
        };
        lane.commit(Commit { checks: checks.to_vec(), writes: Vec::new() }).await?;
        Ok(lane)
    }

    /// The key of the lane.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Makes one commit, exactly once.
    ///
    /// # Errors
    /// See [`LaneError`]. Only after [`LaneError::OutcomeUnknown`] may the commit have happened.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome open: [`Lane::settle`] tells it, the next commit settles it. The commit happens once
    /// or not at all.
    pub async fn commit(&mut self, commit: Commit) -> Result<Receipt, LaneError> {
        match self.settle().await {
            Ok(_) => {}
            // Not this commit's outcome is unknown but the one's before: this one was never sent.
            Err(LaneError::OutcomeUnknown(reason)) if self.open => {
                return Err(StoreError::Unavailable(reason).into());
            }
            Err(LaneError::OutcomeUnknown(_)) => return Err(self.lost()),
            Err(error) => return Err(error),
        }
        let marked = self.marked(commit, false);
        let mut pauses = self.retry.start(&self.env);
        // Whether a copy may still be under way whose outcome is not known.
        let mut doubt = false;
        self.open = true;
        loop {
            match self.store.commit(marked.clone()).await {
                Ok(receipt) => return Ok(self.advance(receipt.version)),
                Err(CommitError::OutcomeUnknown(reason)) => {
                    doubt = true;
                    match self.look(&mut pauses).await? {
                        Fate::Landed(version) => return Ok(self.advance(version)),
                        Fate::Open if pauses.pause().await => {}
                        Fate::Open => return Err(LaneError::OutcomeUnknown(reason)),
                        Fate::Void(_) | Fate::Never => return Err(self.lost()),
                        Fate::Forgotten => return Err(self.forgotten()),
                    }
                }
                Err(CommitError::Failed(error)) if error.is_transient() => {
                    if !pauses.pause().await {
                        return Err(self.give_up(doubt, error));
                    }
                }
                // Nothing says that a check failed: the same commit may well succeed.
                Err(CommitError::Conflict(Conflict::Contention)) if pauses.pause().await => {}
                Err(refusal) => return self.refused(refusal, doubt).await,
            }
        }
    }

    /// Builds a commit and makes it, exactly once; on a conflict, builds it again from what is there by then, and so on.
    ///
    /// `build` reads what it needs and returns the commit with whatever else the caller wants to know of it.
    ///
    /// # Errors
    /// See [`LaneError`]; [`LaneError::Conflict`] when it went on for as long as was to be tried. Errors of `build` are passed on,
    /// except [`StoreError::Unavailable`], which is tried again.
    ///
    /// # Cancel safety
    /// As [`Lane::commit`].
    pub async fn update<T, Build, Building>(&mut self, mut build: Build) -> Result<(Receipt, T), LaneError>
    where
        Build: FnMut() -> Building,
        Building: Future<Output = Result<(Commit, T), StoreError>>,
    {
        let mut pauses = self.retry.start(&self.env);
        loop {
            let again = match build().await {
                Ok((commit, told)) => match self.commit(commit).await {
                    Ok(receipt) => return Ok((receipt, told)),
                    Err(LaneError::Conflict(conflict)) => LaneError::Conflict(conflict),
                    Err(error) => return Err(error),
                },
                Err(error) if error.is_transient() => LaneError::Failed(error),
                Err(error) => return Err(error.into()),
            };
            if !pauses.pause().await {
                return Err(again);
            }
        }
    }

    /// Settles the commit whose outcome was left open, if there is one: learns that it happened, or makes sure that it never will.
    ///
    /// # Errors
    /// [`LaneError::OutcomeUnknown`] when it is still open, [`LaneError::Lost`] and [`LaneError::Failed`] as always.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome open.
    pub async fn settle(&mut self) -> Result<Settled, LaneError> {
        if !self.open {
            return Ok(Settled::Clear);
        }
        // Where a lane may not be opened, nothing says that it was not: that would be a key that nobody deletes.
        let checks = if self.number == 0 { self.opening.clone() } else { Vec::new() };
        let void = self.marked(Commit { checks, writes: Vec::new() }, true);
        let mut pauses = self.retry.start(&self.env);
        loop {
            match self.look(&mut pauses).await? {
                Fate::Landed(version) => return Ok(Settled::Landed(self.advance(version))),
                Fate::Void(version) => {
                    self.advance(version);
                    return Ok(Settled::Void);
                }
                Fate::Never => return Err(self.lost()),
                Fate::Forgotten => return Err(self.forgotten()),
                Fate::Open => {}
            }
            let unsettled = match self.store.commit(void.clone()).await {
                Ok(receipt) => {
                    self.advance(receipt.version);
                    return Ok(Settled::Void);
                }
                // The same keeps all copies of the opening from landing. Should one land after all, it does nothing.
                Err(CommitError::Conflict(Conflict::Check { index: 1.., .. })) => {
                    self.open = false;
                    return Ok(Settled::Void);
                }
                // The copy has just landed, or somebody has taken the lane: the next look tells.
                Err(CommitError::Conflict(conflict)) => Reason::new(conflict.to_string()),
                Err(CommitError::OutcomeUnknown(reason)) => reason,
                Err(CommitError::Failed(error)) => Reason::caused(error.to_string(), error),
            };
            if !pauses.pause().await {
                return Err(LaneError::OutcomeUnknown(unsettled));
            }
        }
    }

    /// What a refusal means: the answer, unless a copy under way could still land, or has.
    async fn refused(&mut self, refusal: CommitError, doubt: bool) -> Result<Receipt, LaneError> {
        if doubt {
            match self.settle().await? {
                Settled::Landed(receipt) => return Ok(receipt),
                Settled::Void | Settled::Clear => {}
            }
        } else {
            self.open = false;
        }
        match refusal {
            CommitError::Conflict(Conflict::Check { index: 0, .. }) if !doubt => Err(self.lost()),
            // The lane's own check is the first one; the caller knows only those behind it.
            CommitError::Conflict(Conflict::Check { index, key }) => {
                Err(LaneError::Conflict(Conflict::Check { index: index.saturating_sub(1), key }))
            }
            CommitError::Conflict(contention) => Err(LaneError::Conflict(contention)),
            CommitError::Failed(error) => Err(LaneError::Failed(error)),
            CommitError::OutcomeUnknown(reason) => Err(LaneError::OutcomeUnknown(reason)),
        }
    }

    /// `commit` with the lane's check before its own, and the lane's next mark behind its writes.
    fn marked(&self, commit: Commit, void: bool) -> Commit {
        let check = match self.version {
            Some(version) => Check::Version(self.key.clone(), version),
            None => Check::Absent(self.key.clone()),
        };
        let mark = Mark { owner: self.owner, number: self.number + 1, void };
        let record = Record { mark, before: self.before };
        Commit::new().check(check).and(commit).set(self.key.clone(), record.encode())
    }

    /// Reads what became of the commit after `number`.
    async fn look(&self, pauses: &mut Pauses) -> Result<Fate, LaneError> {
        loop {
            match self.store.get(&self.key).await {
                Ok(found) => return self.fate(found),
                Err(error) if error.is_transient() && pauses.pause().await => {}
                Err(error) => {
                    return Err(LaneError::OutcomeUnknown(Reason::caused(error.to_string(), error)));
                }
            }
        }
    }

    fn fate(&self, found: Option<Versioned>) -> Result<Fate, LaneError> {
        let version = found.as_ref().map(|found| found.version);
        if version == self.version {
            return Ok(Fate::Open);
        }
        let Some(Versioned { value, version }) = found else { return Ok(Fate::Forgotten) };
        let record = Record::decode(&self.key, &value)?;
        let ours = |mark: &Mark| mark.owner == self.owner;
        let next = self.number + 1;
        Ok(match (record.mark, record.before) {
            (mark, _) if ours(&mark) && mark.void => Fate::Void(version),
            (mark, _) if ours(&mark) => Fate::Landed(version),
            (_, Some((mark, version))) if ours(&mark) && mark.number == next && !mark.void => {
                Fate::Landed(version)
            }
            (_, Some((mark, _))) if ours(&mark) => Fate::Never,
            // It was taken over from where we had taken it over ourselves: our opening never landed.
            (_, before) if self.number == 0 && before == self.before => Fate::Never,
            _ => Fate::Forgotten,
        })
    }

    /// The commit after `number` is settled, in this version.
    fn advance(&mut self, version: Version) -> Receipt {
        debug_assert!(self.version.is_none_or(|before| before < version), "versions grow");
        self.number += 1;
        self.version = Some(version);
        self.open = false;
        Receipt { version }
    }

    fn give_up(&mut self, doubt: bool, error: StoreError) -> LaneError {
        if doubt {
            return unknown(error);
        }
        self.open = false;
        LaneError::Failed(error)
    }

    /// Nobody can tell any more. What comes after is refused as lost.
    fn forgotten(&mut self) -> LaneError {
        self.open = false;
        LaneError::OutcomeUnknown(Reason::new(format!(
            "lane {} has passed on to others, who left no trace of it",
            self.key
        )))
    }

    fn lost(&self) -> LaneError {
        LaneError::Lost { key: self.key.clone() }
    }
}

fn unknown(error: StoreError) -> LaneError {
    LaneError::OutcomeUnknown(Reason::caused(error.to_string(), error))
}

/// What an owner writes with each commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    owner: u64,
    number: u64,
    /// Whether the commit of this number was declared void.
    void: bool,
}

/// The value of a lane's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    mark: Mark,
    /// The last mark of the owner before, and its version.
    before: Option<(Mark, Version)>,
}

impl Record {
    const FORMAT: u8 = 1;

    /// The format, the mark, and if there was an owner before, its mark and version.
    fn encode(self) -> Bytes {
        let mut out = vec![Self::FORMAT];
        self.mark.encode(&mut out);
        if let Some((mark, version)) = self.before {
            mark.encode(&mut out);
            out.extend_from_slice(&version.0.to_be_bytes());
        }
        out.into()
    }

    fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        let decode = || {
            let rest = value.strip_prefix(&[Self::FORMAT])?;
            let (mark, rest) = Mark::decode(rest)?;
            if rest.is_empty() {
                return Some(Self { mark, before: None });
            }
            let (before, rest) = Mark::decode(rest)?;
            let version = Version(u64::from_be_bytes(rest.try_into().ok()?));
            Some(Self { mark, before: Some((before, version)) })
        };
        decode().ok_or_else(|| {
            StoreError::corrupt(format!("key {key} does not hold a lane: {}", value.escape_ascii()))
        })
    }
}

impl Mark {
    fn encode(self, out: &mut Vec<u8>) {
        out.push(self.void.into());
        out.extend_from_slice(&self.owner.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
    }

    fn decode(value: &[u8]) -> Option<(Self, &[u8])> {
        let (void, rest) = value.split_first()?;
        let void = match void {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (owner, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let mark = Self { owner: u64::from_be_bytes(*owner), number: u64::from_be_bytes(*number), void };
        Some((mark, rest))
    }
}
