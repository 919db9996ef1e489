//! [`Runner`]: follows, leads and stops, in turns. [`Phase`] is its table.

use std::time::Duration;

use tenure_store::{Env, Moment, Name};
use tokio::sync::{mpsc, oneshot};

use crate::{
    ChildEnd, ChildKind, Event, Mandate, Phase, Policy, Restart, Standby, StopReason,
    child::{Child, Running},
    mandate::Terms,
    seat::{Seat, sleep},
    teller::Teller,
};

/// What a handle asks of its runner.
#[derive(Debug)]
pub(crate) enum Order {
    /// Stop the child, give leadership up, and end.
    Shutdown,
    /// Stop the child, and let that node lead.
    HandOver { to: Name, done: oneshot::Sender<()> },
}

/// One singleton on this node.
pub(crate) struct Runner {
    pub(crate) seat: Seat,
    pub(crate) policy: Policy,
    pub(crate) child: Child<Mandate>,
    pub(crate) follower: Option<Child<Standby>>,
    pub(crate) env: Env,
    pub(crate) tell: Teller,
    pub(crate) orders: mpsc::Receiver<Order>,
}

/// What follows a time as the leader.
#[derive(Debug)]
enum After {
    Follow,
    /// To the node that was named, if one was; and whom to tell of it.
    HandOver(Option<Name>, oneshot::Sender<()>),
    CoolDown,
    End,
}

/// What follows a time as a follower.
enum Next {
    Lead(Terms),
    Stand,
    End,
}

impl Runner {
    pub(crate) async fn run(mut self) {
        self.tell.tell(Event::Started);
        let delay = self.policy.claim_delay;
        let mut standing = delay.is_zero() || self.rest(delay).await;
        let mut standby = Standing::default();
        while standing {
            self.tell.follow();
            let Next::Lead(terms) = self.follow(&mut standby, None).await else { break };
            let term = terms.term;
            self.tell.tell(Event::Elected { term });
            self.clear(&mut standby, StopReason::Elected).await;
            self.tell.phase(Phase::Leading, term);
            let after = self.lead(terms).await;
            standing = match after {
                After::Follow => true,
                After::HandOver(to, done) => {
                    self.release(to.as_ref().map(Name::as_str)).await;
                    // Whoever asked may be gone.
                    let _ = done.send(());
                    true
                }
                After::CoolDown => {
                    self.release(None).await;
                    self.tell.follow();
                    let cooldown = self.policy.cooldown;
                    matches!(self.follow(&mut standby, Some(cooldown)).await, Next::Stand)
                }
                After::End => false,
            };
        }
        self.clear(&mut standby, StopReason::Shutdown).await;
        self.release(None).await;
        self.tell.phase(Phase::Ended, None);
        self.tell.tell(Event::Ended);
    }

