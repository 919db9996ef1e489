//! A long job as locked work: it runs outside of any commit, priority messages are answered meanwhile, all others wait, and what it found is folded into the state.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tenure::{prelude::*, server::LockedRequest};
use tokio::sync::Notify;

/// Makes reports. What a node needs for its work (a client, a pool, here: somebody who says when the work is done) is part of the server's value.
struct Printer {
    done: Arc<Notify>,
}

/// What the printer remembers, in the order in which it happened.
type Log = Vec<String>;

#[derive(Serialize, Deserialize)]
enum Ask {
    Print(String),
    WhatHappened,
}

impl Server for Printer {
    const KIND: &'static str = "printer";
    type State = Log;
    type Call = Ask;
    type Reply = Log;
    type Cast = String;
    type Effect = Never;

    fn handle_call(
        &self,
        log: &mut Log,
        ask: &Ask,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Log>, Failure> {
        match ask {
            Ask::Print(report) => {
                log.push(format!("{report} begun"));
                // Takes effect when this is committed. The answer comes from the fold.
                context.lock()?;
                Ok(None)
            }
            Ask::WhatHappened => Ok(Some(log.clone())),
        }
    }

    fn handle_cast(&self, log: &mut Log, note: &String, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        log.push(note.clone());
        Ok(())
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        let LockedRequest::Call(ask) = &locked.request else {
            return Err(Failure::new("a cast never locks"));
        };
        let Ask::Print(report) = &**ask else { return Err(Failure::new("only printing locks")) };
        // The long part: minutes, if need be. If this process goes, another node does it again.
        self.done.notified().await;
        let line = format!("{report} printed");
        Ok(Fold::new(move |log: &mut Log, _| {
            log.push(line.clone());
            Ok(Some(log.clone()))
        }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = tenure::open("sqlite::memory:").await?;
    let worker = Cluster::join(Arc::clone(&store), Settings::new("example", "worker")?).await?;
    let client = Cluster::join(store, Settings::new("example", "client")?).await?;
    let done = Arc::new(Notify::new());
    worker.serve_with(Printer { done: Arc::clone(&done) })?;

    let printer = client.server::<Printer>("first-floor")?;
    let (asked, patience) = (printer.clone(), CallOptions::default().timeout(Duration::from_secs(30)));
    let job =
        tokio::spawn(async move { asked.call_with(Ask::Print("annual report".into()), patience).await });
    while !printer.status().await?.is_some_and(|status| status.is_locked) {
        Env::system().sleep(Duration::from_millis(5)).await;
    }

    printer.cast("paper refilled".into()).await?;
    let meanwhile = printer.priority_call(Ask::WhatHappened, CallOptions::default()).await?;
    println!("meanwhile: {meanwhile:?}");
    assert_eq!(meanwhile, ["annual report begun"]);

    done.notify_one();
    let result = job.await??;
    println!("the job's answer: {result:?}");
    assert_eq!(result, ["annual report begun", "annual report printed"]);

    // What waited for the job comes behind it.
    let after = printer.call(Ask::WhatHappened).await?;
    println!("afterwards: {after:?}");
    assert_eq!(after, ["annual report begun", "annual report printed", "paper refilled"]);
    client.leave().await;
    worker.leave().await;
    Ok(())
}
