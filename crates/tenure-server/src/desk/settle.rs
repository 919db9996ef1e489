//! Making a commit that is marked in the head, and finding out what became of it though answers get lost.

use tenure_store::{
    Commit, CommitError, Conflict, Key, Reason, Store as _, StoreError, StoreExt as _, Version,
};

use super::{Desk, commit::Made};
use crate::{
    Server,
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
    Unknown(Reason),
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
        let ground = &self.kind.ground;
        let base = self.memory.as_ref().and_then(|memory| memory.head.marks.last().copied());
        let version = self.version();
        let mut pauses = ground.retry().start(ground.env());
        let mut doubt = false;
        loop {
            let birth = version.is_none().then(|| self.kind.births.next());
            let mut copy = commit.clone();
            copy.checks.extend(birth.iter().flat_map(|birth| birth.checks.iter().cloned()));
            let conflict = match ground.store().commit(copy).await {
                Ok(receipt) => return Ok(End::Done(receipt.version)),
                Err(CommitError::Conflict(Conflict::Contention)) => {
                    if !pauses.pause().await {
                        return Ok(if doubt {
                            unsure()
                        } else {
                            End::Failed(StoreError::unavailable("others kept changing the store"))
                        });
                    }
                    continue;
                }
                Err(CommitError::Conflict(Conflict::Check { key, .. })) => {
                    if let Some(birth) = birth.as_ref().filter(|birth| birth.has(&key)) {
                        // The answer to another first commit was lost meanwhile, or the session has ended.
                        self.kind.births.renew(birth).await;
                        if !pauses.pause().await {
                            let words = "this node had no session for as long as was to be tried";
                            return Ok(End::Failed(StoreError::unavailable(words)));
                        }
                        continue;
                    }
                    Some(key)
                }
                Err(CommitError::Failed(error)) if !doubt && !error.is_transient() => {
                    return Ok(End::Failed(error));
                }
                Err(CommitError::Failed(error)) => {
                    if !pauses.pause().await {
                        return Ok(if doubt { unsure() } else { End::Failed(error) });
                    }
                    continue;
                }
                Err(_) => {
                    match &birth {
                        // Then no copy is under way any more.
                        Some(birth) if self.kind.births.outdate(birth, &mut pauses).await => {}
                        Some(_) => return Ok(unsure()),
                        None => doubt = true,
                    }
                    None
                }
            };
            if !doubt && let Some(key) = conflict {
                return self.meaning(key);
            }
            // A copy may have landed, or may land yet unless the head is another by now.
            loop {
                match ground.store().get(&self.keys.head).await {
                    Ok(found) if found.as_ref().map(|found| found.version) == version => {
                        if let Some(key) = conflict {
                            // Refused by something else than the head: so may its copies be, or not.
                            if key == self.keys.head {
                                break;
                            }
                            return self.void(mark).await;
                        }
                        break;
                    }
                    Ok(found) => {
                        let head =
                            found.as_ref().and_then(|found| Head::decode(&self.keys.head, &found.value).ok());
                        return Ok(match fate(head.as_ref(), mark, base) {
                            Fate::Landed
                                if head.as_ref().is_some_and(|head| head.marks.last() == Some(&mark)) =>
                            {
                                End::Done(found.map_or(Version(0), |found| found.version))
                            }
                            // Its state is not the present one any more; what it did is done.
                            Fate::Landed => End::Done(Version(0)),
                            Fate::Never => End::Conflict,
                            Fate::Forgotten => unsure(),
                        });
                    }
                    Err(_) if pauses.pause().await => {}
                    Err(_) => return Ok(unsure()),
                }
            }
            if !pauses.pause().await {
                return Ok(unsure());
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
    async fn void(&self, mark: u64) -> Result<End, Key> {
        let Some(memory) = &self.memory else { return Ok(unsure()) };
        let ground = &self.kind.ground;
        let mut pauses = ground.retry().start(ground.env());
        loop {
            match ground.store().get(&self.keys.head).await {
                Ok(Some(found)) if Some(found.version) == memory.version => {
                    // As it is stored: a migrated state is not yet.
                    let Ok(mut head) = Head::decode(&self.keys.head, &found.value) else {
                        return Ok(unsure());
                    };
                    head.mark(ground.env().random_u64());
                    let commit = Commit::new().check(memory.check(&self.keys));
                    let commit = commit.set(self.keys.head.clone(), head.encode());
                    // Whatever comes of it, the head tells.
                    if ground.store().commit(commit).await.is_ok() {
                        continue;
                    }
                }
                Ok(found) => {
                    let head = found.and_then(|found| Head::decode(&self.keys.head, &found.value).ok());
                    return match fate(head.as_ref(), mark, memory.head.marks.last().copied()) {
                        Fate::Landed => Ok(End::Done(Version(0))),
                        // The head is another now: the state must be read again, and the messages run again.
                        Fate::Never => Ok(End::Conflict),
                        Fate::Forgotten => Ok(unsure()),
                    };
                }
                Err(_) => {}
            }
            if !pauses.pause().await {
                return Ok(unsure());
            }
        }
    }
}

fn unsure() -> End {
    End::Unknown(Reason::new(
        "the store gave no answer for as long as was to be tried, or too much has happened since",
    ))
}
