//! [`Keeper`]: renews a node's session, and begins another when it has ended.
//!
//! | metric | kind | labels | what it counts |
//! | --- | --- | --- | --- |
//! | `tenure_session_renewals_total` | counter | `node`, `outcome` | renewals: `ok`, `failed` (tried again), `ended` |
//! | `tenure_session_left_seconds` | histogram | `node` | how much time was left when a renewal succeeded |
//! | `tenure_session_lapses_total` | counter | `node` | how often the deadline passed |
//! | `tenure_sessions_begun_total` | counter | `node` | sessions of this node |

use std::{sync::Arc, time::Duration};

use tenure_store::{Check, Commit, CommitError, Conflict, Moment, StoreExt as _, latest};
use tokio::sync::broadcast;

use super::{Beat, Evidence, Session, end, join};
use crate::{Cause, ClusterError, Event, Member, MemberState, node::Node, testator::Testator};

/// After so many renewals a node looks how it is recorded, though nothing says that it is suspected.
const RENEWALS_BETWEEN_LOOKS: u64 = 10;

/// What a keeper shares with the rest of its node.
#[derive(Clone, Debug)]
pub(crate) struct Keeping {
    /// The present session.
    pub(crate) session: latest::Sender<Session>,
    /// What happened to sessions.
    pub(crate) events: broadcast::Sender<Event>,
    /// Whether the node is to leave.
    pub(crate) leave: latest::Sender<bool>,
    /// Whether it has left.
    pub(crate) left: latest::Sender<bool>,
}

/// Renews the sessions of one node, one after another.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) node: Arc<Node>,
    pub(crate) keeping: Keeping,
    pub(crate) testator: Option<Testator>,
}

/// How a try to renew ended.
enum Renewal {
    Done,
    Failed(CommitError),
    Ended,
}

/// Returns when the last will was lost; never, if there is none.
async fn lost(testator: &mut Option<Testator>) {
    match testator {
        Some(testator) => testator.lost().await,
        None => std::future::pending().await,
    }
}

/// Returns when it is.
async fn wanted(leave: &mut latest::Receiver<bool>) {
    // The sender lives as long as its keeper.
    let _ = leave.wait_for(|leave| *leave).await;
}

impl Keeper {
    /// Runs until the node leaves.
    pub(crate) async fn run(mut self) {
        let mut leave = self.keeping.leave.subscribe();
        loop {
            let session = self.keeping.session.borrow().clone();
            let timer = self.node.env.spawn(session.clone().watch_deadline());
            tokio::select! {
                biased;
                () = wanted(&mut leave) => {
                    self.say_goodbye(&session).await;
                    break;
                }
                cause = self.keep(&session) => {
                    session.end(cause);
                    tracing::warn!(node = %self.node.settings.node, session = %session.id(), %cause, "session lost: joining again");
                    self.tell(Event::Ended { session: session.id(), cause });
                }
            }
            timer.abort();
            tokio::select! {
                biased;
                () = wanted(&mut leave) => break,
                session = self.begin_again() => {
                    self.tell(Event::Joined { session: session.id() });
                    self.keeping.session.send_replace(session);
                }
            }
        }
        if let Some(testator) = self.testator.take() {
            testator.revoke().await;
        }
        self.keeping.left.send_replace(true);
    }

    fn tell(&self, event: Event) {
        // Whether anybody listens is their business.
        let _ = self.keeping.events.send(event);
    }

    /// Renews until the session has ended, and tells why.
    async fn keep(&mut self, session: &Session) -> Cause {
        if let Some(testator) = &mut self.testator {
            testator.bequeath(session.id()).await;
        }
        let (env, settings) = (self.node.env.clone(), self.node.settings.clone());
        metrics::counter!("tenure_sessions_begun_total", "node" => settings.node.to_string()).increment(1);
        // Counted from when it began, whenever this is reached.
        let (mut renewals, mut confirmed) = (0, env.now());
        // Whether wardens may have recorded the member as suspect. By their clocks and looks that can be a little before the window is over by ours.
        let mut doubted = false;
        let late = (settings.renewal_interval + settings.liveness_window) / 2;
        // Joining may have taken a good part of its time.
        let fresh = session.remaining() > settings.ttl / 2;
        let mut next = env.now().after(if fresh { settings.renewal_interval } else { Duration::ZERO });
        loop {
            tokio::select! {
                biased;
                () = lost(&mut self.testator) => {
                    if let Some(testator) = &mut self.testator {
                        testator.bequeath(session.id()).await;
                    }
                    continue;
                }
                () = env.sleep(next - env.now()) => {}
            }
            let sent = env.now();
            match self.renew(session, renewals + 1).await {
                Renewal::Done => {
                    renewals += 1;
                    let sent = if settings.flaws().deadline_from_answer { env.now() } else { sent };
                    doubted |= sent - confirmed > late;
                    confirmed = sent;
                    doubted = self.renewed(session, sent, renewals, doubted).await;
                    // Nodes that started together should not stay in step.
                    next = sent
                        .after(settings.renewal_interval - env.random_time(settings.renewal_interval / 10));
                }
                Renewal::Failed(error) => {
                    tracing::debug!(session = %session.id(), %error, left = ?session.remaining(), "a renewal failed: it is tried again");
                    next = env.now().after(self.pause());
                }
                Renewal::Ended => return self.cause(session).await,
            }
        }
    }

