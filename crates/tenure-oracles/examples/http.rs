//! Two nodes ask a lease service over HTTP who leads. The service is somebody else's: three routes and their status codes are all that is known of it.
//!
//! With an argument, such as `http://127.0.0.1:4040`, they ask the service there: `tenure serve` is one.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use tenure_oracles::{HttpLease, HttpSettings};
use tenure_singleton::{Mandate, Singleton, SingletonBuilder};

#[path = "shared/service.rs"]
mod service;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => format!("http://{}", service::start()?),
    };
    let (a, b) = (node(&url, "a")?, node(&url, "b")?);
    a.leads().await;
    println!("a leads; it is shut down");
    a.shutdown().await;
    b.leads().await;
    println!("b leads");
    b.shutdown().await;
    Ok(())
}

fn node(url: &str, name: &'static str) -> Result<Singleton, Box<dyn Error>> {
    // This service does not say how long a lease lives, so we must know: it is asked every second whether we still have it.
    let settings = HttpSettings::from_url(&format!("{url}?plain=true&ttl=5s&refresh=1s"), "nightly", name)?;
    let child = move |mandate: Mandate| async move {
        println!("  the child of {name} runs");
        mandate.cancelled().await;
        println!("  the child of {name} ends");
    };
    // The second claims later, so that the first is elected.
    let delay = if name == "a" { 0 } else { 500 };
    let builder = SingletonBuilder::with_oracle("nightly", HttpLease::new(settings)?, child);
    Ok(builder.policy(|policy| policy.claim_delay = std::time::Duration::from_millis(delay)).start()?)
}
