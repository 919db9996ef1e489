//! `tenure members`

use clap::Args;

use super::Common;
use crate::{
    exit::Exit,
    output::{Table, ago, or_dash},
    views::{Items, Member},
};

/// How many digits of a session are shown: enough to find it in a log, and --json has all.
const SESSION_SHOWN: usize = 8;

#[derive(Args, Clone, Debug)]
pub(crate) struct MembersOptions {
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn perform(options: MembersOptions) -> anyhow::Result<Exit> {
    let look = options.common.store.look().await?;
    let members: Vec<Member> = look.members().list().await?.into_iter().map(Member::from).collect();
    let now = look.env().unix_time();
    options.common.output.print(&Items::all(members), |members| {
        let mut table = Table::new(&["node", "state", "seen", "session", "address", "version"]);
        for member in &members.items {
            let session = member.session.get(..SESSION_SHOWN).unwrap_or(&member.session);
            let version = Some(&member.version).filter(|version| !version.is_empty());
            let state = match &member.cause {
                Some(cause) => format!("{} ({cause})", member.state.as_str()),
                None => member.state.as_str().to_owned(),
            };
            table.row([
                member.node.clone(),
                state,
                format!("{} ago", ago(member.last_seen_ms, now)),
                session.to_owned(),
                or_dash(member.address.as_ref()),
                or_dash(version),
            ]);
        }
        table.text("no members")
    })?;
    Ok(Exit::DONE)
}
