//! Tells all members something, and learns what became of it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{net::Ipv4Addr, sync::Arc};

use tenure::{
    cluster::peer::LinkSettings,
    prelude::*,
    store::{Password, Store},
};

async fn join(store: &Arc<dyn Store>, node: &str) -> Result<Cluster, Box<dyn std::error::Error>> {
    let mut settings = Settings::new("example", node)?;
    let mut links = LinkSettings::new((Ipv4Addr::LOCALHOST, 0).into());
    links.secret = Some(Password::new("a secret that all nodes share"));
    settings.links = Some(links);
    Ok(Cluster::join(Arc::clone(store), settings).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = tenure::open("sqlite::memory:").await?;
    let (one, two, three) =
        (join(&store, "one").await?, join(&store, "two").await?, join(&store, "three").await?);
    let topic: Name = "caches".parse()?;
    let mut inbox = two.links().expect("it has links").subscribe(&topic);

    // `three` joined after the others; they know of it as soon as they are told.
    let links = one.links().expect("it has links");
    let outcomes = loop {
        let outcomes = links.broadcast(&topic, "forget project 7").await?;
        if outcomes.len() == 2 {
            break outcomes;
        }
    };
    for (peer, outcome) in outcomes.iter() {
        println!("{}: {outcome}", peer.node);
    }
    let message = inbox.recv().await.expect("it was delivered");
    println!("two heard from {}: {:?}", message.from.node, message.body);
    for cluster in [one, two, three] {
        cluster.leave().await;
    }
    Ok(())
}
