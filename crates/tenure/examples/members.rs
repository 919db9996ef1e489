//! Watches who comes and goes: `cargo run --example members -- sqlite:office.db watcher`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use tenure::{cluster::ChangeKind, prelude::*};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "memory:".into());
    let store = tenure::open(&url).await?;
    let node = args.next().unwrap_or_else(|| "watcher".into());
    let cluster = Cluster::join(Arc::clone(&store), Settings::new("example", &node)?).await?;
    let mut changes = cluster.members().changes().await?;
    for listed in cluster.members().list().await? {
        println!("{}", listed.member);
    }
    // Without a URL nobody else can come: so somebody does, and goes again.
    let guest = match url.as_str() {
        "memory:" => Some(Cluster::join(store, Settings::new("example", "guest")?).await?),
        _ => None,
    };
    if let Some(guest) = &guest {
        guest.leave().await;
    }
    loop {
        let change = changes.next().await?;
        println!("{change}");
        if guest.is_some() && matches!(change.kind, ChangeKind::Left(_)) {
            cluster.leave().await;
            return Ok(());
        }
    }
}
