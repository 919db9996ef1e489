//! [`Leases`]: elections for programs that are no nodes, such as clients of an HTTP service.
//!
//! # What it promises
//! A lease is a session like any other, without a node behind it. Whoever serves a request may be another node each time: everything is in the store. So a lease outlasts the node
//! that granted it, competes with ordinary candidates for the same elections, and has their terms.
//!
//! # Life cycle
//! 1. [`claim`](Leases::claim): if the office is free and nobody waits for it, one commit begins the session and takes the office.
//! 2. [`refresh`](Leases::refresh) renews the session: one commit, which checks that the office is still its own.
//! 3. [`release`](Leases::release) ends both. Or nobody renews it for its ttl, and a warden of leases ends it: each node that serves leases is one.
//!
//! # What the holder must do
//! Count its time from before it asked, and stop before the ttl is over.
//!
//! # Unknown outcomes
//! A claim is made again under the same session id and the same check until it is decided. What nobody heard of ends with its ttl.

mod session;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_store::{
    Check, Commit, CommitError, Key, Name, Read, StoreError, Version, latest,
    record::{Decoder, Encoder},
};
use tokio::task::JoinHandle;

use crate::{
    ClusterError, Holder, Session, SessionId, Settings, Term, TermEnd,
    cluster::admit_election,
    election::{Candidate, Office},
    node::Node,
    session::{Beat, Identity},
    warden::{Warden, Watch},
};

pub use session::LeaseSession;

/// What the requests are doing, for errors.
const LEASING: &str = "serve a lease";

/// Each conflict is somebody's progress; few can happen in a row.
const TRIES_MAX: usize = 20;

/// How many of those who wait are looked at.
const HEADS: usize = 4;

/// A lease that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The election.
    pub election: Name,
    /// Who holds it.
    pub holder: Name,
    /// The fencing token.
    pub term: Term,
    /// How long it lives without being renewed.
    pub ttl: Duration,
}

/// What a claim or a renewal came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It is held.
    Granted(Lease),
    /// It is not.
    Denied {
        /// Who holds the office, or waits for it; nobody, if what was to be renewed is just gone.
        holder: Option<Name>,
        /// When it is worth another try.
        retry_after: Duration,
    },
}

/// Grants leases, and ends those that nobody renews.
#[derive(Debug)]
pub struct Leases {
    node: Arc<Node>,
    warden: JoinHandle<()>,
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.warden.abort();
    }
}

/// An office, as it was read.
struct Found {
    key: Key,
    version: Option<Version>,
    office: Office,
    /// Who holds it: the session exists.
    held: Option<Held>,
    /// Somebody who waits for it.
    waits: Option<Name>,
}

struct Held {
    node: Name,
    session: SessionId,
    identity: Identity,
    renewals: u64,
    /// The holder of the lease, if it is one.
    lease: Option<Name>,
}

impl Leases {
    pub(crate) fn new(node: Arc<Node>, session: latest::Receiver<Session>) -> Self {
        let warden = Warden::new(Arc::clone(&node), session, Watch::Leases);
        let warden = node.env.spawn(warden.run());
        Self { node, warden }
    }

    /// Takes the office if it is free and nobody waits for it. One that is held by this holder is renewed.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a ttl that no session may have, or an election that is Tenure's own; errors of the store.
    pub async fn claim(
        &self,
        election: &Name,
        holder: &Name,
        ttl: Duration,
    ) -> Result<LeaseAnswer, ClusterError> {
        admit_ttl(ttl)?;
        admit_election(election)?;
        let session = SessionId::random_lease(&self.node.env);
        self.decide(election, |found| match &found.held {
            Some(held) if held.lease.as_ref() == Some(holder) => renew(&self.node, found, held),
            Some(held) => Step::Denied(Some(held.node.clone()), held.identity.ttl / 3),
            None if found.waits.is_some() => {
                Step::Denied(found.waits.clone(), self.node.settings.renewal_interval / 3)
            }
            None => self.begin(found, session, holder, ttl),
        })
        .await
    }

