//! `tenure watch`

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use tenure::{
    cluster::{Onlooker, Seen, SessionId},
    store::{Name, StoreError},
};
use tokio::signal::unix::{SignalKind, signal};

use super::Common;
use crate::{
    exit::Exit,
    options::name,
    output::{Output, utc},
    views::{Event, millis},
};

/// The least time between two looks at all elections.
const REST: Duration = Duration::from_millis(50);

/// How long to wait before a store that was away is asked again.
const AWAY: Duration = Duration::from_millis(500);

/// Tell what happens, as it happens, a line each
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
First it tells what holds, then what changes, until it is ended by SIGINT (Ctrl-C) or SIGTERM, with 0.

  tenure watch nightly --json | jq -r .text")]
pub(crate) struct WatchOptions {
    /// The election [default: all elections and all members]
    #[arg(value_parser = name)]
    name: Option<Name>,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn perform(WatchOptions { name, common }: WatchOptions) -> anyhow::Result<Exit> {
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let watching = async {
        let look = common.store.look().await?;
        match &name {
            Some(name) => one(&look, name, common.output).await,
            None => everything(&look, common.output).await,
        }
    };
    tokio::select! {
        ended = watching => ended?,
        _ = int.recv() => {}
        _ = term.recv() => {}
    }
    Ok(Exit::DONE)
}

fn tell(output: Output, event: &Event) -> anyhow::Result<()> {
    output.line(event, |event| {
        let date = utc(event.at_ms);
        let time = date.split_once(' ').map_or("", |(_, time)| time).trim_end_matches('Z');
        format!("{time}.{:03}  {}  {}", event.at_ms % 1000, event.subject, event.text)
    })
}

/// What an election is told anew for.
type Told = (u64, Option<SessionId>);

fn told(seen: &Seen) -> Told {
    (seen.term.0, seen.leader.as_ref().map(|leader| leader.session))
}

async fn one(look: &Onlooker, name: &Name, output: Output) -> anyhow::Result<()> {
    let mut observation = look.observe(name);
    let mut last: Option<Option<Told>> = None;
    loop {
        observation.next().await?;
        let found = patiently(async || look.election(name).await).await?;
        let now = found.as_ref().map(|(seen, _)| told(seen));
        if last == Some(now) {
            continue;
        }
        last = Some(now);
        let at_ms = millis(look.env().unix_time());
        let event = match &found {
            Some((seen, _)) => Event::of_election(seen, at_ms),
            None => Event::of_nothing(name.as_str(), at_ms),
        };
        tell(output, &event)?;
    }
}

async fn everything(look: &Onlooker, output: Output) -> anyhow::Result<()> {
    let now = || millis(look.env().unix_time());
    let mut changes = look.members().changes().await?;
    for member in changes.members().values() {
        tell(output, &Event::of_member(member, now()))?;
    }
    let mut last: BTreeMap<Name, Told> = BTreeMap::new();
    let [mut offices, mut sessions] = look.watch_elections();
    loop {
        for seen in patiently(async || look.elections(None, usize::MAX).await).await? {
            if last.insert(seen.name.clone(), told(&seen)) != Some(told(&seen)) {
                tell(output, &Event::of_election(&seen, now()))?;
            }
        }
        loop {
            tokio::select! {
                change = changes.next() => tell(output, &Event::of_change(&change?, now()))?,
                () = offices.changed() => break,
                () = sessions.changed() => break,
            }
        }
        look.env().sleep(REST).await;
    }
}

/// Asks until there is an answer, as long as the error is one that passes.
async fn patiently<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    loop {
        match ask().await {
            Err(error) if error.is_transient() => tenure::store::Env::system().sleep(AWAY).await,
            answer => return answer,
        }
    }
}
