//! Many processes that open an empty database at the same moment. Started with a URL, this program is one of them.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    process::{Command, ExitCode},
    sync::mpsc,
    thread,
};

use libtest_mimic::{Arguments, Failed, Trial};
use tenure_postgres::PostgresStore;
use tenure_store::{Commit, Key, Store as _, StoreExt as _};

mod schemas;

/// Tells a process that it is one of many, and where.
const URL: &str = "TENURE_OPEN_URL";

const PROCESSES: usize = 20;

fn main() -> ExitCode {
    if let Ok(url) = std::env::var(URL) {
        runtime().block_on(open(&url));
        return ExitCode::SUCCESS;
    }
    let trial = Trial::test("twenty_processes_open_an_empty_database_at_once", twenty);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn open(url: &str) {
    let store = PostgresStore::open(url).await.unwrap();
    store.commit(Commit::new().append(Key::from("opened"), "here")).await.unwrap();
}

fn twenty() -> Result<(), Failed> {
    let name = format!("twenty_{}", std::process::id());
    let schema = schemas::Schema::new(&tenure_testbed::postgres(), &name);
    let url = schema.url("");
    let program = std::env::current_exe()?;
    let (done, outcomes) = mpsc::channel();
    for _ in 0..PROCESSES {
        let (program, url, done) = (program.clone(), url.clone(), done.clone());
        thread::spawn(move || done.send(Command::new(program).env(URL, url).output()));
    }
    for _ in 0..PROCESSES {
        let output = outcomes.recv()??;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
    }
    let opened = runtime().block_on(async {
        let store = PostgresStore::open(&url).await.unwrap();
        store.entries(&Key::from("opened"), 100).await.unwrap().items.len()
    });
    if opened == PROCESSES { Ok(()) } else { Err(format!("{opened} of {PROCESSES} have opened").into()) }
}
