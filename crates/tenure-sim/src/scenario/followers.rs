//! Followers: watchers that lose and delay their wakings, and must see the last change all the same.

use std::time::Duration;

use tenure_store::{Bytes, Commit, Faults, Key, Range, Store as _, StoreExt as _};

use super::{CALM, calm, cut_and_heal};
use crate::{Node, World, invariant::Converged};

const FOLLOWERS: usize = 3;
const CHANGES: u64 = 25;

/// How a follower goes about it: rightly, or in a way that a test wants to see fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// Makes the watch, then reads, then waits.
    WatchThenRead,
    /// Reads, then makes the watch: what changes in between is missed.
    ReadThenWatch,
}

/// A writer counts up; followers watch over faulty links. Each must have seen the last count some time after calm has come.
///
/// # Errors
/// When a follower went back, or never saw the end.
pub async fn followers(world: World, following: Following) -> Result<(), String> {
    let faults = Faults {
        unavailable: 0.2,
        delay: Duration::from_millis(3),
        watch_lost: 0.2,
        watch_late: 0.3,
        ..Faults::NONE
    };
    let nodes: Vec<Node> = (0..FOLLOWERS).map(|at| world.node(format!("follower{at}"), faults)).collect();
    let cutting = tokio::spawn(cut_and_heal(world.clone(), nodes.clone()));
    let follow: Vec<_> = nodes.iter().map(|node| tokio::spawn(follow(node.clone(), following))).collect();
    for count in 1..=CHANGES {
        world.env.sleep(world.env.random_time(Duration::from_millis(20))).await;
        world.trace.record(format_args!("the writer counts {count}"));
        let commit = Commit::new().set(counter(), Bytes::copy_from_slice(&count.to_be_bytes()));
        world.store.commit(commit).await.expect("the bare store has no faults");
    }
    cutting.abort();
    calm(&nodes);
    for (node, task) in nodes.iter().zip(follow) {
        match world.env.timeout(CALM, task).await {
            Ok(ended) => ended.expect("a follower does not panic")?,
            Err(_) => return Err(format!("{} never saw the last change", node.name)),
        }
    }
    Ok(())
}

/// Follows until the last count was seen.
async fn follow(node: Node, following: Following) -> Result<(), String> {
    let mut converged = Converged::default();
    let mut watch = node.watch(Range::Key(counter()));
    loop {
        let found = loop {
            match node.get(&counter()).await {
                Ok(found) => break found,
                Err(_) => node.env.sleep(Duration::from_millis(5)).await,
            }
        };
        let count =
            found.map_or(0, |found| u64::from_be_bytes(found.value[..].try_into().expect("eight bytes")));
        node.record(format_args!("sees {count}"));
        converged.sees(count)?;
        if converged.has_seen(CHANGES) {
            return Ok(());
        }
        if following == Following::ReadThenWatch {
            watch = node.watch(Range::Key(counter()));
        }
        watch.changed().await;
    }
}

fn counter() -> Key {
    Key::from("counter")
}
