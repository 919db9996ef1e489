//! [`Births`]: why no late copy of a server's first commit can land.
//!
//! A commit to a server checks the version of its head, which never comes back. The first one can only check that there
//! is no head, and that holds again when the server was deleted: a copy of it that was under way for long would bring
//! the server back. So first commits also check a key of this node's session, which nobody else writes. When the answer
//! to one is lost, that key is changed before anything else is done: the copies under way have checked the older one.
//! Nor can they land when the session has ended, which they check too. As long as no answer is lost, this costs two
//! checks and no commit.

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_cluster::{Ground, SessionId};
use tenure_store::{Check, Commit, CommitError, Conflict, Key, Pauses, Store as _, StoreExt as _, Version};

use crate::keys;

/// The first commits of a node to servers.
#[derive(Debug)]
pub(crate) struct Births {
    ground: Ground,
    /// The version of the session's key, if it has one.
    known: Mutex<Option<(SessionId, Version)>>,
}

/// What one first commit checks besides that there is no head.
#[derive(Debug)]
pub(crate) struct Birth {
    session: SessionId,
    pub(crate) checks: [Check; 2],
}

impl Birth {
    /// Whether one of the checks is of this key.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.checks.iter().any(|check| check.key() == key)
    }
}

impl Births {
    pub(crate) fn new(ground: Ground) -> Self {
        Self { ground, known: Mutex::default() }
    }

    /// For the next first commit.
    pub(crate) fn next(&self) -> Birth {
        let session = self.ground.session().id();
        let key = keys::births(self.ground.keys(), session);
        let last = match *self.known.lock() {
            Some((of, version)) if of == session => Check::Version(key, version),
            _ => Check::Absent(key),
        };
        Birth { session, checks: [Check::Present(self.ground.keys().session(session)), last] }
    }

    /// The checks of one did not hold: finds out what to check. Returns whether that could be done.
    pub(crate) async fn renew(&self, birth: &Birth) -> bool {
        let found = self.ground.store().get(&keys::births(self.ground.keys(), birth.session)).await;
        if let Ok(Some(found)) = &found {
            self.know(birth.session, found.version);
        }
        found.is_ok()
    }

    /// Makes sure that no copy of this commit that is under way can land any more. Returns whether that is so.
    pub(crate) async fn outdate(&self, birth: &Birth, pauses: &mut Pauses) -> bool {
        let (store, key) = (self.ground.store(), keys::births(self.ground.keys(), birth.session));
        let own = Bytes::copy_from_slice(&self.ground.env().random_u64().to_be_bytes());
        let commit = Commit::new()
            .check(Check::Present(self.ground.keys().session(birth.session)))
            .set(key.clone(), own.clone());
        loop {
            match store.commit(commit.clone()).await {
                Ok(receipt) => {
                    self.know(birth.session, receipt.version);
                    return true;
                }
                // The session has ended.
                Err(CommitError::Conflict(Conflict::Check { .. })) => return true,
                Err(_) => {}
            }
            if let Ok(Some(found)) = store.get(&key).await
                && found.value == own
            {
                self.know(birth.session, found.version);
                return true;
            }
            if !pauses.pause().await {
                return false;
            }
        }
    }

    /// Of several commits of one key, the last one counts.
    fn know(&self, session: SessionId, version: Version) {
        let mut known = self.known.lock();
        let before = known.filter(|(of, _)| *of == session).map(|(_, version)| version);
        *known = Some((session, before.map_or(version, |before| before.max(version))));
    }
}
