//! Making a commit that is marked in the head, and finding out what became of it though answers get lost.

use tenure_store::{
    Commit, CommitError, Conflict, Key, LaneError, Reason, Store as _, StoreError, StoreExt as _, Version,
    Versioned,
};

use super::{
    Desk,
    commit::Made,
    doubt::{Doubt, outdate},
    load::Memory,
};
use crate::{
    Server,
    births::Unborn,
    head::{Fate, Head, fate},
};

/// How a commit ended.
pub(super) enum End {
    Done(Version),
    /// Another has changed the server.
    Conflict,
    /// There is something in the queue.
    NotEmpty,
    Failed(StoreError),
    /// Nobody can say; and it may land yet.
    Unknown(Reason, Doubt),
}

impl<S: Server> Desk<S> {
    /// Makes a commit with its answers. Callers whose session has ended get none, and only first answers are kept.
    pub(super) async fn send_off(&mut self, made: &mut Made) -> End {
        loop {
            let commit = made.whole(&self.kind.ground, &self.limits);
            match self.settle_or_tell(commit, made.mark).await {
                Ok(end) => return end,
                Err(key) => {
                    let keys = self.kind.ground.keys();
                    let before = made.replies.len() + made.late.len();
                    made.replies.retain(|session, _| keys.session(*session) != key);
                    made.late.retain(|late| !late.has(&key));
                    if made.replies.len() + made.late.len() == before {
                        // A check that only answers have, and none of them has it: another's mistake.
                        return End::Conflict;
                    }
                }
            }
        }
    }

    pub(super) async fn settle(&self, commit: Commit, mark: u64) -> End {
        self.settle_or_tell(commit, mark).await.unwrap_or(End::Conflict)
    }

    /// Makes a commit that is marked in the head, and finds out what became of it though answers get lost.
    ///
    /// # Errors
    /// The key of a check that did not hold, if it is neither the head's nor the queue's.
    async fn settle_or_tell(&self, commit: Commit, mark: u64) -> Result<End, Key> {
        match &self.memory {
            Some(Memory { version: Some(version), head, .. }) => {
                self.settle_next(commit, mark, *version, head.marks.last().copied()).await
            }
            _ => self.settle_first(commit, mark).await,
        }
    }

    /// The same with the first commit to a server: its lane tells, since the head may be gone again.
    async fn settle_first(&self, commit: Commit, mark: u64) -> Result<End, Key> {
        let Unborn { error, lane } = match self.kind.births.make(commit).await {
            Ok(receipt) => return Ok(End::Done(receipt.version)),
            Err(unborn) => unborn,
        };
        match error {
            LaneError::Conflict(Conflict::Check { key, .. }) => self.meaning(key),
            LaneError::Failed(error) => Ok(End::Failed(error)),
            LaneError::OutcomeUnknown(reason) => {
                // The lane went with its session. If the server is there, it tells.
                let found = self.kind.ground.store().get(&self.keys.head).await.ok().flatten();
                let head = found.as_ref().and_then(|found| self.decode(found));
                if let (Some(found), Some(head)) = (found, head)
                    && head.marks.contains(&mark)
                {
                    return Ok(landed(&head, mark, found.version));
                }
                Ok(End::Unknown(reason, Doubt::First(lane)))
            }
            _ => {
                let words = "this node had no session for as long as was to be tried";
                Ok(End::Failed(StoreError::unavailable(words)))
            }
        }
    }

    /// The same with a commit that checks that the head is in this version, whose last mark is `base`.
    async fn settle_next(
        &self,
        commit: Commit,
        mark: u64,
        version: Version,
        base: Option<u64>,
    ) -> Result<End, Key> {
        let ground = &self.kind.ground;
        let mut pauses = ground.retry().start(ground.env());
        let mut doubt = false;
        loop {
            let conflict = match ground.store().commit(commit.clone()).await {
                Ok(receipt) => return Ok(End::Done(receipt.version)),
                Err(CommitError::Conflict(Conflict::Contention)) => {
                    if !pauses.pause().await {
                        return Ok(if doubt {
                            unsure(version)
                        } else {
                            End::Failed(StoreError::unavailable("others kept changing the store"))
                        });
                    }
                    continue;
                }
                Err(CommitError::Conflict(Conflict::Check { key, .. })) => Some(key),
                Err(CommitError::Failed(error)) if !doubt && !error.is_transient() => {
                    return Ok(End::Failed(error));
                }
                Err(CommitError::Failed(error)) => {
                    if !pauses.pause().await {
                        return Ok(if doubt { unsure(version) } else { End::Failed(error) });
                    }
                    continue;
                }
                Err(_) => {
                    doubt = true;
                    None
                }
            };
            if !doubt && let Some(key) = conflict {
                return self.meaning(key);
            }
            // A copy may have landed, or may land yet unless the head is another by now.
            loop {
                match ground.store().get(&self.keys.head).await {
                    Ok(found) if found.as_ref().map(|found| found.version) == Some(version) => {
                        if let Some(key) = conflict {
                            // Refused by something else than the head: so may its copies be, or not.
                            if key == self.keys.head {
                                break;
                            }
                            return self.void(mark, version, base).await;
                        }
                        break;
                    }
                    Ok(found) => return Ok(self.tell_fate(found.as_ref(), mark, version, base)),
                    Err(_) if pauses.pause().await => {}
                    Err(_) => return Ok(unsure(version)),
                }
            }
            if !pauses.pause().await {
                return Ok(unsure(version));
            }
        }
    }

    /// What it means that this check did not hold.
    fn meaning(&self, key: Key) -> Result<End, Key> {
        if key == self.keys.head {
            Ok(End::Conflict)
        } else if key == self.keys.queue {
            Ok(End::NotEmpty)
        } else {
            Err(key)
        }
    }

    /// A copy was refused by some check while another may be under way: makes sure that none can land any more, by changing the head.
    async fn void(&self, mark: u64, version: Version, base: Option<u64>) -> Result<End, Key> {
        let ground = &self.kind.ground;
        let mut pauses = ground.retry().start(ground.env());
        loop {
            if let Ok(Some(found)) = outdate(ground, &self.keys, version).await {
                // If it never landed, the state must be read again, and the messages run again.
                return Ok(self.tell_fate(found.as_ref(), mark, version, base));
            }
            if !pauses.pause().await {
                return Ok(unsure(version));
            }
        }
    }

    /// What the head tells that is there now, and that is another than the commit of `mark` had checked.
    fn tell_fate(&self, found: Option<&Versioned>, mark: u64, version: Version, base: Option<u64>) -> End {
        let head = found.and_then(|found| self.decode(found));
        match (fate(head.as_ref(), mark, base), head, found) {
            (Fate::Landed, Some(head), Some(found)) => landed(&head, mark, found.version),
            (Fate::Never, ..) => End::Conflict,
            _ => unsure(version),
        }
    }

    fn decode(&self, found: &Versioned) -> Option<Head> {
        Head::decode(&self.keys.head, &found.value).ok()
    }
}

/// A commit landed, and this head is there by now.
fn landed(head: &Head, mark: u64, version: Version) -> End {
    // If its state is not the present one any more, what it did is done.
    End::Done(if head.marks.last() == Some(&mark) { version } else { Version(0) })
}

fn unsure(version: Version) -> End {
    let words = "the store gave no answer for as long as was to be tried, or too much has happened since";
    End::Unknown(Reason::new(words), Doubt::Next(version))
}
