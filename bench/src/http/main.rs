//! `cargo xtask bench http`: claims and refreshes of leases over HTTP, at a fixed rate.
//!
//! The load is open: each request is due at a moment of its own, and its time is counted from then, whether or not those before it were slow. Many holders share connections that stay
//! open. A tenth of the requests are claims, of leases that a holder takes in turns; the others refresh what it has.
//!
//! Without `--store URL` the daemon's store is SQLite, in a directory beside the project. With it, it is that store, under a cluster of its own, which is deleted at the end.

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

mod client;
mod daemon;
mod options;

use std::{net::SocketAddr, time::Duration};

use tenure_bench::figures::{line, milliseconds, per_second, quantile, verdict};
use tenure_store::{Env, Moment};

use crate::{client::Client, daemon::Daemon, options::Options};

/// Connections that stay open.
const CONNECTIONS: u64 = 64;

/// Holders of leases, in all.
const HOLDERS: u64 = 1024;

/// Every so many requests of a holder, one is a claim.
const CLAIM_EVERY: u64 = 10;

/// How many leases a holder takes in turns.
const LEASES: u64 = 4;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = Options::parse(&args) else {
        println!("{}", options::USAGE);
        std::process::exit(2);
    };
    let runtime = tenure_bench::runtime();
    let daemon = Daemon::start(&runtime, &options);
    let (address, env) = (daemon.address, Env::system());
    let (mut times, errors, took) = runtime.block_on(async {
        let start = env.now().after(Duration::from_millis(200));
        let tasks: Vec<_> = (0..CONNECTIONS)
            .map(|number| tokio::spawn(drive(address, number, start, options.clone())))
            .collect();
        let (mut times, mut errors) = (Vec::new(), Vec::new());
        for task in tasks {
            let (these, failed) = task.await.unwrap();
            times.extend(these);
            errors.extend(failed);
        }
        (times, errors, env.now() - start)
    });
    let count = times.len() as u64;
    let served = per_second(count as f64 / took.as_secs_f64());
    line("claims and refreshes", served, format!("asked for: {}/s, for {:?}", options.rate, options.time));
    for (name, part) in [("half of them within", 0.5), ("99 of 100 within", 0.99), ("all within", 1.0)] {
        line(name, milliseconds(Duration::from_secs_f64(quantile(&mut times, part))), String::new());
    }
    line("memory of the daemon, at most", format!("{} MiB", daemon.memory_mib()), String::new());
    for error in errors.iter().take(5) {
        println!("{error}");
    }
    line("errors, of which there may be none", errors.len().to_string(), verdict(errors.is_empty()));
    daemon.end(&runtime);
}

/// Makes the requests of one connection, each when it is due. Returns how long each took, in seconds, and what went wrong.
async fn drive(address: SocketAddr, number: u64, start: Moment, options: Options) -> (Vec<f64>, Vec<String>) {
    let env = Env::system();
    let mut client = Client::connect(address).await;
    let (mut times, mut errors) = (Vec::new(), Vec::new());
    let between = Duration::from_secs(CONNECTIONS) / options.rate;
    // Connections are not in step.
    let first = start.after(between * u32::try_from(number).unwrap() / u32::try_from(CONNECTIONS).unwrap());
    let holders = HOLDERS / CONNECTIONS;
    let requests = options.time.as_micros() / between.as_micros();
    for turn in 0..u64::try_from(requests).unwrap() {
        let due = first.after(between * u32::try_from(turn).unwrap());
        env.sleep(due - env.now()).await;
        let holder = number * holders + turn % holders;
        let round = turn / holders;
        let lease = round / CLAIM_EVERY % LEASES;
        let verb = if round.is_multiple_of(CLAIM_EVERY) { "claim" } else { "refresh" };
        let path = format!("/locks/lease-{holder}-{lease}/{verb}");
        let body = format!(r#"{{"holder": "holder-{holder}", "ttl_ms": 60000}}"#);
        match client.post(&path, &body).await {
            Ok(200) => times.push((env.now() - due).as_secs_f64()),
            Ok(status) => errors.push(format!("{path}: {status}")),
            Err(error) => {
                errors.push(format!("{path}: {error}"));
                client = Client::connect(address).await;
            }
        }
    }
    (times, errors)
}
