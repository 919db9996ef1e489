//! `tenure resign`, `hand-over`, `depose`

use std::time::Duration;

use clap::Args;
use tenure::{
    cluster::{Onlooker, Seen, Term, Waiting},
    store::Name,
};

use super::{
    Common,
    elections::{find, nobody_leads},
};
use crate::{
    exit::Exit,
    options::{duration, name},
    output::Confirm,
    views::{Change, Election, Leader},
};

/// Ask a leader to give its office up, to whoever waits first
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The leader stops its work first. One that does not listen is left as it is: see tenure depose.")]
pub(crate) struct ResignOptions {
    /// The election
    #[arg(value_parser = name)]
    name: Name,

    #[command(flatten)]
    asking: Asking,
}

/// Ask a leader to give its office up, to a node that waits for it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The leader stops its work first. One that does not listen is left as it is: see tenure depose.

  tenure hand-over nightly --to node-b --yes")]
pub(crate) struct HandOverOptions {
    /// The election
    #[arg(value_parser = name)]
    name: Name,

    /// The node that is to lead; it must wait for the office
    #[arg(long, value_name = "NODE", value_parser = name)]
    to: Name,

    #[command(flatten)]
    asking: Asking,
}

/// What asking takes.
#[derive(Args, Clone, Debug)]
struct Asking {
    /// How long to wait until it is done; 0s does not wait
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

/// Take an office from whoever holds it, at once
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The leader is told, and its guarded commits are refused at once; what else it does may go on for a moment. \
Ask it first, with tenure resign, unless it does not answer.")]
pub(crate) struct DeposeOptions {
    /// The election
    #[arg(value_parser = name)]
    name: Name,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn resign(ResignOptions { name, asking }: ResignOptions) -> anyhow::Result<Exit> {
    asking.confirm.must_be_possible()?;
    let look = asking.common.store.look().await?;
    let (leader, term, waiting) = led(&look, &name).await?;
    let next = waiting
        .first()
        .map_or_else(|| "nobody waits".to_owned(), |next| format!("{} waits first", next.node));
    asking.confirm.ask(&format!("Ask {} to resign from {name} in term {term}? ({next})", leader.node))?;
    ask(&look, &name, None, &asking, term).await
}

pub(crate) async fn hand_over(HandOverOptions { name, to, asking }: HandOverOptions) -> anyhow::Result<Exit> {
    asking.confirm.must_be_possible()?;
    let look = asking.common.store.look().await?;
    let (leader, term, waiting) = led(&look, &name).await?;
    if leader.node == to.as_str() {
        return Err(Exit::Undone.context(format!("{to} leads {name} already")).into());
    }
    if !waiting.iter().any(|candidate| candidate.node == to) {
        let there: Vec<&str> = waiting.iter().map(|candidate| candidate.node.as_str()).collect();
        let there = if there.is_empty() {
            "nobody waits".to_owned()
        } else {
            format!("waiting are {}", there.join(", "))
        };
        return Err(Exit::Absent.context(format!("{to} does not wait for {name}: {there}")).into());
    }
    asking.confirm.ask(&format!("Ask {} to hand {name} over to {to} in term {term}?", leader.node))?;
    ask(&look, &name, Some(to), &asking, term).await
}

pub(crate) async fn depose(DeposeOptions { name, confirm, common }: DeposeOptions) -> anyhow::Result<Exit> {
    confirm.must_be_possible()?;
    let look = common.store.look().await?;
    let (leader, term, _) = led(&look, &name).await?;
    confirm.ask(&format!("Take {name} from {}, who leads in term {term}?", leader.node))?;
    still(&look, &name, term).await?;
    let Some(holder) = look.depose(&name).await? else { return Err(nobody_leads(&name)) };
    let (now, _) = find(&look, &name).await?;
    let change =
        Change { leader: Leader::from(&holder), term: term.0, done: true, now: Election::from(&now) };
    common.output.print(&change, |change| format!("{} was deposed\n", change.leader.node))?;
    Ok(Exit::DONE)
}

/// Who leads, in which term, and who waits.
async fn led(look: &Onlooker, name: &Name) -> anyhow::Result<(Leader, Term, Vec<Waiting>)> {
    let (Seen { leader, term, .. }, waiting) = find(look, name).await?;
    let leader = leader.ok_or_else(|| nobody_leads(name))?;
    Ok((Leader::from(&leader), term, waiting))
}

/// Refuses to go on if the office has changed hands while the question was thought about.
async fn still(look: &Onlooker, name: &Name, term: Term) -> anyhow::Result<()> {
    let (_, now, _) = led(look, name).await?;
    if now != term {
        let words =
            format!("{name} is in term {now} by now, and the question was about term {term}: ask again");
        return Err(Exit::Undone.context(words).into());
    }
    Ok(())
}

async fn ask(
    look: &Onlooker,
    name: &Name,
    to: Option<Name>,
    asking: &Asking,
    term: Term,
) -> anyhow::Result<Exit> {
    still(look, name, term).await?;
    let Some((holder, term)) = look.ask(name, to).await? else { return Err(nobody_leads(name)) };
    let over = async {
        let mut observation = look.observe(name);
        loop {
            let led = observation.next().await?;
            // Who resigns with others waiting makes one of them the leader; the gap, if any, is not worth telling.
            if led.term != Some(term) || led.leader.is_none() {
                return anyhow::Ok(());
            }
        }
    };
    let done = match look.env().timeout(asking.timeout, over).await {
        Ok(over) => over.map(|()| true)?,
        Err(_elapsed) => false,
    };
    let now = Election::from(&find(look, name).await?.0);
    let change = Change { leader: Leader::from(&holder), term: term.0, done, now };
    asking.common.output.print(&change, |change| match (change.done, &change.now.leader) {
        (true, Some(leader)) => format!("{} leads in term {}\n", leader.node, change.now.term),
        (true, None) => format!("{} has resigned; nobody leads\n", change.leader.node),
        (false, _) => format!("{} was asked\n", change.leader.node),
    })?;
    if !done && !asking.timeout.is_zero() {
        let words = format!(
            "{} still leads {name} after {:?}: it has yet to stop its work, or does not listen; tenure depose takes the office from it",
            holder.node, asking.timeout
        );
        return Err(Exit::Undone.context(words).into());
    }
    Ok(Exit::DONE)
}
