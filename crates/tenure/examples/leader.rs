//! Elects a leader. Start it several times with the same URL and different names, and kill the one that leads:
//! `cargo run --example leader -- sqlite:office.db one`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use tenure::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "sqlite::memory:".into());
    // Without a name nobody else is there: it leads for a moment, and goes.
    let name = args.next();
    let settings = Settings::new("example", name.as_deref().unwrap_or("one"))?;
    let cluster = Cluster::join(tenure::open(&url).await?, settings).await?;
    let office = cluster.election("office")?;
    loop {
        println!("waiting for the office");
        let leadership = office.campaign().await?;
        println!("leading in term {}, for {:?} at least", leadership.term(), leadership.remaining());
        if name.is_none() {
            leadership.resign().await?;
            cluster.leave().await;
            return Ok(());
        }
        leadership.lost().await;
        println!("lost the office");
    }
}
