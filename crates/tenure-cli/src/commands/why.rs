//! `tenure why`

use std::time::Duration;

use clap::Args;
use tenure::{cluster::Onlooker, store::Name};

use super::{Common, elections::find};
use crate::{
    exit::Exit,
    options::name,
    output::{ago, span, utc},
    views::{Candidate, Election, Leader, PastTerm, SESSION_ENDED, Why},
};

/// Tell who leads, since when, and why the last change happened
#[derive(Args, Clone, Debug)]
pub(crate) struct WhyOptions {
    /// The election
    #[arg(value_parser = name)]
    name: Name,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn perform(WhyOptions { name, common }: WhyOptions) -> anyhow::Result<Exit> {
    let look = common.store.look().await?;
    let why = find_out(&look, &name).await?;
    common.output.print(&why, |why| {
        let lines: String = why.reasons.iter().map(|reason| format!("{reason}\n")).collect();
        lines
    })?;
    Ok(Exit::DONE)
}

async fn find_out(look: &Onlooker, name: &Name) -> anyhow::Result<Why> {
    let (seen, waiting) = find(look, name).await?;
    let ended_by = match &seen.ended {
        Some(holder) => {
            let members = look.members().list().await?.into_iter();
            let mut same = members.filter(|listed| listed.member.session == holder.session);
            same.next().map(|listed| listed.member.state.to_string())
        }
        None => None,
    };
    let mut why = Why {
        election: Election::from(&seen),
        ended: seen.ended.as_ref().map(Leader::from),
        before: seen.history.last().map(PastTerm::from),
        gap_ms: None,
        candidates: waiting.iter().map(Candidate::from).collect(),
        reasons: Vec::new(),
    };
    // When a session has ended, the term is over for the store only when the next one begins: nobody knows for how long nobody led.
    let known = why.before.as_ref().filter(|before| before.end != SESSION_ENDED);
    if let (Some(leader), Some(before)) = (&why.election.leader, known) {
        why.gap_ms = Some(leader.since_ms.saturating_sub(before.until_ms));
    }
    why.reasons = reasons(&why, ended_by.as_deref(), look.env().unix_time());
    Ok(why)
}

fn reasons(why: &Why, ended_by: Option<&str>, now: Duration) -> Vec<String> {
    let Why { election, ended, before, .. } = why;
    let mut reasons = Vec::new();
    match (&election.leader, ended) {
        (Some(leader), _) => {
            reasons.push(format!(
                "{} leads {} in term {}, for {} (since {}).",
                leader.node,
                election.name,
                election.term,
                ago(leader.since_ms, now),
                utc(leader.since_ms)
            ));
            if let (Some(seen), Some(ttl)) = (election.last_seen_ms, election.ttl_ms) {
                let (seen, ttl) = (ago(seen, now), span(Duration::from_millis(ttl)));
                reasons.push(format!(
                    "Its session was renewed {seen} ago, and lives for {ttl} without being renewed."
                ));
            }
        }
        (None, Some(last)) => {
            let how = ended_by.map_or_else(String::new, |state| format!(": {} is {state}", last.node));
            reasons.push(format!(
                "Nobody leads {}. The session of {}, who led in term {} since {}, has ended{how}.",
                election.name,
                last.node,
                election.term,
                utc(last.since_ms)
            ));
        }
        (None, None) => {
            reasons.push(format!("Nobody leads {}, after term {}.", election.name, election.term));
        }
    }
    if let Some(past) = before {
        let lasted = span(Duration::from_millis(past.until_ms.saturating_sub(past.since_ms)));
        reasons.push(format!(
            "Term {} was that of {}, for {lasted}, until {}: {}.",
            past.term,
            past.node,
            utc(past.until_ms),
            cause(past)
        ));
    } else if election.term == 1 {
        reasons.push("It is the first term.".to_owned());
    }
    if let Some(gap) = why.gap_ms {
        let gap = span(Duration::from_millis(gap));
        reasons.push(format!("Between the two nobody led for {gap}, by their wall clocks."));
    }
    reasons.push(match why.candidates.as_slice() {
        [] => "Nobody waits for it.".to_owned(),
        [only] => format!("{} waits for it.", only.node),
        [first, rest @ ..] => format!("{} waits for it first, and {} behind it.", first.node, rest.len()),
    });
    reasons
}

/// Why a term ended, in words.
fn cause(past: &PastTerm) -> &'static str {
    match (past.end.as_str(), past.cause.as_deref()) {
        ("resigned", _) => "it resigned",
        ("handed_over", _) => "it handed over",
        ("deposed", _) => "it was deposed by an operator",
        (_, Some("left")) => "its node left the cluster",
        (_, Some("expired")) => {
            "its session was not renewed for its whole ttl: it was paused, cut off, or killed where nobody could prove it"
        }
        (_, Some("died")) => "its process was proven dead by a node on the same machine",
        (_, Some("last_will")) => "its process died, and its last will ended its session",
        (_, Some("taken_over")) => "another process took over under its node's name",
        _ => "its session ended",
    }
}
