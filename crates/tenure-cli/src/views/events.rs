//! What happens, as `watch` tells it.

use serde::Serialize;
use tenure::cluster::{ChangeKind, Member, MemberChange, MemberState, Seen};
use utoipa::ToSchema;

use super::PastTerm;

/// Something that happened, or that holds when the watch begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Event {
    /// When it was seen, by the wall clock of this machine.
    pub(crate) at_ms: u64,
    pub(crate) sort: Sort,
    /// The member or the election.
    pub(crate) subject: String,
    pub(crate) what: What,
    /// Who leads, or led last.
    pub(crate) node: Option<String>,
    /// The term that began, or was the last one.
    pub(crate) term: Option<u64>,
    /// Why a member is gone, or how the term before ended.
    pub(crate) cause: Option<String>,
    /// The same in words.
    pub(crate) text: String,
}

/// What it happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EventSort)]
pub(crate) enum Sort {
    Member,
    Election,
}

/// What happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EventWhat)]
pub(crate) enum What {
    /// A member is there, or is there anew.
    Live,
    /// A member has not renewed its session for long.
    Suspect,
    /// A member's session has ended.
    Gone,
    /// A member was gone for so long that its record was removed.
    Forgotten,
    /// Somebody leads.
    Led,
    /// Nobody leads.
    Vacant,
}

impl Event {
    /// A member, as it is when the watch begins.
    pub(crate) fn of_member(member: &Member, at_ms: u64) -> Self {
        let (what, cause) = match member.state {
            MemberState::Live => (What::Live, None),
            MemberState::Suspect => (What::Suspect, None),
            MemberState::Gone(cause) => (What::Gone, Some(cause.as_str().to_owned())),
            _ => (What::Forgotten, None),
        };
        let text = format!("is {}", member.state);
        Self::about_member(member, at_ms, what, cause, text)
    }

    /// What became of a member.
    pub(crate) fn of_change(change: &MemberChange, at_ms: u64) -> Self {
        let (what, text) = match change.kind {
            ChangeKind::Joined => (What::Live, "joined".to_owned()),
            ChangeKind::Recovered => (What::Live, "is back".to_owned()),
            ChangeKind::Suspected => (What::Suspect, "is suspect".to_owned()),
            ChangeKind::Left(cause) => (What::Gone, format!("is gone ({cause})")),
            _ => (What::Forgotten, "is forgotten".to_owned()),
        };
        let cause = match change.kind {
            ChangeKind::Left(cause) => Some(cause.as_str().to_owned()),
            _ => None,
        };
        Self::about_member(&change.member, at_ms, what, cause, text)
    }

    fn about_member(member: &Member, at_ms: u64, what: What, cause: Option<String>, text: String) -> Self {
        let subject = member.node.to_string();
        Self {
            at_ms,
            sort: Sort::Member,
            node: Some(subject.clone()),
            subject,
            what,
            term: None,
            cause,
            text,
        }
    }

    /// An election.
    pub(crate) fn of_election(seen: &Seen, at_ms: u64) -> Self {
        let before = seen.history.last().map(PastTerm::from);
        let last = seen.ended.as_ref().map(|holder| holder.node.to_string());
        let (what, node, text) = match (&seen.leader, &before) {
            (Some(leader), Some(before)) => {
                let text = format!(
                    "{} leads in term {}, after {}: {}",
                    leader.node,
                    seen.term,
                    before.node,
                    before.how()
                );
                (What::Led, Some(leader.node.to_string()), text)
            }
            (Some(leader), None) => (
                What::Led,
                Some(leader.node.to_string()),
                format!("{} leads in term {}", leader.node, seen.term),
            ),
            (None, _) if last.is_some() => {
                let text =
                    format!("nobody leads: the session of {} has ended", last.as_deref().unwrap_or_default());
                (What::Vacant, last, text)
            }
            (None, Some(before)) => {
                let text = format!("nobody leads, after {}: {}", before.node, before.how());
                (What::Vacant, Some(before.node.clone()), text)
            }
            (None, None) => (What::Vacant, None, "nobody leads".to_owned()),
        };
        Self {
            at_ms,
            sort: Sort::Election,
            subject: seen.name.to_string(),
            what,
            node,
            term: Some(seen.term.0),
            cause: before.map(|before| before.cause.unwrap_or(before.end)),
            text,
        }
    }

    /// An election that never had a leader.
    pub(crate) fn of_nothing(name: &str, at_ms: u64) -> Self {
        let text = "nobody has ever led".to_owned();
        let (sort, what) = (Sort::Election, What::Vacant);
        Self { at_ms, sort, subject: name.to_owned(), what, node: None, term: None, cause: None, text }
    }
}
