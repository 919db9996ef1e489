//! [`Event`], [`Status`]: what a singleton tells of itself.

use std::time::Duration;

use tenure_store::Name;

/// Where a singleton stands on this node.
///
/// | from | what happens | done, in this order | to | told by |
/// | --- | --- | --- | --- | --- |
/// | - | start | wait for the claim delay | init | [`Event::Started`] |
/// | init | the delay is over | start the follower child; ask the oracle | following | [`Event::Following`] |
/// | following | granted | stop the follower child; start the child | leading | [`Event::Elected`], [`Event::ChildStarted`] |
/// | following | denied, unknown | keep the follower child; ask again | following | [`Event::Denied`], [`Event::Unknown`] |
/// | leading | refreshed | - | leading | the metric `tenure_singleton_refreshes_total`: there are too many for events |
/// | leading | the child ended | start it again after a pause, as the restart policy says | leading | [`Event::ChildEnded`], [`Event::ChildRestarting`] |
/// | leading | it ended too often | give leadership up; stand again after the cooldown | following | [`Event::GaveUp`], [`Event::Released`], [`Event::Following`] |
/// | leading | only the grace is left | cancel the child; abort it before the deadline | stopping | [`Event::Stopping`], fading |
/// | leading | lost, or denied | cancel and abort the child at once | stopping | [`Event::Lost`], [`Event::Stopping`] |
/// | leading | shutdown, hand-over, asked by an operator | cancel the child, refreshing on; abort it after the grace; give leadership up | stopping | [`Event::Stopping`], [`Event::Released`] |
/// | stopping | the child has ended, leadership still holds and is not to be given up | start the child again | leading | [`Event::ChildEnded`], [`Event::ChildStarted`] |
/// | stopping | the child has ended | start the follower child; ask the oracle | following | [`Event::ChildEnded`], [`Event::Following`] |
/// | stopping | the child does not end | tell so; neither give leadership up nor stand again | stopping | [`Event::ChildOverran`] |
/// | any | shutdown is done, or the policy says that the work is done | - | ended | [`Event::Ended`] |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Started, and not standing yet.
    Init,
    /// Somebody else leads, or nobody.
    Following,
    /// This node leads, and the child runs or is about to be started again.
    Leading,
    /// The child is being stopped.
    Stopping,
    /// It is over, and does not come back.
    Ended,
}

/// Which of the two children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildKind {
    /// What runs on the leader.
    Leader,
    /// What runs everywhere else.
    Follower,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// It returned.
    Done,
    /// It returned an error: this one.
    Failed(String),
    /// It panicked.
    Panicked,
    /// It was aborted.
    Aborted,
}

/// Why a child is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// Leadership was lost.
    Lost,
    /// Leadership could not be refreshed, and only the grace is left of it.
    Fading,
    /// The singleton is shut down.
    Shutdown,
    /// Leadership is handed on: to a named node, or because an operator asked for it.
    HandOver,
    /// The follower child makes room for the other.
    Elected,
}

/// Something that happened to a singleton on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It was started.
    Started,
    /// It follows from now on: the claim delay is over, or leadership is.
    Following,
    /// The oracle refused; this one leads, if that is known.
    Denied {
        /// Who leads.
        holder: Option<String>,
    },
    /// The oracle could not be asked, or did not know.
    Unknown {
        /// Why.
        reason: String,
    },
    /// This node leads.
    Elected {
        /// The fencing token.
        term: Option<u64>,
    },
    /// A child was started.
    ChildStarted {
        /// Which.
        kind: ChildKind,
    },
    /// A child has ended.
    ChildEnded {
        /// Which.
        kind: ChildKind,
        /// How.
        end: ChildEnd,
    },
    /// A child will be started again.
    ChildRestarting {
        /// Which.
        kind: ChildKind,
        /// After this.
        after: Duration,
    },
    /// A child was asked to end.
    Stopping {
        /// Which.
        kind: ChildKind,
        /// Why.
        reason: StopReason,
    },
    /// The child still runs, though its time is over: it blocks a thread. Nothing was released early, and this node does not stand again before it has ended.
    ChildOverran,
    /// Leadership is lost.
    Lost,
    /// Leadership was given up.
    Released,
    /// Leadership was given up, but the oracle may not know: it lasts until its time is over.
    ReleaseUnknown {
        /// Why.
        reason: String,
    },
    /// The child failed too often; this node does not stand again for a while.
    GaveUp {
        /// How often it failed in a row.
        failures: u32,
        /// For how long.
        cooldown: Duration,
    },
    /// It is over.
    Ended,
}

/// How a singleton stands on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: Name,
    /// Where it stands.
    pub phase: Phase,
    /// The fencing token, while leading, if there is one.
    pub term: Option<u64>,
    /// Who leads elsewhere, as far as the oracle has told.
    pub holder: Option<String>,
}
