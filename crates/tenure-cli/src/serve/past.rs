//! [`past`]: what happened before anybody looked, as members and elections still tell it.

use serde::Serialize;
use serde_json::json;
use tenure::cluster::Seen;

use super::{
    feed::{Sort, Told},
    streams::told,
};
use crate::views::{Member, State, millis};

/// How many events are kept for who comes later: about what the page keeps.
pub(crate) const RECENT_MAX: usize = 500;

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Happened {
    pub(crate) at_ms: u64,
    pub(crate) sort: Sort,
    pub(crate) subject: String,
    pub(crate) text: String,
}

impl Happened {
    /// This as an event of the stream.
    pub(crate) fn told(&self) -> Told {
        told("happened", &json!(self))
    }
}

/// Who leads, in words.
pub(crate) fn leads(node: &str, term: u64) -> String {
    format!("{node} leads in term {term}")
}

/// The newest that these tell of, the oldest first.
pub(crate) fn past<'a>(elections: &[Seen], members: impl Iterator<Item = &'a Member>) -> Vec<Happened> {
    let mut found = Vec::new();
    for Seen { name, term, leader, history, .. } in elections {
        let mut tell = |at, text| {
            let subject = name.to_string();
            found.push(Happened { at_ms: millis(at), sort: Sort::Election, subject, text });
        };
        for past in history {
            tell(past.holder.since, leads(past.holder.node.as_str(), past.term.0));
            tell(past.until, format!("{} leads no longer ({})", past.holder.node, past.end));
        }
        if let Some(leader) = leader {
            tell(leader.since, leads(leader.node.as_str(), term.0));
        }
    }
    for member in members {
        let mut tell = |at_ms, text| {
            found.push(Happened { at_ms, sort: Sort::Member, subject: member.node.clone(), text });
        };
        tell(member.joined_at_ms, "joined".to_owned());
        if member.state != State::Live {
            tell(member.changed_at_ms, member.in_words());
        }
    }
    found.sort_by_key(|one| one.at_ms);
    let old = found.len().saturating_sub(RECENT_MAX);
    found.split_off(old)
}
