//! Runs where Oban has its leader: `cargo run --example oban --
//! "oban+postgres://localhost/app?name=Oban&node=web@host"`.
//!
//! The node is what Oban calls it: see the column `node` of `oban_peers`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use tenure_singleton::{Mandate, SingletonBuilder};

#[path = "shared/mod.rs"]
mod shared;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url =
        shared::url("oban", "TENURE_TEST_POSTGRES", "postgres://postgres@localhost/postgres", "name=Oban");
    let settings = tenure_oracles::ObanSettings::from_url(&url, &shared::node())?;
    println!("looking for {} as the leader of {}", settings.node, settings.name);
    let oracle = tenure_oracles::ObanPeer::new(settings)?;
    let beside = SingletonBuilder::with_oracle("beside Oban", oracle, |mandate: Mandate| async move {
        println!("leading, since {:?} microseconds after 1970", mandate.term());
        mandate.cancelled().await;
        println!("stopping");
    });
    shared::run(beside).await
}
