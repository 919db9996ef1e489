//! Lanes: makers of commits that lose their answers, meet conflicts, are cut off and have their lanes taken over.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_store::{Check, Commit, Env, Faults, Key, Lane, LaneError, Store, StoreExt as _};

use super::{CALM, RETRY, calm, cut_and_heal};
use crate::{
    Node, World,
    invariant::{ExactlyOnce, Outcome},
};

const MAKERS: usize = 3;
const COMMITS: usize = 12;

/// What a run of the scenario told, to see that a sweep of seeds was not idle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Commits acknowledged.
    pub acknowledged: u64,
    /// Commits refused.
    pub refused: u64,
    /// Commits whose outcome stayed unknown.
    pub unknown: u64,
    /// Answers that were lost on the way.
    pub answers_lost: u64,
}

/// What makes commits for a maker: a [`Lane`], or something worse that a test wants to see fail.
pub trait Runner: Sized + 'static {
    /// Opens a runner on the maker's key.
    fn open(node: &Node, key: Key) -> impl Future<Output = Result<Self, LaneError>>;
    /// Makes one commit.
    fn commit(&mut self, commit: Commit) -> impl Future<Output = Result<(), LaneError>>;
}

impl Runner for Lane {
    async fn open(node: &Node, key: Key) -> Result<Self, LaneError> {
        Lane::open(node.store(), node.env.clone(), key, RETRY).await
    }

    async fn commit(&mut self, commit: Commit) -> Result<(), LaneError> {
        Lane::commit(self, commit).await.map(|_| ())
    }
}

/// Makers that each make a dozen commits under a storm of faults. Every commit appends its name to one list; some also check that a flag
/// is not raised, which others keep raising and lowering.
///
/// # Errors
/// What was told and does not agree with what is there when all is calm.
pub async fn lanes<R: Runner>(world: World) -> Result<Told, String> {
    let nodes: Vec<Node> = (0..MAKERS).map(|at| world.node(format!("maker{at}"), Faults::STORM)).collect();
    let told = Arc::new(Mutex::new(ExactlyOnce::default()));
    let cutting = tokio::spawn(cut_and_heal(world.clone(), nodes.clone()));
    let flagging = tokio::spawn(raise_and_lower(world.clone()));
    let taking_over = tokio::spawn(take_over(world.clone()));

    let local = tokio::task::LocalSet::new();
    let makers: Vec<_> =
        nodes.iter().map(|node| local.spawn_local(make::<R>(node.clone(), Arc::clone(&told)))).collect();
    local
        .run_until(async {
            for maker in makers {
                maker.await.expect("a maker ends by itself");
            }
        })
        .await;

    cutting.abort();
    flagging.abort();
    taking_over.abort();
    calm(&nodes);
    world.env.sleep(CALM).await;

    let there = names(&world).await;
    let told = told.lock();
    told.check(&there)?;
    in_order(&there)?;
    let lost =
        |node: &Node| node.tally().unknown_landed + node.tally().unknown_lost + node.tally().unknown_late;
    Ok(Told {
        acknowledged: told.count(Outcome::Acknowledged),
        refused: told.count(Outcome::Refused),
        unknown: told.count(Outcome::Unknown),
        answers_lost: nodes.iter().map(lost).sum(),
    })
}

async fn make<R: Runner>(node: Node, told: Arc<Mutex<ExactlyOnce>>) {
    let key = lane_of(&node.name);
    let mut runner = open::<R>(&node, &key).await;
    for number in 0..COMMITS {
        let name = format!("{} {number:03}", node.name);
        let mut commit = Commit::new().append(list(), name.clone().into_bytes());
        if node.env.chance(0.5) {
            commit = commit.check(Check::Absent(flag()));
        }
        let result = runner.commit(commit).await;
        node.record(format_args!("was told of {name}: {result:?}"));
        told.lock().told(name, Outcome::from(&result));
        // Now and then the process starts anew: another owner takes the lane over, with whatever is under way on it.
        if node.env.chance(0.15) || matches!(result, Err(LaneError::Lost { .. })) {
            runner = open::<R>(&node, &key).await;
        }
    }
}

async fn open<R: Runner>(node: &Node, key: &Key) -> R {
    loop {
        match R::open(node, key.clone()).await {
            Ok(runner) => return runner,
            Err(error) => node.record(format_args!("can't open its lane: {error}")),
        }
    }
}

/// Raises and lowers the flag for ever, without faults.
async fn raise_and_lower(world: World) {
    let env: Env = world.env.fork();
    loop {
        env.sleep(env.random_time(Duration::from_millis(40))).await;
        let raised = world.store.get(&flag()).await.expect("the bare store has no faults").is_some();
        let commit = if raised { Commit::new().delete(flag()) } else { Commit::new().set(flag(), "raised") };
        world.store.commit(commit).await.expect("the bare store has no faults");
    }
}

/// Takes lanes over at any moment, as a second process of the same name would, and uses them once or not at all.
async fn take_over(world: World) {
    let env = world.env.fork();
    loop {
        env.sleep(env.random_time(Duration::from_millis(300))).await;
        let victim = lane_of(&format!("maker{}", env.random_in(0..MAKERS as u64)));
        let store = Arc::clone(&world.store) as Arc<dyn Store>;
        // What is no lane can't be taken over: some runners that a test wants to see fail have none.
        if let Ok(mut lane) = Lane::open(store, env.clone(), victim, RETRY).await
            && env.chance(0.5)
        {
            Runner::commit(&mut lane, Commit::new().set(Key::from("taken"), "over"))
                .await
                .expect("the bare store has no faults");
        }
    }
}

async fn names(world: &World) -> Vec<String> {
    let page = world.store.entries(&list(), 10_000).await.expect("the bare store has no faults");
    page.items.iter().map(|entry| String::from_utf8_lossy(&entry.value).into_owned()).collect()
}

/// Each maker's commits are there in the order in which it made them.
fn in_order(there: &[String]) -> Result<(), String> {
    for maker in 0..MAKERS {
        let prefix = format!("maker{maker} ");
        let own: Vec<&String> = there.iter().filter(|name| name.starts_with(&prefix)).collect();
        if !own.is_sorted() {
            return Err(format!("the commits of one maker are out of order: {own:?}"));
        }
    }
    Ok(())
}

fn lane_of(maker: &str) -> Key {
    Key::from(format!("lane/{maker}").as_str())
}

fn list() -> Key {
    Key::from("list")
}

fn flag() -> Key {
    Key::from("flag")
}
