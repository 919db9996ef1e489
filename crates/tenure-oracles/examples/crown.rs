//! Takes part in an election of Crown, beside Elixir nodes: `cargo run --example crown --
//! crown+postgres://localhost/app?lock=nightly`.
//!
//! Start it several times: one leads. End the one that leads, with Ctrl-C or in any other way, and another takes over.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use tenure_singleton::{Mandate, SingletonBuilder};

#[path = "shared/mod.rs"]
mod shared;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = shared::url(
        "crown",
        "TENURE_TEST_POSTGRES",
        "postgres://postgres@localhost/postgres",
        "lock=nightly&duration=10s",
    );
    let settings = tenure_oracles::CrownSettings::from_url(&url, "nightly", &shared::node())?;
    let oracle = tenure_oracles::CrownLease::new(settings)?;
    println!("{} stands", oracle.holder());
    let nightly = SingletonBuilder::with_oracle("nightly", oracle, |mandate: Mandate| async move {
        println!("leading, in term {:?}", mandate.term());
        mandate.cancelled().await;
        println!("stopping");
    });
    shared::run(nightly).await
}
