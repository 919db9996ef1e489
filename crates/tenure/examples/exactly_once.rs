//! Eight workers, one counter, and a way to the store that loses one answer in five: every increment counts once all the same.
//!
//! `cargo run --release --example exactly_once [URL]`

use std::sync::Arc;

use tenure::{
    prelude::*,
    store::{Faults, Faulty},
};

const WORKERS: u64 = 8;
const INCREMENTS: u64 = 250;

#[tokio::main]
#[allow(clippy::print_stdout, reason = "this is what it is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".into());
    let (store, env) = (tenure::open(&url).await?, Env::system());
    let losing = Faults { unknown_landed: 0.1, unknown_lost: 0.05, unknown_late: 0.05, ..Faults::NONE };
    let faulty = Arc::new(Faulty::new(Arc::clone(&store), env.fork(), losing));
    println!(
        "{WORKERS} workers count to {} in {store}, over a link that loses one answer in five",
        WORKERS * INCREMENTS
    );

    let start = env.now();
    let workers: Vec<_> =
        (0..WORKERS).map(|worker| tokio::spawn(work(worker, Arc::clone(&faulty), env.fork()))).collect();
    for worker in workers {
        worker.await??;
    }
    let (count, tally) = (count(store.as_ref()).await?, faulty.tally());
    println!("the counter says {count}, after {:.1?}", env.now() - start);
    println!(
        "answers lost: {}; of these commits",
        tally.unknown_landed + tally.unknown_lost + tally.unknown_late
    );
    println!(
        "  {} had landed, {} never did, {} landed late",
        tally.unknown_landed, tally.unknown_lost, tally.unknown_late
    );
    if count == WORKERS * INCREMENTS { Ok(()) } else { Err("an increment was lost or made twice".into()) }
}

async fn work(worker: u64, store: Arc<Faulty>, env: Env) -> Result<(), LaneError> {
    let key = Tuple::new().text("lane").int(worker).key();
    let mut lane = Lane::open(Arc::clone(&store) as Arc<dyn Store>, env, key, Retry::default()).await?;
    for _ in 0..INCREMENTS {
        lane.update(|| increment(store.as_ref())).await?;
    }
    Ok(())
}

async fn increment(store: &Faulty) -> Result<(Commit, ()), StoreError> {
    let found = store.get(&counter()).await?;
    let count = found.as_ref().map_or(0, |found| to_number(&found.value));
    let check = found.map_or(Check::Absent(counter()), |found| Check::Version(counter(), found.version));
    Ok((Commit::new().check(check).set(counter(), (count + 1).to_be_bytes().to_vec()), ()))
}

async fn count(store: &dyn Store) -> Result<u64, StoreError> {
    Ok(store.get(&counter()).await?.map_or(0, |found| to_number(&found.value)))
}

fn counter() -> Key {
    Key::from("counter")
}

fn to_number(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}
