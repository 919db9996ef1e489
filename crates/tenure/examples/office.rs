//! An office that one process at a time holds. Start this program several times at once with the same path.
//!
//! `cargo run --example office -- sqlite:office.db`

use tenure::prelude::*;

#[tokio::main]
#[allow(clippy::print_stdout, reason = "this is what it is for")]
async fn main() -> Result<(), CommitError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".into());
    let store = tenure::open(&url).await?;
    let (office, me) = (Key::from("office"), std::process::id());
    let mut watch = store.watch(Range::Key(office.clone()));
    loop {
        let claim = Commit::new().check(Check::Absent(office.clone())).set(office.clone(), me.to_string());
        match store.commit(claim).await {
            Ok(_) => break println!("process {me} holds the office"),
            Err(CommitError::Conflict(_)) => watch.changed().await,
            Err(error) => return Err(error),
        }
    }
    store.commit(Commit::new().delete(office)).await?;
    Ok(())
}