    /// Before the next try: short, so that several fit the time that is left, and never the same for two nodes.
    fn pause(&self) -> Duration {
        let interval = self.node.settings.renewal_interval;
        interval / 20 + self.node.env.random_time(interval / 5)
    }

    async fn renew(&self, session: &Session, renewals: u64) -> Renewal {
        let node = &self.node;
        let beat = Beat { renewals, at: node.env.unix_time() };
        let commit = Commit::new()
            .check(Check::Present(node.keys.session(session.id())))
            .set(node.keys.beat(session.id()), beat.encode());
        let answer = match node.env.timeout(node.request_time(), node.store.commit(commit)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(CommitError::unknown(format!("renew the session: {elapsed}"))),
        };
        let (renewal, outcome) = match answer {
            Ok(_) => (Renewal::Done, "ok"),
            Err(CommitError::Conflict(Conflict::Check { .. })) => (Renewal::Ended, "ended"),
            Err(error) => (Renewal::Failed(error), "failed"),
        };
        let name = node.settings.node.to_string();
        metrics::counter!("tenure_session_renewals_total", "node" => name, "outcome" => outcome).increment(1);
        renewal
    }

    /// A renewal that was sent at that moment, so long after the one before, has succeeded. Returns whether the member may still be seen as suspect.
    async fn renewed(&self, session: &Session, sent: Moment, renewals: u64, doubted: bool) -> bool {
        let name = self.node.settings.node.to_string();
        metrics::histogram!("tenure_session_left_seconds", "node" => name.clone())
            .record(session.remaining());
        if session.extend(sent, renewals) {
            metrics::counter!("tenure_session_lapses_total", "node" => name).increment(1);
            tracing::warn!(session = %session.id(), "the session had lapsed, and goes on: nobody had ended it");
            self.tell(Event::Resumed { session: session.id() });
        }
        if !doubted && !renewals.is_multiple_of(RENEWALS_BETWEEN_LOOKS) {
            return false;
        }
        let clearing = self.node.env.timeout(self.node.request_time(), self.clear_suspicion(session)).await;
        if let Ok(Err(error)) = &clearing {
            // Suspicion takes nothing away; the next renewal tries again.
            tracing::debug!(%error, "could not record that the member is live");
        }
        !matches!(clearing, Ok(Ok(())))
    }

    /// Wardens may have recorded this member as suspect.
    async fn clear_suspicion(&self, session: &Session) -> Result<(), CommitError> {
        let node = &self.node;
        let key = node.keys.member(&node.settings.node);
        let Some(found) = node.store.get(&key).await? else { return Ok(()) };
        let member = Member::decode(&key, &found.value)?;
        if member.session != session.id() || member.state != MemberState::Suspect {
            return Ok(());
        }
        let live = member.turned(MemberState::Live, node.env.unix_time()).encode();
        let commit = Commit::new()
            .check(Check::Version(key.clone(), found.version))
            .set(key, live.clone())
            .append(node.keys.changes(), live);
        node.store.commit(commit).await.map(|_| ())
    }

    /// Why the session has ended, as its record tells.
    async fn cause(&self, session: &Session) -> Cause {
        let node = &self.node;
        let key = node.keys.member(&node.settings.node);
        let found = node.store.get(&key).await.ok().flatten();
        let member = found.and_then(|found| Member::decode(&key, &found.value).ok());
        match member {
            Some(member) if member.session == session.id() => match member.state {
                MemberState::Gone(cause) => cause,
                MemberState::Live | MemberState::Suspect | MemberState::Forgotten => Cause::Expired,
            },
            _ => Cause::TakenOver,
        }
    }

    /// The next session, as soon as there can be one.
    async fn begin_again(&self) -> Session {
        loop {
            match join(&self.node, false).await {
                Ok(session) => return session,
                Err(error) => {
                    tracing::warn!(%error, node = %self.node.settings.node, "could not join again: it is tried again");
                    if let ClusterError::Occupied(member) = error {
                        self.tell(Event::Displaced { by: member });
                    }
                    self.node.env.sleep(self.node.settings.renewal_interval).await;
                }
            }
        }
    }

    /// Gives everything up: locally first, then in the store.
    async fn say_goodbye(&self, session: &Session) {
        session.end(Cause::Left);
        let node = &self.node;
        let mut pauses = node.retry().start(&node.env);
        loop {
            let ending = end(node, session.id(), Evidence::Certain, Cause::Left);
            let failure = match node.env.timeout(node.request_time(), ending).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => error.to_string(),
                Err(elapsed) => elapsed.to_string(),
            };
            if !pauses.pause().await {
                // Wardens will end it.
                tracing::warn!(session = %session.id(), failure, "could not say goodbye: the session ends with its ttl");
                return;
            }
        }
    }
}
