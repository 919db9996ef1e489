//! Elections as they are told.

use serde::Serialize;
use tenure::{
    cluster::{self, Holder, Seen, SessionId, TermEnd, Waiting},
    store::Name,
};
use utoipa::ToSchema;

use super::millis;

/// An election.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Election {
    pub(crate) name: String,
    /// The present term, or the last one if nobody leads: the fencing token.
    pub(crate) term: u64,
    pub(crate) leader: Option<Leader>,
    /// How long the leader's session lives without being renewed.
    pub(crate) ttl_ms: Option<u64>,
    /// When the leader's session was renewed last.
    pub(crate) last_seen_ms: Option<u64>,
    /// How many wait for it.
    pub(crate) waiting: u64,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Leader {
    pub(crate) node: String,
    pub(crate) session: String,
    pub(crate) since_ms: u64,
    /// Whether it is no node, but a program that speaks HTTP.
    pub(crate) lease: bool,
}

/// An election, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct ElectionDetail {
    #[serde(flatten)]
    pub(crate) election: Election,
    /// Who waits, the first first.
    pub(crate) candidates: Vec<Candidate>,
    /// The last terms that are over, the newest last.
    pub(crate) history: Vec<PastTerm>,
    /// What the leader has published in this term, if it is text.
    pub(crate) payload: Option<String>,
}

/// Who waits for an office.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    pub(crate) session: String,
    pub(crate) priority: i32,
}

/// How a term ended whose holder lost its session.
pub(crate) const SESSION_ENDED: &str = "session_ended";

/// A term that is over.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct PastTerm {
    pub(crate) term: u64,
    pub(crate) node: String,
    pub(crate) session: String,
    pub(crate) since_ms: u64,
    pub(crate) until_ms: u64,
    /// `resigned`, `handed_over`, `deposed` or `session_ended`.
    pub(crate) end: String,
    /// Why the session ended, if it did and that is known.
    pub(crate) cause: Option<String>,
}

/// A session, in words. That of a program that speaks HTTP is what acts for it, so only its beginning is told.
fn session(id: SessionId) -> String {
    let mut text = id.to_string();
    if id.is_lease() {
        text.truncate(8);
    }
    text
}

impl From<&Holder> for Leader {
    fn from(holder: &Holder) -> Self {
        Self {
            node: holder.node.to_string(),
            session: session(holder.session),
            since_ms: millis(holder.since),
            lease: holder.session.is_lease(),
        }
    }
}

impl From<&Seen> for Election {
    fn from(seen: &Seen) -> Self {
        Self {
            name: seen.name.to_string(),
            term: seen.term.0,
            leader: seen.leader.as_ref().map(Leader::from),
            ttl_ms: seen.ttl.map(millis),
            last_seen_ms: seen.last_seen.map(millis),
            waiting: seen.waiting as u64,
        }
    }
}

impl Election {
    /// Whether there is nothing but a heartbeat of its leader between the two.
    pub(crate) fn differs_by_beat(old: &Self, new: &Self) -> bool {
        new.term == old.term && *new == Self { last_seen_ms: new.last_seen_ms, ..old.clone() }
    }

    /// One that never had a leader.
    pub(crate) fn never(name: &Name) -> Self {
        Self { name: name.to_string(), term: 0, leader: None, ttl_ms: None, last_seen_ms: None, waiting: 0 }
    }
}

impl From<&Waiting> for Candidate {
    fn from(waiting: &Waiting) -> Self {
        Self { node: waiting.node.to_string(), session: session(waiting.session), priority: waiting.priority }
    }
}

impl From<&cluster::PastTerm> for PastTerm {
    fn from(past: &cluster::PastTerm) -> Self {
        let (end, cause) = match past.end {
            TermEnd::Resigned => ("resigned", None),
            TermEnd::HandedOver => ("handed_over", None),
            TermEnd::Deposed => ("deposed", None),
            TermEnd::SessionEnded(cause) => (SESSION_ENDED, cause),
            _ => ("unknown", None),
        };
        Self {
            term: past.term.0,
            node: past.holder.node.to_string(),
            session: session(past.holder.session),
            since_ms: millis(past.holder.since),
            until_ms: millis(past.until),
            end: end.to_owned(),
            cause: cause.map(|cause| cause.as_str().to_owned()),
        }
    }
}

impl PastTerm {
    /// How it ended, in a few words.
    pub(crate) fn how(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{} ({cause})", self.end.replace('_', " ")),
            None => self.end.replace('_', " "),
        }
    }
}

impl ElectionDetail {
    pub(crate) fn new(seen: &Seen, candidates: &[Waiting], payload: Option<&[u8]>) -> Self {
        Self {
            election: Election::from(seen),
            candidates: candidates.iter().map(Candidate::from).collect(),
            history: seen.history.iter().map(PastTerm::from).collect(),
            payload: payload.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned),
        }
    }
}
