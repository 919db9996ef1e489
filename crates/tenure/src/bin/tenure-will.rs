//! `tenure-will`: keeps the last will of one node, and ends its session when the node is dead.
//!
//! It is started by the node, through the setting `last_will`, and by nobody else: what it needs to know comes over its standard input.

use std::{process::ExitCode, sync::Arc, time::Duration};

use tenure::{
    cluster::will::{self, Will},
    prelude::Env,
};

/// How long it stays when all is done: some stores tell others of a commit only after it was made, by another connection.
const TELLING: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    will::executor(end_session)
}

fn end_session(will: &Will) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let store = tenure::open(will.url()).await.map_err(|error| error.to_string())?;
        will::carry_out(will, Arc::clone(&store)).await.map_err(|error| error.to_string())?;
        Env::system().sleep(TELLING).await;
        drop(store);
        Ok(())
    })
}
