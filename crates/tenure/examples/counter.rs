//! A counter that outlives every process: a durable server in twenty lines, and several callers at once.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use tenure::prelude::*;

const CALLERS: u64 = 8;
const CALLS: u64 = 50;

#[derive(Default)]
struct Counter;

impl Server for Counter {
    const KIND: &'static str = "counter";
    type State = u64;
    type Call = u64;
    type Reply = u64;
    type Cast = Never;
    type Effect = Never;

    fn handle_call(
        &self,
        total: &mut u64,
        add: &u64,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        *total += add;
        Ok(Some(*total))
    }

    fn handle_cast(&self, _: &mut u64, cast: &Never, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        match *cast {}
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".into());
    let cluster = Cluster::join(tenure::open(&url).await?, Settings::new("example", "one")?).await?;
    cluster.serve::<Counter>()?;
    let visits = cluster.server::<Counter>("visits")?;
    let before = visits.read(|total| *total).await?;

    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(count(visits.clone()))).collect();
    let mut answers = Vec::new();
    for caller in callers {
        answers.extend(caller.await??);
    }

    // Every call was answered with a total of its own: none was lost, none counted twice.
    answers.sort_unstable();
    assert_eq!(answers, (before + 1..=before + CALLERS * CALLS).collect::<Vec<u64>>());
    println!("{CALLERS} callers counted from {before} to {}", visits.read(|total| *total).await?);
    cluster.leave().await;
    Ok(())
}

async fn count(visits: ServerRef<Counter>) -> Result<Vec<u64>, ServerError> {
    let mut answers = Vec::new();
    for _ in 0..CALLS {
        answers.push(visits.call(1).await?);
    }
    Ok(answers)
}
