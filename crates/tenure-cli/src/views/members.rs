//! Members as they are told.

use std::collections::BTreeMap;

use serde::Serialize;
use tenure::cluster::{Listed, MemberState};
use utoipa::ToSchema;

use super::millis;

/// A node. Times are of wall clocks, in milliseconds since 1970: for people to read.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Member {
    pub(crate) node: String,
    pub(crate) state: State,
    /// Why it is gone.
    pub(crate) cause: Option<String>,
    pub(crate) session: String,
    /// Counts the sessions of this node.
    pub(crate) incarnation: u64,
    pub(crate) address: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) version: String,
    pub(crate) ttl_ms: u64,
    pub(crate) joined_at_ms: u64,
    pub(crate) changed_at_ms: u64,
    /// When its session was renewed last, or ended.
    pub(crate) last_seen_ms: u64,
    /// How often its session was renewed; null when it has ended.
    pub(crate) renewals: Option<u64>,
    /// The process that owns the session.
    pub(crate) owner: String,
}

/// Whether a member is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Live,
    Suspect,
    Gone,
    Forgotten,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Suspect => "suspect",
            Self::Gone => "gone",
            Self::Forgotten => "forgotten",
        }
    }
}

impl Member {
    /// Whether there is nothing but a heartbeat between the two.
    pub(crate) fn differs_by_beat(old: &Self, new: &Self) -> bool {
        let Self { last_seen_ms, renewals, .. } = *new;
        new.joined_at_ms == old.joined_at_ms && *new == Self { last_seen_ms, renewals, ..old.clone() }
    }

    /// What has become of it.
    pub(crate) fn in_words(&self) -> String {
        match (self.state, &self.cause) {
            (State::Live, _) => "joined".to_owned(),
            (state, Some(cause)) => format!("is {} ({cause})", state.as_str()),
            (state, None) => format!("is {}", state.as_str()),
        }
    }
}

impl From<Listed> for Member {
    fn from(Listed { member, renewals, last_seen, .. }: Listed) -> Self {
        let (state, cause) = match member.state {
            MemberState::Live => (State::Live, None),
            MemberState::Suspect => (State::Suspect, None),
            MemberState::Gone(cause) => (State::Gone, Some(cause.as_str().to_owned())),
            _ => (State::Forgotten, None),
        };
        Self {
            node: member.node.to_string(),
            state,
            cause,
            session: member.session.to_string(),
            incarnation: member.incarnation,
            address: member.address,
            labels: member.labels,
            version: member.version,
            ttl_ms: millis(member.ttl),
            joined_at_ms: millis(member.joined_at),
            changed_at_ms: millis(member.changed_at),
            last_seen_ms: millis(last_seen),
            renewals,
            owner: member.owner.to_string(),
        }
    }
}
