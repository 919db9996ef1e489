//! An oracle without a question: the application is told who leads, by a webhook or a message, and passes it on.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use tenure_singleton::{Mandate, SignalsOracle, SingletonBuilder, Standby};
use tenure_store::Env;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let env = Env::system();
    let (signaller, oracle) = SignalsOracle::new();
    let nightly = SingletonBuilder::with_oracle("nightly", oracle, |mandate: Mandate| async move {
        println!("leading, in term {:?}", mandate.term());
        mandate.cancelled().await;
        println!("stopping");
    })
    .follower(|standby: Standby| async move {
        println!("standing by");
        standby.cancelled().await;
    })
    .start()?;

    // What a handler of messages would do.
    for (term, time) in [(1, 300), (2, 200)] {
        env.sleep(Duration::from_millis(200)).await;
        signaller.grant(Some(term));
        env.sleep(Duration::from_millis(time)).await;
        signaller.revoke();
    }
    env.sleep(Duration::from_millis(100)).await;
    nightly.shutdown().await;
    Ok(())
}
