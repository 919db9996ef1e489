//! [`Lane`]: commits that happen exactly once, though answers get lost.
//!
//! # What it promises
//! Every commit made through a lane that returned `Ok` happened exactly once. Every one that returned an error other than
//! [`LaneError::OutcomeUnknown`] never happened and never will, however late one of its copies arrives at the store. They happen
//! in the order in which they were made.
//!
//! # What is durable and what is local
//! Durable: one small key, holding who owns the lane and the number of the last commit made through it. Local: that number, and the
//! version in which the key was written last.
//!
//! # How
//! 1. Each commit also checks that the lane's key is still in the version that the lane knows, and writes the next number to it.
//! 2. If the answer is lost, the lane reads the key. The commit's number there: it happened, and since all that a commit
//!    writes gets one version, even its receipt is known.
//! 3. Not there: the same commit is sent again, with the same check. However many copies are under way, at most one can land.
//! 4. A copy that is refused while another may be under way proves nothing about the other. The lane then writes the
//!    number as *void*, again with the same check: once that has landed, no copy can any more, and the refusal is the answer.
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
    Version, retry::Pauses,
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
    /// The store gave no answer for as long as was to be tried. The commit may have happened or may happen yet;
    /// [`Lane::settle`], or the next commit, finds out.
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

/// What the lane's key says.
#[derive(Debug, PartialEq, Eq)]
enum Mark {
    /// Still what it was before the open commit.
    Before,
    /// The open commit happened, in this version.
    Landed(Version),
    /// The open commit was declared void, in this version.
    Void(Version),
    /// Written by somebody else.
    Foreign,
}

const FORMAT: u8 = 1;
const VOID: u8 = 0;
const LANDED: u8 = 1;

impl Lane {
    /// Opens the lane at `key`, taking it over from whoever had it.
    ///
    /// # Errors
    /// See [`LaneError`]. Opening is itself a commit through the lane; after [`LaneError::OutcomeUnknown`], open again.
    pub async fn open(store: Arc<dyn Store>, env: Env, key: Key, retry: Retry) -> Result<Self, LaneError> {
        let mut pauses = retry.start(&env);
        let version = loop {
            match store.get(&key).await {
                Ok(found) => break found.map(|found| found.version),
                Err(error) if error.is_transient() && pauses.pause().await => {}
                Err(error) => return Err(error.into()),
            }
        };
        let owner = env.random_u64();
        let mut lane = Self { store, env, retry, key, owner, number: 0, version, open: false };
        lane.commit(Commit::new()).await?;
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
        self.settle().await?;
        let marked = self.marked(commit, LANDED);
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
                        Mark::Landed(version) => return Ok(self.advance(version)),
                        Mark::Before if pauses.pause().await => {}
                        Mark::Before => return Err(LaneError::OutcomeUnknown(reason)),
                        Mark::Void(_) | Mark::Foreign => return Err(self.lost()),
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
        let void = self.marked(Commit::new(), VOID);
        let mut pauses = self.retry.start(&self.env);
        loop {
            match self.look(&mut pauses).await? {
                Mark::Landed(version) => return Ok(Settled::Landed(self.advance(version))),
                Mark::Void(version) => {
                    self.advance(version);
                    return Ok(Settled::Void);
                }
                Mark::Foreign => return Err(self.lost()),
                Mark::Before => {}
            }
            let unsettled = match self.store.commit(void.clone()).await {
                Ok(receipt) => {
                    self.advance(receipt.version);
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
    fn marked(&self, commit: Commit, kind: u8) -> Commit {
        let check = match self.version {
            Some(version) => Check::Version(self.key.clone(), version),
            None => Check::Absent(self.key.clone()),
        };
        Commit::new().check(check).and(commit).set(self.key.clone(), self.mark(self.number + 1, kind))
    }

    /// The value of the lane's key: format, kind, owner, number.
    fn mark(&self, number: u64, kind: u8) -> Bytes {
        let mut mark = vec![FORMAT, kind];
        mark.extend_from_slice(&self.owner.to_be_bytes());
        mark.extend_from_slice(&number.to_be_bytes());
        mark.into()
    }

    /// Reads what became of the commit after `number`.
    async fn look(&self, pauses: &mut Pauses) -> Result<Mark, LaneError> {
        let next = self.number + 1;
        loop {
            match self.store.get(&self.key).await {
                Ok(Some(found)) if found.value == self.mark(next, LANDED) => {
                    return Ok(Mark::Landed(found.version));
                }
                Ok(Some(found)) if found.value == self.mark(next, VOID) => {
                    return Ok(Mark::Void(found.version));
                }
                Ok(found) if found.as_ref().map(|found| found.version) == self.version => {
                    return Ok(Mark::Before);
                }
                Ok(_) => return Ok(Mark::Foreign),
                Err(error) if error.is_transient() && pauses.pause().await => {}
                Err(error) => {
                    return Err(LaneError::OutcomeUnknown(Reason::caused(error.to_string(), error)));
                }
            }
        }
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
            return LaneError::OutcomeUnknown(Reason::caused(error.to_string(), error));
        }
        self.open = false;
        LaneError::Failed(error)
    }

    fn lost(&self) -> LaneError {
        LaneError::Lost { key: self.key.clone() }
    }
}
