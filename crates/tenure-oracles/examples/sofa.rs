//! Contends for a lock of SOFA's registry: `cargo run --example sofa --
//! "sofa+mysql://localhost/registry?data_center=dc&lock=NIGHTLY"`.
//!
//! It tells how the lock stands, and then stands for it. Start it several times: one leads.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use tenure_singleton::{Mandate, SingletonBuilder};

#[path = "shared/mod.rs"]
mod shared;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = shared::url(
        "sofa",
        "TENURE_TEST_MARIADB",
        "mysql://root@localhost/test",
        "lock=NIGHTLY&duration=10s",
    );
    let settings = tenure_oracles::SofaSettings::from_url(&url, "NIGHTLY", &shared::node())?;
    let mut oracle = tenure_oracles::DistributeLock::new(settings)?;
    match oracle.observe().await {
        Ok(Some(lock)) => println!("it is {}'s, in term {}, for {:?}", lock.owner, lock.term, lock.left),
        Ok(None) => println!("nobody ever had the lock"),
        Err(error) => println!("{error}"),
    }
    let nightly = SingletonBuilder::with_oracle("NIGHTLY", oracle, |mandate: Mandate| async move {
        println!("leading, in term {:?}", mandate.term());
        mandate.cancelled().await;
        println!("stopping");
    });
    shared::run(nightly).await
}
