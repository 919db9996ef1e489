//! `tenure servers`

use std::time::Duration;

use clap::Args;
use tenure::{server::Survey as _, store::Name};

use super::Common;
use crate::{
    exit::Exit,
    options::name,
    output::{Table, or_dash, span},
    views::{Items, Kind, Server},
};

/// How many servers are told at once, if nothing else is said.
const PAGE: usize = 1000;

/// Show the kinds of servers, or the servers of a kind, with how many messages wait, for how long, and dead letters
#[derive(Args, Clone, Debug)]
pub(crate) struct ServersOptions {
    /// The kind [default: list kinds instead of servers]
    #[arg(value_parser = name)]
    kind: Option<Name>,

    /// Only servers, or kinds, behind this one
    #[arg(long, value_name = "ID", value_parser = name)]
    after: Option<Name>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = super::limit)]
    limit: usize,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn perform(options: ServersOptions) -> anyhow::Result<Exit> {
    let ServersOptions { kind, after, limit, common } = options;
    let look = common.store.look().await?;
    let Some(kind) = kind else {
        let kinds = Kind::list(&look, after.as_ref(), limit + 1).await?;
        let page = Items::page(kinds, limit, |kind: &Kind| kind.kind.clone());
        common.output.print(&page, |page| kinds_text(&page.items) + &more(page))?;
        return Ok(Exit::DONE);
    };
    let seen = look.servers(&kind, after.as_ref(), limit + 1).await?;
    let servers = seen.into_iter().map(|seen| Server::new(&kind, seen)).collect();
    let page = Items::page(servers, limit, |server: &Server| server.id.clone());
    common.output.print(&page, |page| servers_text(&page.items) + &more(page))?;
    Ok(Exit::DONE)
}

fn more<T>(page: &Items<T>) -> String {
    page.next.as_ref().map_or_else(String::new, |next| format!("there are more: --after {next:?}\n"))
}

fn kinds_text(kinds: &[Kind]) -> String {
    let mut table =
        Table::new(&["kind", "consumers", "servers", "busy", "waiting", "oldest", "dead letters"]);
    for kind in kinds {
        let more = if kind.servers_more { "+" } else { "" };
        table.row([
            kind.kind.clone(),
            kind.consumers.to_string(),
            format!("{}{more}", kind.servers),
            kind.busy.to_string(),
            kind.waiting.to_string(),
            or_dash(kind.oldest_ms.map(|ms| span(Duration::from_millis(ms)))),
            kind.dead_letters.to_string(),
        ]);
    }
    table.text("no servers")
}

/// Servers as a table.
pub(super) fn servers_text(servers: &[Server]) -> String {
    let mut table = Table::new(&["server", "waiting", "oldest", "applied", "dead letters", "state"]);
    for server in servers {
        let state = match (&server.stopped, server.locked) {
            (Some(why), _) => format!("stopped: {why}"),
            (None, true) => "locked".to_owned(),
            (None, false) => "-".to_owned(),
        };
        table.row([
            server.id.clone(),
            server.waiting.to_string(),
            or_dash(server.oldest_ms.map(|ms| span(Duration::from_millis(ms)))),
            server.applied.to_string(),
            server.dead_letters.to_string(),
            state,
        ]);
    }
    table.text("no servers of this kind")
}
