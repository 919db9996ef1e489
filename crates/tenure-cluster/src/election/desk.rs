//! [`Desk`]: where a node's claims and releases of offices are made, many in one commit.
//!
//! One task serves all elections of a node. What waits is read together, decided, and committed together, as much as the store takes at once: so
//! taking 10,000 offices at the start takes a few hundred commits, and what was begun is finished though nobody waits for it any more.
//!
//! # Unknown outcomes
//! An office changes only by a commit that checks its version. When an answer is lost, the desk reads the office: held by this session in a new
//! version, the claim has landed. If not, the claim is made again, with the same check, until one of the copies has landed or the office
//! belongs to another; so none of them can land later, unnoticed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tenure_store::{Check, Commit, CommitError, Conflict, Key, Name, Reason, Version, Write, latest};
use tokio::sync::{mpsc, oneshot};

use super::{
    Holder, Term, TermEnd,
    facts::{Candidate, Facts, HEADS, Known},
    grants::{Grant, Grants},
    office::Office,
};
use crate::{ClusterError, Hold, Session, SessionId, node::Node};

/// The most operations that one claim or release needs: its checks and writes, and the removal of candidates that are gone.
const OPERATIONS_MAX: usize = 5 + HEADS;

/// The most requests that are served together: so that the first of them does not wait for too many others, and a commit of them needs fewer locks than
/// would make a store keep everybody else waiting (256 on PostgreSQL, about four a request).
const BATCH_MAX: usize = 60;

/// Before an office is read again whose state is in doubt.
const PAUSE: Duration = Duration::from_millis(20);

/// What a claim came to.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// The office is ours.
    Granted(Grant),
    /// It is not.
    Denied(Blocked),
}

/// What stands in the way of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// This session holds the office.
    Holder(SessionId),
    /// Others wait for it.
    Queue,
    /// Another task of this process holds it.
    Here,
}

/// The way to a desk. Clones lead to the same one.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    requests: mpsc::UnboundedSender<Request>,
    pub(crate) grants: Arc<Grants>,
}

type Answer<T> = oneshot::Sender<Result<T, ClusterError>>;

#[derive(Debug)]
struct Request {
    election: Name,
    wish: Wish,
    /// Whether a commit for it may be under way whose outcome is not known.
    doubt: bool,
}

#[derive(Debug)]
enum Wish {
    Claim {
        /// Our own place in the queue, if we stand at its head.
        ticket: Option<Key>,
        answer: Answer<Claimed>,
    },
    Release {
        grant: Grant,
        /// Who is to follow; else whoever waits.
        to: Option<Candidate>,
        answer: Answer<()>,
    },
}

