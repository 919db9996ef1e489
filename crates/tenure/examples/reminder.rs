//! Timers are durable: they are set by one process, and come true in another.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{prelude::*, server::Timer};

#[derive(Default)]
struct Diary;

/// What is planned, and what has come true.
#[derive(Default, State)]
#[state(crate = "tenure::server")]
struct Pages {
    /// Timers can be stored, to be cancelled from any node.
    #[state(parts)]
    planned: Map<String, Timer>,
    #[state(parts)]
    reminders: List<String>,
}

#[derive(Serialize, Deserialize)]
enum Entry {
    Plan { what: String, in_ms: u64 },
    CallOff(String),
    Remind(String),
}

impl Server for Diary {
    const KIND: &'static str = "diary";
    type State = Pages;
    type Call = Never;
    type Reply = Never;
    type Cast = Entry;
    type Effect = Never;

    fn handle_call(
        &self,
        _: &mut Pages,
        call: &Never,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<Never>, Failure> {
        match *call {}
    }

    fn handle_cast(
        &self,
        pages: &mut Pages,
        entry: &Entry,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        match entry {
            Entry::Plan { what, in_ms } => {
                let (own, remind) = (context.id().clone(), Entry::Remind(what.clone()));
                let timer =
                    context.cast_after::<Self>(own.as_str(), Duration::from_millis(*in_ms), &remind)?;
                pages.planned.insert(what.clone(), timer);
            }
            Entry::CallOff(what) => {
                if let Some(timer) = pages.planned.remove(what) {
                    context.cancel(&timer);
                }
            }
            Entry::Remind(what) => {
                pages.planned.remove(what);
                pages.reminders.push_back(what.clone());
            }
        }
        Ok(())
    }
}

fn plan(what: &str, in_ms: u64) -> Entry {
    Entry::Plan { what: what.into(), in_ms }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("diary.db").display());

    let first = Cluster::join(tenure::open(&url).await?, Settings::new("example", "first")?).await?;
    first.serve::<Diary>()?;
    let diary = first.server::<Diary>("ann")?;
    diary.cast(plan("water the plants", 2000)).await?;
    diary.cast(plan("call the plumber", 2100)).await?;
    diary.cast(Entry::CallOff("call the plumber".into())).await?;
    // A sender can set timers too, and take them back.
    let meeting = diary.cast_after(Duration::from_millis(2200), Entry::Remind("meeting".into())).await?;
    diary.cast_after(Duration::from_millis(2300), Entry::Remind("lunch".into())).await?;
    assert!(first.cancel(&meeting).await?);
    assert_eq!(diary.read(|pages| pages.reminders.len()).await?, 0);
    drop(diary);
    first.leave().await;
    drop(first);
    println!("the first process is gone, before anything was due");

    let second = Cluster::join(tenure::open(&url).await?, Settings::new("example", "second")?).await?;
    second.serve::<Diary>()?;
    let (diary, env) = (second.server::<Diary>("ann")?, Env::system());
    let reminders = loop {
        let reminders = diary
            .read(|pages| pages.reminders.iter().map(|(_, what)| what.clone()).collect::<Vec<_>>())
            .await?;
        if reminders.len() == 2 {
            break reminders;
        }
        env.sleep(Duration::from_millis(20)).await;
    };
    println!("the second process was reminded: {reminders:?}");
    assert_eq!(reminders, ["water the plants", "lunch"]);
    assert!(diary.read(|pages| pages.planned.is_empty()).await?);
    second.leave().await;
    Ok(())
}
