//! `tenure elections`, `leader`, `history`

use std::time::Duration;

use clap::Args;
use tenure::{
    cluster::{Onlooker, Seen, Waiting},
    store::Name,
};

use super::Common;
use crate::{
    exit::Exit,
    options::{duration, name},
    output::{Table, ago, or_dash, span, utc},
    views::{Election, Items, PastTerm},
};

/// Show all elections that ever had a leader
#[derive(Args, Clone, Debug)]
pub(crate) struct ElectionsOptions {
    /// Only those that nobody leads
    #[arg(long)]
    vacant: bool,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn elections(options: ElectionsOptions) -> anyhow::Result<Exit> {
    let look = options.common.store.look().await?;
    let seen = look.elections(None, usize::MAX).await?;
    let wanted = seen.iter().filter(|seen| !options.vacant || seen.leader.is_none());
    let now = look.env().unix_time();
    options.common.output.print(&Items::all(wanted.map(Election::from).collect()), |elections| {
        let mut table = Table::new(&["election", "term", "leader", "for", "seen", "waiting"]);
        for election in &elections.items {
            table.row([
                election.name.clone(),
                election.term.to_string(),
                or_dash(election.leader.as_ref().map(|leader| &leader.node)),
                or_dash(election.leader.as_ref().map(|leader| ago(leader.since_ms, now))),
                or_dash(election.last_seen_ms.map(|at| format!("{} ago", ago(at, now)))),
                election.waiting.to_string(),
            ]);
        }
        table.text("no elections")
    })?;
    Ok(Exit::DONE)
}

/// Print who leads an election
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Prints the leader's node and nothing else, and ends with 104 if nobody leads:

  ssh \"$(tenure leader nightly)\" uptime")]
pub(crate) struct LeaderOptions {
    /// The election
    #[arg(value_parser = name)]
    name: Name,

    /// Wait so long for somebody to lead
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn leader(LeaderOptions { name, wait, common }: LeaderOptions) -> anyhow::Result<Exit> {
    let look = common.store.look().await?;
    if let Some(wait) = wait {
        let mut observation = look.observe(&name);
        let led = async {
            while observation.next().await?.leader.is_none() {}
            anyhow::Ok(())
        };
        match look.env().timeout(wait, led).await {
            Ok(led) => led?,
            Err(_elapsed) => {}
        }
    }
    let election = match look.election(&name).await? {
        Some((seen, _)) => Election::from(&seen),
        None => Election::never(&name),
    };
    let is_led = election.leader.is_some();
    common.output.print(&election, |election| {
        election.leader.as_ref().map_or_else(String::new, |leader| format!("{}\n", leader.node))
    })?;
    if is_led { Ok(Exit::DONE) } else { Err(nobody_leads(&name)) }
}

/// Show the last terms of an election that are over, the newest last
#[derive(Args, Clone, Debug)]
pub(crate) struct HistoryOptions {
    /// The election
    #[arg(value_parser = name)]
    name: Name,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn history(HistoryOptions { name, common }: HistoryOptions) -> anyhow::Result<Exit> {
    let look = common.store.look().await?;
    let (seen, _) = find(&look, &name).await?;
    let terms: Vec<PastTerm> = seen.history.iter().map(PastTerm::from).collect();
    common.output.print(&Items::all(terms), |terms| {
        let mut table = Table::new(&["term", "node", "from", "until", "lasted", "ended"]);
        for past in &terms.items {
            table.row([
                past.term.to_string(),
                past.node.clone(),
                utc(past.since_ms),
                utc(past.until_ms),
                span(Duration::from_millis(past.until_ms.saturating_sub(past.since_ms))),
                past.how(),
            ]);
        }
        table.text("no term is over yet")
    })?;
    Ok(Exit::DONE)
}

/// An election that ever had a leader.
///
/// # Errors
/// When there is no such; errors of the store.
pub(super) async fn find(look: &Onlooker, name: &Name) -> anyhow::Result<(Seen, Vec<Waiting>)> {
    match look.election(name).await? {
        Some(found) => Ok(found),
        None => {
            let words = format!("election {name} never had a leader: see tenure elections");
            Err(Exit::Absent.context(words).into())
        }
    }
}

pub(super) fn nobody_leads(name: &Name) -> anyhow::Error {
    Exit::Vacant.context(format!("nobody leads election {name}")).into()
}
