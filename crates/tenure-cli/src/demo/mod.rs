//! `tenure demo`: three nodes as real processes, whose leader is killed again and again, while a counter counts on.
//!
//! | file | what it has |
//! | --- | --- |
//! | `show.rs` | what happens, step by step, and the verdict |
//! | `ledger.rs` | whether an increment was lost or made twice |
//! | `node.rs`, `wire.rs` | a node, and what it and the demo say to each other |
//! | `process.rs`, `janitor.rs` | processes that die with the demo; what removes what they leave |
//! | `view.rs` | how it looks |

pub(crate) mod janitor;
pub(crate) mod node;

mod ledger;
mod process;
mod show;
mod view;
mod wire;

use std::{path::PathBuf, time::Duration};

use anyhow::ensure;
use clap::Args;
use tenure::store::Env;
use tokio::signal::unix::{SignalKind, signal};

use self::{janitor::Janitor, process::Place, show::Show, view::View};
use crate::{
    exit::Exit,
    options::{duration, open},
};

/// See it at work: three processes, a leader that is killed again and again, and not one increment lost.
#[derive(Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct DemoOptions {
    /// End after so many takeovers [default: go on until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Run on this store, in a cluster of its own that is removed at the end [default: a new SQLite file]
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// How long to wait between two kills
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pause: Duration,

    /// Print lines, as for a log; so it is when the output is no terminal
    #[arg(long)]
    plain: bool,
}

const CODES: &str = "\
It ends with 0 if all was well, with 1 if an increment was lost or made twice or nobody took over in time, with 102 if the store can't be reached. Nothing is left when it ends, in whatever way.";

/// The code for a demo that went wrong.
const FLAWED: u8 = 1;

/// What time it is on the clock that all processes of this machine share.
pub(crate) fn boot_nanos() -> u64 {
    nanos(Env::system().now().since_start())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Shows it, until it is told to stop or all rounds are over.
pub(crate) async fn demo(options: DemoOptions) -> anyhow::Result<Exit> {
    let env = Env::system();
    let cluster = format!("demo-{:08x}", env.random_u64() >> 32);
    if let Some(url) = &options.store {
        ensure!(
            !matches!(url.as_str(), "memory:" | "sqlite::memory:"),
            "--store {url} is in the memory of one process, and the demo has several: give a store that they share, or none"
        );
        // Before anything is started.
        open(url).await?;
    }
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let folder: PathBuf = std::env::temp_dir().join(format!("tenure-{cluster}"));
    let _janitor = Janitor::start(&folder, &cluster, options.store.as_deref())?;
    let place = Place {
        url: options.store.clone().unwrap_or_else(|| format!("sqlite:{}", folder.join("store.db").display())),
        secret: format!("{:016x}{:016x}", env.random_u64(), env.random_u64()),
        cluster,
    };
    let mut view = View::new(options.plain);
    let mut show = Show::start(place, options.rounds, options.pause, &env)?;
    let mut stopping = false;
    let verdict = loop {
        tokio::select! {
            biased;
            () = async { tokio::select! { _ = int.recv() => {} _ = term.recv() => {} _ = hangup.recv() => {} } } => {
                if std::mem::replace(&mut stopping, true) {
                    return Ok(Exit::signalled(nix::libc::SIGINT));
                }
                show.stop();
            }
            () = show.hear() => {}
        }
        let verdict = show.step()?;
        view.draw(&mut show)?;
        if let Some(verdict) = verdict {
            break verdict;
        }
    };
    view.end(&show, &verdict)?;
    Ok(Exit::Command(if verdict.is_well() { 0 } else { FLAWED }))
}