impl Wish {
    fn fail(self, error: ClusterError) {
        // Whoever asked may have gone.
        match self {
            Self::Claim { answer, .. } => drop(answer.send(Err(error))),
            Self::Release { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

impl Desk {
    /// A desk, and what serves it.
    pub(crate) fn new(node: Arc<Node>, session: latest::Receiver<Session>) -> (Self, Clerk) {
        let (requests, waiting) = mpsc::unbounded_channel();
        let grants = Arc::new(Grants::default());
        let clerk = Clerk { node, session, waiting, again: VecDeque::new(), grants: Arc::clone(&grants) };
        (Self { requests, grants }, clerk)
    }

    /// Claims an office. With a ticket, for whoever stands at the head of the queue; without one, only if nobody waits.
    pub(crate) async fn claim(&self, election: &Name, ticket: Option<Key>) -> Result<Claimed, ClusterError> {
        self.ask(election, |answer| Wish::Claim { ticket, answer }).await
    }

    /// Gives an office up, in favour of this candidate or of whoever waits.
    pub(crate) async fn release(&self, grant: Grant, to: Option<Candidate>) -> Result<(), ClusterError> {
        let election = grant.election.clone();
        self.ask(&election, |answer| Wish::Release { grant, to, answer }).await
    }

    /// The same, without waiting for it.
    pub(crate) fn release_later(&self, grant: Grant) {
        let election = grant.election.clone();
        let wish = Wish::Release { grant, to: None, answer: oneshot::channel().0 };
        // A desk that has closed has given everything up already.
        let _ = self.requests.send(Request { election, wish, doubt: false });
    }

    async fn ask<T>(&self, election: &Name, wish: impl FnOnce(Answer<T>) -> Wish) -> Result<T, ClusterError> {
        let (answer, answered) = oneshot::channel();
        let request = Request { election: election.clone(), wish: wish(answer), doubt: false };
        self.requests.send(request).map_err(|_| ClusterError::Left)?;
        answered.await.map_err(|_| ClusterError::Left)?
    }
}

/// Serves a [`Desk`].
#[derive(Debug)]
pub(crate) struct Clerk {
    node: Arc<Node>,
    session: latest::Receiver<Session>,
    waiting: mpsc::UnboundedReceiver<Request>,
    /// What is to be decided once more.
    again: VecDeque<Request>,
    grants: Arc<Grants>,
}

/// A change of one office.
struct Plan {
    request: Request,
    checks: Vec<Check>,
    writes: Vec<Write>,
    /// The office afterwards.
    next: Office,
    hold: Hold,
}

impl Clerk {
    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        loop {
            if self.again.is_empty() {
                match self.waiting.recv().await {
                    Some(request) => self.again.push_back(request),
                    None => return,
                }
            }
            let batch = self.take();
            self.serve(batch).await;
        }
    }

    /// What is served next: one request an election, since the next one depends on it.
    fn take(&mut self) -> Vec<Request> {
        let limits = self.node.store.limits();
        let most =
            BATCH_MAX.min(limits.read_questions / 2).min((limits.commit_operations - 1) / OPERATIONS_MAX);
        while self.again.len() < 2 * most
            && let Ok(request) = self.waiting.try_recv()
        {
            self.again.push_back(request);
        }
        let mut batch: Vec<Request> = Vec::new();
        let mut rest = VecDeque::new();
        while let Some(request) = self.again.pop_front() {
            let twice = batch.iter().any(|taken| taken.election == request.election);
            if twice || batch.len() == most.max(1) { rest.push_back(request) } else { batch.push(request) }
        }
        self.again = rest;
        batch
    }

    async fn serve(&mut self, batch: Vec<Request>) {
        let session = self.session.borrow().clone();
        // Before anything is read: what is won then hangs on all that time.
        let hold = session.hold();
        let elections: Vec<&Name> = batch.iter().map(|request| &request.election).collect();
        let facts = match Facts::read(&self.node, &elections, &session).await {
            Ok(facts) => facts,
            Err(error) => return self.put_off(batch, error.into()).await,
        };
        let mut plans = Vec::new();
        for (index, request) in batch.into_iter().enumerate() {
            plans.extend(self.decide(request, index, &facts, &hold));
        }
        while !plans.is_empty() {
            plans = self.carry_out(plans, &session).await;
        }
    }

    /// Answers what can be answered at once, and plans the rest.
    fn decide(&mut self, request: Request, index: usize, facts: &Facts, hold: &Hold) -> Option<Plan> {
        let known = match &facts.offices[index] {
            Ok(known) => known,
            Err(error) => {
                if let Wish::Release { grant, .. } = &request.wish {
                    self.grants.leave(grant);
                }
                request.wish.fail(error.clone().into());
                return None;
            }
        };
        let Request { election, wish, doubt } = request;
        match wish {
            Wish::Claim { ticket, answer } => {
                let claim = Claim { election, ticket, answer, doubt };
                self.decide_claim(claim, known, facts, hold)
            }
            Wish::Release { mut grant, to, answer } => {
                match self.grants.live(&election) {
                    Some(id) if id == grant.id => {}
                    // The term was granted anew, to somebody who campaigned again: it is not this one's to give up any more.
                    Some(_) => {
                        let _ = answer.send(Ok(()));
                        return None;
                    }
                    // Nobody here has it. Until it is given up, nobody here gets it either.
                    None => grant.id = self.grants.enter(&election).unwrap_or(grant.id),
                }
                let held =
                    known.version == Some(grant.version) && grant.hold.session().id() == hold.session().id();
                if !held {
                    // It has passed on already: by this release, if that is in doubt, or by somebody else.
                    self.grants.leave(&grant);
                    let fenced = to.is_some() && !doubt;
                    let _ = answer.send(if fenced { Err(fenced_error(&grant)) } else { Ok(()) });
                    return None;
                }
                Some(self.plan_release(Release { election, grant, to, answer, doubt }, known, facts, hold))
            }
        }
    }

    fn decide_claim(&mut self, claim: Claim, known: &Known, facts: &Facts, hold: &Hold) -> Option<Plan> {
        let (Known { office, heads, .. }, version, own) = (known, known.version, hold.session().id());
        if hold.remaining().is_zero() && !claim.doubt {
            let reason = Reason::new(format!("session {own} can't be trusted at present"));
            let _ = claim.answer.send(Err(ClusterError::Fenced(reason)));
            return None;
        }
        if let (Some(holder), Some(version)) = (&office.holder, version)
            && facts.is_present(holder.session)
        {
            if holder.session == own {
                self.give(&claim.election, office, version, hold, claim.answer);
            } else {
                let _ = claim.answer.send(Ok(Claimed::Denied(Blocked::Holder(holder.session))));
            }
            return None;
        }
        let others_wait = heads.iter().any(|head| facts.is_present(head.session));
        if others_wait && claim.ticket.is_none() && !claim.doubt {
            let _ = claim.answer.send(Ok(Claimed::Denied(Blocked::Queue)));
            return None;
        }
        let end = office.holder.as_ref().and_then(|holder| facts.cause(holder.session));
        let next = office.pass_to(self.holder(hold.session()), TermEnd::SessionEnded(end));
        let key = self.node.keys.election(&claim.election);
        let check =
            version.map_or(Check::Absent(key.clone()), |version| Check::Version(key.clone(), version));
        let mut writes = vec![Write::Set(key, next.encode())];
        writes.extend(claim.ticket.clone().map(Write::Delete));
        remove_dead(&mut writes, heads, facts);
        let Claim { election, ticket, answer, doubt } = claim;
        Some(Plan {
            request: Request { election, wish: Wish::Claim { ticket, answer }, doubt },
            checks: vec![check],
            writes,
            next,
            hold: hold.clone(),
        })
    }

    fn plan_release(&self, release: Release, known: &Known, facts: &Facts, hold: &Hold) -> Plan {
        let Known { office, heads, .. } = known;
        let keys = &self.node.keys;
        let Release { election, grant, to, answer, doubt } = release;
        let key = keys.election(&election);
        let mut checks = vec![Check::Version(key.clone(), grant.version)];
        let end = if to.is_some() { TermEnd::HandedOver } else { TermEnd::Resigned };
        let successor = to.as_ref().or_else(|| heads.iter().find(|head| facts.is_present(head.session)));
        let now = self.node.env.unix_time();
        let mut writes = Vec::new();
        let next = match successor {
            Some(successor) => {
                checks.push(Check::Present(successor.key.clone()));
                checks.push(Check::Present(keys.session(successor.session)));
                writes.push(Write::Delete(successor.key.clone()));
                let (node, session) = (successor.node.clone(), successor.session);
                let renewals = facts.renewals(session);
                office.pass_to(Holder { node, session, since: now, renewals }, end)
            }
            None => office.vacate(end, now),
        };
        writes.push(Write::Set(key, next.encode()));
        remove_dead(&mut writes, heads, facts);
        let request = Request { election, wish: Wish::Release { grant, to, answer }, doubt };
        Plan { request, checks, writes, next, hold: hold.clone() }
    }

    fn holder(&self, session: &Session) -> Holder {
        Holder {
            node: self.node.settings.node.clone(),
            session: session.id(),
            since: self.node.env.unix_time(),
            renewals: session.renewals(),
        }
    }

    /// Grants an office that is this session's to whoever claimed it, unless another task here has it; if nobody waits any more, it is given up.
    fn give(
        &mut self,
        election: &Name,
        office: &Office,
        version: Version,
        hold: &Hold,
        answer: Answer<Claimed>,
    ) {
        let claimed = match self.grants.enter(election) {
            Some(id) => Claimed::Granted(Grant {
                id,
                election: election.clone(),
                term: Term(office.term),
                renewals: office.holder.as_ref().map_or(0, |holder| holder.renewals),
                version,
                hold: hold.clone(),
            }),
            None => Claimed::Denied(Blocked::Here),
        };
        if let Err(Ok(Claimed::Granted(grant))) = answer.send(Ok(claimed)) {
            let wish = Wish::Release { grant, to: None, answer: oneshot::channel().0 };
            self.again.push_back(Request { election: election.clone(), wish, doubt: false });
        }
    }

    /// Commits all plans at once. Returns those that are to be tried again as they are.
    async fn carry_out(&mut self, plans: Vec<Plan>, session: &Session) -> Vec<Plan> {
        let own = Check::Present(self.node.keys.session(session.id()));
        let mut commit = Commit::new().check(own);
        for plan in &plans {
            commit.checks.extend(plan.checks.iter().cloned());
            commit.writes.extend(plan.writes.iter().cloned());
        }
        let answer = match self.node.bounded("change offices", self.node.store.commit(commit)).await {
            Ok(answer) => answer,
            Err(error) => Err(CommitError::unknown(Reason::caused(error.to_string(), error))),
        };
        match answer {
            Ok(receipt) => {
                plans.into_iter().for_each(|plan| self.done(plan, receipt.version));
                Vec::new()
            }
            Err(CommitError::Conflict(Conflict::Check { index: 0, .. })) => {
                plans.into_iter().for_each(|plan| self.session_ended(plan));
                Vec::new()
            }
            Err(CommitError::Conflict(Conflict::Check { index, key })) => {
                self.without_refused(plans, index - 1, &key)
            }
            Err(CommitError::Conflict(Conflict::Contention)) => {
                self.node.env.sleep(self.node.env.random_time(PAUSE)).await;
                plans
            }
            Err(CommitError::OutcomeUnknown(_)) => {
                self.again.extend(plans.into_iter().map(|plan| Request { doubt: true, ..plan.request }));
                self.node.env.sleep(PAUSE / 2 + self.node.env.random_time(PAUSE)).await;
                Vec::new()
            }
            Err(error) => {
                let requests = plans.into_iter().map(|plan| plan.request).collect();
                self.put_off(requests, error.into()).await;
                Vec::new()
            }
        }
    }

    /// The plans but for the one whose check did not hold: that one is decided anew.
    fn without_refused(&mut self, plans: Vec<Plan>, index: usize, key: &Key) -> Vec<Plan> {
        metrics::counter!("tenure_election_conflicts_total").increment(1);
        let (mut first, mut rest) = (0, Vec::new());
        for plan in plans {
            let own = first..first + plan.checks.len();
            first = own.end;
            if !own.contains(&index) {
                rest.push(plan);
                continue;
            }
            let Request { election, wish, doubt } = plan.request;
            let wish = match wish {
                Wish::Release { grant, to: Some(to), answer } if *key != grant.office(&self.node.keys) => {
                    // The successor that was named is not there any more.
                    if !doubt {
                        let _ = answer.send(Err(ClusterError::NoCandidate { election, node: to.node }));
                        continue;
                    }
                    // But an earlier copy may be under way: the leadership can't be given back, so it goes to whoever waits.
                    let words =
                        format!("election {election} was to be handed over to {}, who is gone", to.node);
                    let _ = answer.send(Err(ClusterError::OutcomeUnknown(Reason::new(words))));
                    Wish::Release { grant, to: None, answer: oneshot::channel().0 }
                }
                wish => wish,
            };
            self.again.push_back(Request { election, wish, doubt });
        }
        rest
    }

    fn done(&mut self, plan: Plan, version: Version) {
        match plan.request.wish {
            Wish::Claim { answer, .. } => {
                metrics::counter!("tenure_election_acquisitions_total").increment(1);
                tracing::info!(election = %plan.request.election, term = plan.next.term, "office won");
                self.give(&plan.request.election, &plan.next, version, &plan.hold, answer);
            }
            Wish::Release { grant, answer, .. } => {
                tracing::info!(election = %grant.election, term = %grant.term, "office given up");
                self.grants.leave(&grant);
                let _ = answer.send(Ok(()));
            }
        }
    }

    fn session_ended(&self, plan: Plan) {
        match plan.request.wish {
            Wish::Claim { answer, .. } => {
                let reason = Reason::new(format!("session {} has ended", plan.hold.session().id()));
                let _ = answer.send(Err(ClusterError::Fenced(reason)));
            }
            // What hung on the session has ended with it.
            Wish::Release { grant, answer, .. } => {
                self.grants.leave(&grant);
                let _ = answer.send(Ok(()));
            }
        }
    }

    /// The store can't be reached: what is in doubt is tried again, the others are told.
    async fn put_off(&mut self, requests: Vec<Request>, error: ClusterError) {
        let mut doubtful = false;
        for request in requests {
            if request.doubt || matches!(request.wish, Wish::Release { .. }) {
                doubtful = true;
                self.again.push_back(request);
            } else {
                request.wish.fail(error.clone());
            }
        }
        if doubtful {
            self.node.env.sleep(PAUSE + self.node.env.random_time(PAUSE)).await;
        }
    }
}

struct Claim {
    election: Name,
    ticket: Option<Key>,
    answer: Answer<Claimed>,
    doubt: bool,
}

struct Release {
    election: Name,
    grant: Grant,
    to: Option<Candidate>,
    answer: Answer<()>,
    doubt: bool,
}

/// Candidates whose sessions have ended are in the way of others.
fn remove_dead(writes: &mut Vec<Write>, heads: &[Candidate], facts: &Facts) {
    let dead = heads.iter().filter(|head| !facts.is_present(head.session));
    let dead: Vec<Write> =
        dead.map(|head| Write::Delete(head.key.clone())).filter(|delete| !writes.contains(delete)).collect();
    writes.extend(dead);
}

fn fenced_error(grant: &Grant) -> ClusterError {
    ClusterError::Fenced(Reason::new(format!(
        "term {} of election {} has passed on",
        grant.term, grant.election
    )))
}
