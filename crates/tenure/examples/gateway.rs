//! A gateway for devices: each is connected to one node, and commands find it from any other. When its node goes, the device connects elsewhere, and commands follow.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use tenure::{
    cluster::peer::LinkSettings,
    prelude::*,
    registry::{Event, Spawned},
    store::Password,
};

const DEVICES: usize = 6;

struct Gateway {
    name: &'static str,
    cluster: Cluster,
    devices: Registry,
}

impl Gateway {
    async fn start(store: &Arc<dyn Store>, name: &'static str) -> Result<Self, Box<dyn std::error::Error>> {
        let mut settings = Settings::new("devices", name)?;
        let mut links = LinkSettings::new((Ipv4Addr::LOCALHOST, 0).into());
        links.secret = Some(Password::new("a secret that all nodes share"));
        settings.links = Some(links);
        let cluster = Cluster::join(Arc::clone(store), settings).await?;
        let devices = cluster.registry("devices").await?;
        Ok(Self { name, cluster, devices })
    }

    /// A device has connected here: commands for it come into its inbox.
    async fn accept(&self, device: &str) -> Result<Spawned, RegistryError> {
        let (here, device_name) = (self.name, device.to_owned());
        let connection = move |mut inbox: Inbox<String, String>| async move {
            while let Some(letter) = inbox.recv().await {
                let done = format!("{device_name} at {here} did {:?}", letter.message);
                let _ = letter.reply(&done);
            }
        };
        self.devices.spawn(device, 16, connection).await
    }

    /// A command for a device, wherever it is.
    async fn command(&self, device: &str, command: &str) -> Result<String, RegistryError> {
        self.devices.call(device, &command.to_owned(), Duration::from_secs(5)).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = tenure::open("sqlite::memory:").await?;
    let (east, west) = (Gateway::start(&store, "east").await?, Gateway::start(&store, "west").await?);
    let mut changes = west.devices.subscribe(Query::all().named("device-"));

    let mut connected = Vec::new();
    for number in 0..DEVICES {
        let gateway = if number % 2 == 0 { &east } else { &west };
        connected.push((number, gateway.accept(&format!("device-{number}")).await?));
    }
    // `west` has heard of all of them when it has seen so many.
    let mut known = 0;
    while known < DEVICES {
        match changes.next().await {
            Event::Snapshot { entries, .. } => known = entries.len(),
            Event::Joined { .. } => known += 1,
            _ => {}
        }
    }
    for number in 0..DEVICES {
        println!("{}", west.command(&format!("device-{number}"), "blink").await?);
    }

    println!("east goes, and its devices connect to west");
    east.cluster.leave().await;
    for (number, old) in &mut connected {
        if *number % 2 == 0 {
            *old = loop {
                // Its name is free as soon as the end of `east` is known.
                match west.accept(&format!("device-{number}")).await {
                    Err(RegistryError::Taken { .. }) => Env::system().sleep(Duration::from_millis(5)).await,
                    connected => break connected?,
                }
            };
        }
    }
    for number in 0..DEVICES {
        println!("{}", west.command(&format!("device-{number}"), "blink").await?);
    }
    drop(connected);
    west.cluster.leave().await;
    Ok(())
}
