//! A write that only the present leader can make, however late it arrives.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use tenure::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = tenure::open("sqlite::memory:").await?;
    let cluster = Cluster::join(Arc::clone(&store), Settings::new("example", "one")?).await?;
    let office = cluster.election("office")?;
    let report = Key::from("report");

    let first = office.campaign().await?;
    // Made now, and sent after the office has passed on: as if the process had been paused in between.
    let late = first.guarded(Commit::new().set(report.clone(), "by the first"));
    first.resign().await?;

    let second = office.campaign().await?;
    store.commit(second.guarded(Commit::new().set(report.clone(), "by the second"))).await?;
    let refusal = store.commit(late).await;
    println!("term {} wrote the report; the late write of the term before: {refusal:?}", second.term());
    assert!(matches!(refusal, Err(CommitError::Conflict(_))));
    assert_eq!(store.get(&report).await?.expect("it was written").value, "by the second");
    cluster.leave().await;
    Ok(())
}
