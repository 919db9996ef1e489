//! Sessions for programs that are no nodes: one heartbeat for all that a program leads.

use std::time::Duration;

use tenure_store::{Check, Commit, CommitError, Conflict, Name, Read, StoreError};

use super::{Held, LEASING, LeaseAnswer, Leases, PLACE, Step, admit_ttl};
use crate::{
    Cause, ClusterError, Holder, SessionId, Term, TermEnd,
    cluster::admit_election,
    session::{Beat, Evidence, Identity, end},
};

/// A session of a program that is no node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseSession {
    /// Its id. Whoever knows it can act for it.
    pub id: SessionId,
    /// What the program calls itself.
    pub name: Name,
    /// How long it lives without being renewed.
    pub ttl: Duration,
}

impl Leases {
    /// Begins a session, under which a program can take part in any number of elections.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a ttl that no session may have; errors of the store. One that nobody heard of ends with its ttl.
    pub async fn open(&self, name: &Name, ttl: Duration) -> Result<LeaseSession, ClusterError> {
        admit_ttl(ttl)?;
        let (keys, id) = (&self.node.keys, SessionId::random_lease(&self.node.env));
        let liveness_window = ttl * 2 / 3;
        let identity = Identity { node: name.clone(), ttl, liveness_window, place: PLACE.to_owned() };
        let commit = Commit::new()
            .check(Check::Absent(keys.session(id)))
            .set(keys.session(id), identity.encode())
            .set(keys.beat(id), Beat { renewals: 0, at: self.node.env.unix_time() }.encode());
        let mut pauses = self.node.retry().start(&self.node.env);
        let mut doubt = false;
        loop {
            match self.node.bounded(LEASING, self.node.store.commit(commit.clone())).await {
                Ok(Ok(_)) => break,
                // The id is random: only the same commit can have been before.
                Ok(Err(CommitError::Conflict(Conflict::Check { .. }))) if doubt => break,
                Ok(Err(CommitError::OutcomeUnknown(_))) | Err(_) if pauses.pause().await => doubt = true,
                Ok(Err(error)) => return Err(error.into()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(LeaseSession { id, name: name.clone(), ttl })
    }

    /// Renews a session; `None` if it has ended.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn renew(&self, id: SessionId) -> Result<Option<LeaseSession>, ClusterError> {
        let Some((identity, beat)) = self.session(id).await? else { return Ok(None) };
        let keys = &self.node.keys;
        let beat = Beat { renewals: beat.renewals + 1, at: self.node.env.unix_time() };
        let commit = Commit::new().check(Check::Present(keys.session(id))).set(keys.beat(id), beat.encode());
        match self.node.bounded(LEASING, self.node.store.commit(commit)).await? {
            Ok(_) => Ok(Some(LeaseSession { id, name: identity.node, ttl: identity.ttl })),
            Err(CommitError::Conflict(Conflict::Check { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a session, and with it all that hangs on it. Returns whether it was there.
    ///
    /// # Errors
    /// Errors of the store. It may be asked for again.
    pub async fn close(&self, id: SessionId) -> Result<bool, ClusterError> {
        if self.session(id).await?.is_none() {
            return Ok(false);
        }
        end(&self.node, id, Evidence::Certain, Cause::Left).await?;
        Ok(true)
    }

    /// Takes an office for a session if it is free and nobody waits for it; `None` if the session has ended.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for an election that is Tenure's own; errors of the store.
    pub async fn claim_for(
        &self,
        id: SessionId,
        election: &Name,
    ) -> Result<Option<LeaseAnswer>, ClusterError> {
        admit_election(election)?;
        let Some((identity, beat)) = self.session(id).await? else { return Ok(None) };
        let session = Check::Present(self.node.keys.session(id));
        let answer = self.decide(election, |found| match &found.held {
            Some(held) if held.session == id => {
                // Nothing is to be changed, but the answer must be true when it is given.
                let same = Commit { checks: found.checks(), writes: Vec::new() }.check(session.clone());
                let term = Term(found.office.term);
                Step::Commit(Box::new(same), Some((held.node.clone(), term, held.identity.ttl)))
            }
            Some(held) => Step::Denied(Some(held.node.clone()), held.identity.ttl / 3),
            None if found.waits.is_some() => {
                Step::Denied(found.waits.clone(), self.node.settings.renewal_interval / 3)
            }
            None => {
                let since = self.node.env.unix_time();
                let next =
                    Holder { node: identity.node.clone(), session: id, since, renewals: beat.renewals };
                let office = found.office.pass_to(next, TermEnd::SessionEnded(None));
                let commit = Commit { checks: found.checks(), writes: Vec::new() }
                    .check(session.clone())
                    .set(found.key.clone(), office.encode());
                let granted = (identity.node.clone(), Term(office.term), identity.ttl);
                Step::Commit(Box::new(commit), Some(granted))
            }
        });
        match answer.await {
            Ok(answer) => Ok(Some(answer)),
            // Conflicts without end are what a session that has ended looks like.
            Err(error) => match self.session(id).await? {
                Some(_) => Err(error),
                None => Ok(None),
            },
        }
    }

    /// Gives up an office that a session holds; in this term, if one is named. Denied is the usual answer: it is not held any more.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn resign_for(
        &self,
        id: SessionId,
        election: &Name,
        term: Option<Term>,
    ) -> Result<LeaseAnswer, ClusterError> {
        let is_own =
            |held: &Held, present: u64| held.session == id && term.is_none_or(|term| term.0 == present);
        self.decide(election, |found| match &found.held {
            Some(held) if is_own(held, found.office.term) => {
                let vacant = found.office.vacate(TermEnd::Resigned, self.node.env.unix_time());
                let commit = Commit { checks: found.checks(), writes: Vec::new() }
                    .set(found.key.clone(), vacant.encode());
                Step::Commit(Box::new(commit), None)
            }
            Some(held) => Step::Denied(Some(held.node.clone()), held.identity.ttl / 3),
            None => Step::Denied(None, Duration::ZERO),
        })
        .await
    }

    /// What is stored of a session that is no node's.
    async fn session(&self, id: SessionId) -> Result<Option<(Identity, Beat)>, StoreError> {
        if !id.is_lease() {
            return Ok(None);
        }
        let both = [self.node.keys.session(id), self.node.keys.beat(id)];
        let reads = both.iter().cloned().map(Read::Key).collect();
        let found = self.node.bounded(LEASING, self.node.store.read(reads)).await??;
        let (Some(session), Some(beat)) = (found.key(0), found.key(1)) else { return Ok(None) };
        Ok(Some((Identity::decode(&both[0], &session.value)?, Beat::decode(&both[1], &beat.value)?)))
    }
}