    /// Renews a lease, if this holder has it; in this term, if one is named.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn refresh(
        &self,
        election: &Name,
        holder: &Name,
        term: Option<Term>,
    ) -> Result<LeaseAnswer, ClusterError> {
        self.decide(election, |found| match &found.held {
            Some(held) if is_of(found, held, holder, term) => renew(&self.node, found, held),
            Some(held) => Step::Denied(Some(held.node.clone()), held.identity.ttl / 3),
            None => Step::Denied(None, Duration::ZERO),
        })
        .await
    }

    /// Ends a lease, if this holder has it; in this term, if one is named. Denied is the usual answer: it is not held any more.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn release(
        &self,
        election: &Name,
        holder: &Name,
        term: Option<Term>,
    ) -> Result<LeaseAnswer, ClusterError> {
        self.decide(election, |found| match &found.held {
            Some(held) if is_of(found, held, holder, term) => {
                let keys = &self.node.keys;
                let vacant = found.office.vacate(TermEnd::Resigned, self.node.env.unix_time());
                let commit = Commit { checks: found.checks(), writes: Vec::new() }
                    .set(found.key.clone(), vacant.encode())
                    .delete(keys.session(held.session))
                    .delete(keys.beat(held.session))
                    .delete_range(keys.belongings(held.session).range());
                Step::Commit(Box::new(commit), None)
            }
            Some(held) => Step::Denied(Some(held.node.clone()), held.identity.ttl / 3),
            None => Step::Denied(None, Duration::ZERO),
        })
        .await
    }

    /// Who holds the lease, if somebody does.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn look(&self, election: &Name) -> Result<Option<Lease>, ClusterError> {
        let found = self.read(election).await?;
        Ok(found.held.map(|held| Lease {
            election: election.clone(),
            holder: held.node,
            term: Term(found.office.term),
            ttl: held.identity.ttl,
        }))
    }

    /// Reads, decides and commits, until it is clear what came of it.
    async fn decide(
        &self,
        election: &Name,
        step: impl Fn(&Found) -> Step,
    ) -> Result<LeaseAnswer, ClusterError> {
        let mut pauses = self.node.retry().start(&self.node.env);
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let found = self.read(election).await?;
            let (commit, lease) = match step(&found) {
                Step::Denied(holder, retry_after) => return Ok(LeaseAnswer::Denied { holder, retry_after }),
                Step::Commit(commit, lease) => (commit, lease),
            };
            match self.node.bounded(LEASING, self.node.store.commit(*commit)).await {
                Ok(Ok(_)) => {
                    let gone = LeaseAnswer::Denied { holder: None, retry_after: Duration::ZERO };
                    let granted = |(holder, term, ttl)| {
                        LeaseAnswer::Granted(Lease { election: election.clone(), holder, term, ttl })
                    };
                    return Ok(lease.map_or(gone, granted));
                }
                Ok(Err(CommitError::Conflict(_))) => {}
                // The next look shows whether it has landed, and if not, it is made again under the same check.
                Ok(Err(error @ CommitError::OutcomeUnknown(_))) => last = Some(ClusterError::from(error)),
                Err(error) => last = Some(ClusterError::OutcomeUnknown(error.to_string().into())),
                Ok(Err(error)) => return Err(error.into()),
            }
            if !pauses.pause().await {
                break;
            }
        }
        let words = format!("election {election} changed at every try: try again");
        Err(last.unwrap_or_else(|| StoreError::unavailable(words).into()))
    }

    /// The commit that begins a lease.
    fn begin(&self, found: &Found, session: SessionId, holder: &Name, ttl: Duration) -> Step {
        let (keys, now) = (&self.node.keys, self.node.env.unix_time());
        let liveness_window = ttl * 2 / 3;
        let identity = Identity { node: holder.clone(), ttl, liveness_window, place: PLACE.to_owned() };
        let next = Holder { node: holder.clone(), session, since: now, renewals: 0 };
        let office = found.office.pass_to(next, TermEnd::SessionEnded(None));
        let commit = Commit { checks: found.checks(), writes: Vec::new() }
            .set(found.key.clone(), office.encode())
            .set(keys.session(session), identity.encode())
            .set(keys.beat(session), Beat { renewals: 0, at: now }.encode())
            .set(keys.lease(session), encode(holder));
        Step::Commit(Box::new(commit), Some((holder.clone(), Term(office.term), ttl)))
    }

    async fn read(&self, election: &Name) -> Result<Found, ClusterError> {
        let keys = &self.node.keys;
        let key = keys.election(election);
        let queue = Read::Range { range: keys.candidates(election), limit: HEADS };
        let reads = vec![Read::Key(key.clone()), queue];
        let snapshot = self.node.bounded(LEASING, self.node.store.read(reads)).await??;
        let (office, version) = match snapshot.key(0) {
            Some(found) => (Office::decode(&key, &found.value)?, Some(found.version)),
            None => (Office::default(), None),
        };
        let heads = snapshot.range(1).items.iter().map(|item| Candidate::decode(&item.key, &item.value));
        let heads: Vec<Candidate> = heads.collect::<Result<_, _>>()?;
        let held = match &office.holder {
            Some(holder) => self.held(holder).await?,
            None => None,
        };
        let waits = if held.is_some() { None } else { self.waits(&heads).await? };
        Ok(Found { key, version, office, held, waits })
    }

    /// What is known of a holder, if its session exists.
    async fn held(&self, holder: &Holder) -> Result<Option<Held>, ClusterError> {
        let keys = &self.node.keys;
        let all = [keys.session(holder.session), keys.beat(holder.session), keys.lease(holder.session)];
        let reads = all.iter().cloned().map(Read::Key).collect();
        let snapshot = self.node.bounded(LEASING, self.node.store.read(reads)).await??;
        let (Some(session), Some(beat)) = (snapshot.key(0), snapshot.key(1)) else { return Ok(None) };
        let lease = match snapshot.key(2) {
            Some(found) => Some(Decoder::all(&all[2], &found.value, FORMAT, Decoder::name)?),
            None => None,
        };
        Ok(Some(Held {
            node: holder.node.clone(),
            session: holder.session,
            identity: Identity::decode(&all[0], &session.value)?,
            renewals: Beat::decode(&all[1], &beat.value)?.renewals,
            lease,
        }))
    }

    /// The first of these whose session exists.
    async fn waits(&self, heads: &[Candidate]) -> Result<Option<Name>, ClusterError> {
        if heads.is_empty() {
            return Ok(None);
        }
        let reads = heads.iter().map(|head| Read::Key(self.node.keys.session(head.session))).collect();
        let snapshot = self.node.bounded(LEASING, self.node.store.read(reads)).await??;
        let present = |(index, _): &(usize, &Candidate)| snapshot.key(*index).is_some();
        Ok(heads.iter().enumerate().find(present).map(|(_, head)| head.node.clone()))
    }
}