    /// Waits before it follows; returns whether to go on.
    async fn rest(&mut self, time: Duration) -> bool {
        let end = self.env.now().after(time);
        loop {
            let left = end - self.env.now();
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    // There is nothing to hand over.
                    Some(Order::HandOver { .. }) => {}
                    Some(Order::Shutdown) | None => return false,
                },
                () = sleep(&self.env, Some(left)) => return true,
            }
        }
    }

    /// Keeps a follower child, if there is to be one, until this node leads; or, during a cooldown, until that is over.
    async fn follow(&mut self, standby: &mut Standing, cooldown: Option<Duration>) -> Next {
        let Self { seat, policy, follower, env, tell, orders, .. } = self;
        let mut told = tell.clone();
        let next = async {
            match cooldown {
                None => Next::Lead(seat.win(&mut told).await),
                Some(_) => {
                    sleep(env, cooldown).await;
                    Next::Stand
                }
            }
        };
        let mut next = std::pin::pin!(next);
        loop {
            if let (Some(child), None, None) = (&*follower, &standby.running, standby.again) {
                tell.tell(Event::ChildStarted { kind: ChildKind::Follower });
                standby.running = Some(Running::follower(child, env));
            }
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::HandOver { .. }) => {}
                    Some(Order::Shutdown) | None => return Next::End,
                },
                next = &mut next => return next,
                end = ended(&mut standby.running) => {
                    standby.running = None;
                    standby.count(&end, policy, env, tell, ChildKind::Follower);
                }
                () = until(env, standby.again) => standby.again = None,
            }
        }
    }

    /// Stops the follower child. Nothing hangs on it but order, so it gets its grace whatever happens.
    async fn clear(&mut self, standby: &mut Standing, reason: StopReason) {
        let Some(mut running) = standby.running.take() else { return *standby = Standing::default() };
        let kind = ChildKind::Follower;
        self.tell.tell(Event::Stopping { kind, reason });
        running.cancel();
        let mut told = self.tell.clone();
        let stopped = async {
            match self.env.timeout(self.policy.grace, running.ended()).await {
                Ok(end) => end,
                Err(_) => {
                    running.abort();
                    running.ended().await
                }
            }
        };
        // What was just won must not be lost meanwhile.
        let mut stopped = std::pin::pin!(stopped);
        let end = tokio::select! {
            biased;
            end = &mut stopped => end,
            () = self.seat.keep(&mut told) => stopped.await,
        };
        self.tell.tell(Event::ChildEnded { kind, end });
        *standby = Standing::default();
    }

    async fn release(&mut self, successor: Option<&str>) {
        // The oracle has its own patience; this is for one that hangs.
        const PATIENCE: Duration = Duration::from_secs(30);
        match self.seat.release(successor, PATIENCE).await {
            Ok(false) => {}
            Ok(true) => self.tell.tell(Event::Released),
            Err(reason) => self.tell.tell(Event::ReleaseUnknown { reason }),
        }
    }

    /// Runs the child for as long as this node leads. When this returns, it has ended.
    async fn lead(&mut self, terms: Terms) -> After {
        let Self { seat, policy, child, env, tell, orders, .. } = self;
        let mut told = tell.clone();
        let mut asked = seat.asked();
        let mut keep = std::pin::pin!(seat.keep(&mut told));
        let mut reign = Reign::new(terms, policy.clone(), env.clone(), tell.clone());
        loop {
            reign.look();
            if reign.standing.running.is_none() {
                if let Some(after) = reign.over() {
                    return after;
                }
                if reign.may_start() {
                    tell.tell(Event::ChildStarted { kind: ChildKind::Leader });
                    tell.phase(Phase::Leading, reign.terms.term);
                    reign.standing.running = Some(Running::leader(child, reign.terms.clone(), env));
                    continue;
                }
            }
            let wake = reign.wake();
            tokio::select! {
                biased;
                end = ended(&mut reign.standing.running) => reign.child_ended(&end),
                () = &mut keep, if !reign.lost => reign.lose(),
                order = orders.recv(), if !reign.leaving() => reign.obey(order),
                to = &mut asked, if !reign.leaving() => reign.hand_over(to, oneshot::channel().0),
                () = until(env, wake) => {}
            }
        }
    }
}

/// A child's place: whether it runs, when it is started again, how often it failed.
#[derive(Debug, Default)]
struct Standing {
    running: Option<Running>,
    again: Option<Moment>,
    failures: u32,
}

impl Standing {
    /// A child has ended by itself: it is started again after a pause.
    fn count(&mut self, end: &ChildEnd, policy: &Policy, env: &Env, tell: &Teller, kind: ChildKind) {
        tell.tell(Event::ChildEnded { kind, end: end.clone() });
        self.failures += 1;
        let after = policy.pause(self.failures);
        tell.tell(Event::ChildRestarting { kind, after });
        self.again = Some(env.now().after(after));
    }
}

/// One time as the leader.
struct Reign {
    terms: Terms,
    policy: Policy,
    env: Env,
    tell: Teller,
    standing: Standing,
    stopping: Option<Stop>,
    lost: bool,
    /// What is to follow, once it is decided.
    after: Option<After>,
    overran: bool,
}

/// A child that is to end.
#[derive(Debug)]
struct Stop {
    reason: StopReason,
    /// When it is aborted.
    abort: Moment,
    aborted: bool,
}

/// From here on before the deadline, a child that was cancelled is aborted: what part of the grace.
const ABORT_PART: u32 = 5;

impl Reign {
    fn new(terms: Terms, mut policy: Policy, env: Env, tell: Teller) -> Self {
        // More than a third would leave too little for the work, and for a refresh that fails once.
        policy.grace = policy.grace.min(terms.tenure.borrow().left(env.now()) / 3);
        let standing = Standing::default();
        Self { terms, policy, env, tell, standing, stopping: None, lost: false, after: None, overran: false }
    }

    fn left(&self) -> Duration {
        if self.lost { Duration::ZERO } else { self.terms.tenure.borrow().left(self.env.now()) }
    }

    /// Does what time demands: cancels when only the grace is left, aborts what was cancelled, tells of what can't be aborted.
    fn look(&mut self) {
        let (left, grace) = (self.left(), self.policy.grace);
        if left <= grace && self.stopping.is_none() && self.standing.running.is_some() {
            self.stop(StopReason::Fading);
        }
        let now = self.env.now();
        let (Some(stop), Some(running)) = (&mut self.stopping, &self.standing.running) else { return };
        let due = stop.abort <= now || left <= grace / ABORT_PART;
        if due && !stop.aborted {
            (stop.aborted, stop.abort) = (true, now);
            running.abort();
        }
        if stop.aborted && !self.overran && stop.abort.after(grace / ABORT_PART) <= now {
            self.overran = true;
            self.tell.tell(Event::ChildOverran);
        }
    }

