//! `tenure status`

use clap::Args;

use super::Common;
use crate::{exit::Exit, views::Status};

/// Show the cluster at a glance
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn perform(options: StatusOptions) -> anyhow::Result<Exit> {
    let Common { store, output } = options.common;
    let status = Status::read(&store.look().await?, store.kind()).await?;
    output.print(&status, |status| {
        let Status { cluster, store, members, elections, servers, registries, .. } = status;
        if status.is_empty() {
            return format!(
                "there is nothing in cluster {cluster} of this store: see --cluster and --store\n"
            );
        }
        format!(
            "cluster     {cluster} ({store})\n\
             members     {} live, {} suspect, {} gone\n\
             elections   {} led, {} vacant\n\
             servers     {} kinds, {} busy, {} dead letters\n\
             registries  {registries}\n",
            members.live,
            members.suspect,
            members.gone,
            elections.led,
            elections.vacant,
            servers.kinds,
            servers.busy,
            servers.dead_letters,
        )
    })?;
    Ok(Exit::DONE)
}