fn admit_ttl(ttl: Duration) -> Result<(), StoreError> {
    if (Settings::TTL_MIN..=Settings::TTL_MAX).contains(&ttl) {
        return Ok(());
    }
    Err(StoreError::invalid(format!("ttl {ttl:?} must be from 1 s to 24 h: choose one between")))
}

/// What is to be done after a look.
enum Step {
    Denied(Option<Name>, Duration),
    /// This, and then the lease is held on these terms; by nobody, if there are none.
    Commit(Box<Commit>, Option<(Name, Term, Duration)>),
}

/// Where leases live: on no machine.
const PLACE: &str = "lease";

/// Of the record that tells whose a lease is.
const FORMAT: u8 = 1;

fn encode(holder: &Name) -> Bytes {
    Encoder::new(FORMAT).text(holder.as_str()).finish()
}

/// Whether the office is held by a lease of this holder, in this term if one is named.
fn is_of(found: &Found, held: &Held, holder: &Name, term: Option<Term>) -> bool {
    held.lease.as_ref() == Some(holder) && term.is_none_or(|term| term.0 == found.office.term)
}

/// The commit that renews a lease.
fn renew(node: &Node, found: &Found, held: &Held) -> Step {
    let beat = Beat { renewals: held.renewals + 1, at: node.env.unix_time() };
    let commit = Commit { checks: found.checks(), writes: Vec::new() }
        .check(Check::Present(node.keys.session(held.session)))
        .set(node.keys.beat(held.session), beat.encode());
    Step::Commit(Box::new(commit), Some((held.node.clone(), Term(found.office.term), held.identity.ttl)))
}

impl Found {
    /// That the office is as it was read.
    fn checks(&self) -> Vec<Check> {
        let key = self.key.clone();
        vec![self.version.map_or(Check::Absent(key.clone()), |version| Check::Version(key, version))]
    }
}
