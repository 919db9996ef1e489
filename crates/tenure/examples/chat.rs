//! A chat: a process for each user, found by name, on whichever node the user is connected to.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tenure::{cluster::peer::LinkSettings, prelude::*, registry::Spawned, store::Password};

/// What a user's process is told.
#[derive(Serialize, Deserialize)]
enum Said {
    /// Somebody writes to the user.
    Hear { from: String, words: String },
    /// How many messages has the user got?
    Count,
}

async fn join(store: &Arc<dyn Store>, node: &str) -> Result<Cluster, Box<dyn std::error::Error>> {
    let mut settings = Settings::new("chat", node)?;
    let mut links = LinkSettings::new((Ipv4Addr::LOCALHOST, 0).into());
    links.secret = Some(Password::new("a secret that all nodes share"));
    settings.links = Some(links);
    Ok(Cluster::join(Arc::clone(store), settings).await?)
}

/// A user connects here. Nobody else has this name until it is dropped, or this node is gone.
async fn connect(users: &Registry, name: &'static str) -> Result<Spawned, RegistryError> {
    let user = |mut inbox: Inbox<Said, usize>| async move {
        let mut heard = 0;
        while let Some(letter) = inbox.recv().await {
            if let Said::Hear { from, words } = &letter.message {
                heard += 1;
                println!("{name} hears from {from}: {words}");
            }
            // Nobody waits for an answer to what was merely sent.
            let _ = letter.reply(&heard);
        }
    };
    users.spawn(name, 100, user).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = tenure::open("sqlite::memory:").await?;
    let (here, there) = (join(&store, "here").await?, join(&store, "there").await?);
    let (users_here, users_there) = (here.registry("users").await?, there.registry("users").await?);

    let alice = connect(&users_here, "alice").await?;
    let bob = connect(&users_there, "bob").await?;
    if let Err(taken) = connect(&users_there, "alice").await {
        println!("{taken}");
    }

    let said = |from: &str, words: &str| Said::Hear { from: from.into(), words: words.into() };
    // Each from the node that the other is not on: `here` learns of bob as soon as it is told.
    while users_here.whereis("bob").is_none() {
        Env::system().sleep(Duration::from_millis(1)).await;
    }
    users_here.send("bob", &said("alice", "hello")).await?;
    users_there.send("alice", &said("bob", "hello yourself")).await?;
    let heard: usize = users_here.call("bob", &Said::Count, Duration::from_secs(5)).await?;
    println!("bob has heard {heard}");

    drop((alice, bob));
    here.leave().await;
    there.leave().await;
    Ok(())
}