    /// When to look again, if nothing else happens.
    fn wake(&self) -> Option<Moment> {
        let (now, left, grace) = (self.env.now(), self.left(), self.policy.grace);
        let end = (left != Duration::MAX).then(|| now.after(left));
        match (&self.standing.running, &self.stopping) {
            (Some(_), None) => end.map(|_| now.after(left.saturating_sub(grace))),
            (Some(_), Some(Stop { aborted: false, abort, .. })) => {
                let last = end.map(|_| now.after(left.saturating_sub(grace / ABORT_PART)));
                Some(last.map_or(*abort, |last| last.min(*abort)))
            }
            (Some(_), Some(stop)) if !self.overran => Some(stop.abort.after(grace / ABORT_PART)),
            (Some(_), Some(_)) => None,
            (None, _) => self.standing.again.or_else(|| end.map(|_| now.after(left.min(grace)))),
        }
    }

    /// Asks the child to end.
    fn stop(&mut self, reason: StopReason) {
        let Some(running) = &self.standing.running else { return };
        running.cancel();
        let left = self.left().saturating_sub(self.policy.grace / ABORT_PART);
        let abort = self.env.now().after(self.policy.grace.min(left));
        self.tell.tell(Event::Stopping { kind: ChildKind::Leader, reason });
        self.tell.phase(Phase::Stopping, self.terms.term);
        self.stopping = Some(Stop { reason, abort, aborted: false });
    }

    /// Leadership is over.
    fn lose(&mut self) {
        self.lost = true;
        self.tell.tell(Event::Lost);
        self.after.get_or_insert(After::Follow);
        match &mut self.stopping {
            None => self.stop(StopReason::Lost),
            Some(stop) => stop.abort = self.env.now(),
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::HandOver { to, done }) => self.hand_over(Some(to), done),
            Some(Order::Shutdown) | None => self.leave(After::End, StopReason::Shutdown),
        }
    }

    fn hand_over(&mut self, to: Option<Name>, done: oneshot::Sender<()>) {
        self.leave(After::HandOver(to, done), StopReason::HandOver);
    }

    fn leave(&mut self, after: After, reason: StopReason) {
        self.after = Some(after);
        if self.stopping.is_none() {
            self.stop(reason);
        }
    }

    /// Whether it was decided already what follows.
    fn leaving(&self) -> bool {
        matches!(self.after, Some(After::End | After::HandOver(..) | After::CoolDown))
    }

    fn child_ended(&mut self, end: &ChildEnd) {
        let running = self.standing.running.take();
        let kind = ChildKind::Leader;
        if let Some(stop) = self.stopping.take() {
            self.tell.tell(Event::ChildEnded { kind, end: end.clone() });
            tracing::debug!(singleton = %self.terms.name, reason = ?stop.reason, "the child was stopped");
            return;
        }
        let done = match self.policy.restart {
            Restart::Always => false,
            Restart::OnFailure => *end == ChildEnd::Done,
            Restart::Never => true,
        };
        if done {
            self.tell.tell(Event::ChildEnded { kind, end: end.clone() });
            self.after = Some(After::End);
            return;
        }
        let ran = running.map_or(Duration::ZERO, |running| self.env.now() - running.started);
        if ran >= self.policy.steady {
            self.standing.failures = 0;
        }
        if self.standing.failures + 1 >= self.policy.failures_max {
            self.tell.tell(Event::ChildEnded { kind, end: end.clone() });
            let failures = self.standing.failures + 1;
            self.tell.tell(Event::GaveUp { failures, cooldown: self.policy.cooldown });
            self.after = Some(After::CoolDown);
            return;
        }
        self.standing.count(end, &self.policy, &self.env, &self.tell, kind);
    }

    /// What follows, if this time as the leader is over. No child runs.
    fn over(&mut self) -> Option<After> {
        self.after.take()
    }

    /// Whether the child may be started now.
    fn may_start(&mut self) -> bool {
        let now = self.env.now();
        if self.standing.again.is_some_and(|again| again > now) || self.left() <= self.policy.grace {
            return false;
        }
        self.standing.again = None;
        true
    }
}

/// Waits for a child to end; for ever, if none runs.
async fn ended(running: &mut Option<Running>) -> ChildEnd {
    match running {
        Some(running) => running.ended().await,
        None => std::future::pending().await,
    }
}

/// Waits until that moment; for ever, if there is none.
async fn until(env: &Env, moment: Option<Moment>) {
    sleep(env, moment.map(|moment| moment - env.now())).await;
}
