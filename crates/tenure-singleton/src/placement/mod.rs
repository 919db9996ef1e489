//! Placement: many singletons, spread evenly over the nodes of a cluster.
//!
//! # What it promises
//! - **Even.** Singletons that are [spread](crate::SingletonBuilder::spread) run where there is the least load in
//!   proportion to capacity, on nodes that have the labels they ask for.
//! - **Calm.** Who runs one keeps it, until its node goes or the spread is off by more than a twentieth. Then at most
//!   [a few](Placement::set_moves) are moved in a renewal interval, each to a node that already stands for it: its
//!   child stops, one commit, the other's starts.
//! - **Safe without it.** Who runs what is decided by the election of each singleton, as without placement. Placement
//!   only decides who stands. Should it be wrong, late or gone, nothing runs twice.
//! - **Alive without it.** When nobody has placed anything for about two and a half ttl, each node takes what is free.
//!
//! # What is durable and what is local
//! Durable, among the belongings of each node's session: what it offers, what it runs, and what it is told to run
//! (`record.rs` has the keys). They go with the session. Local to the placer: who is slow to take what it was given,
//! and how many moves were begun lately.
//!
//! # How
//! 1. Each node writes which singletons it knows, hundreds in a key, and which of them it runs.
//! 2. One node is the placer: the leader of the election `tenure/placer`. It watches members, offers and runs,
//!    collects what changes for some milliseconds, and decides (`plan.rs`).
//! 3. It writes to each node what that is to run: its *posts*. Every such commit carries the guard of its office, and
//!    checks that the sessions exist.
//! 4. A node follows one watch, over its own posts. It stands where it has a post, and nowhere else.
//! 5. A move: the heir gets a post, and the present one is told to yield to it. When the heir stands, the present one
//!    stops the child and hands over, in one commit. If the heir does not stand within two ttl, nothing happens, and
//!    another is tried.
//! 6. A node that [leaves](tenure_cluster::Cluster::leave) withdraws its offers first, and is relieved of all that
//!    others can run before it stops the rest.
//!
//! # What it costs
//! At rest: one small commit of the placer each half ttl, one read of it by each node, and what it costs each node to
//! stand as the placer. Nothing for a singleton on a node that does not run it.
//!
//! # Capacity
//! A node's capacity is its label [`capacity`](CAPACITY_LABEL), a number above zero; 1 without it. Only proportions
//! count.
//!
//! # What it never does
//! It starts or stops no child itself, moves nothing that is on its way, and considers single moves only, never swaps.
//!
//! | metric | kind | what it counts |
//! | --- | --- | --- |
//! | `tenure_placement_moves_total` | counter | moves begun by this node, as the placer, to even out |
//! | `tenure_placement_homeless` | gauge | singletons that no node may run, as the placer knows |

mod assess;
mod board;
mod book;
mod census;
mod follower;
mod herald;
mod oracle;
mod placer;
mod plan;
mod record;
mod store;
mod substitute;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_cluster::{Cluster, Ground, SessionId};
use tenure_store::{Name, StoreError};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{ElectionOracle, runner::Order};
use board::Board;
use census::Census;
use follower::Follower;
use herald::Herald;
use placer::Placer;
use plan::Spot;
use record::Offer;
use substitute::Substitute;

pub(crate) use oracle::SpreadOracle;

/// The label of a node that says how much it takes in proportion to others.
pub const CAPACITY_LABEL: &str = "capacity";

/// Loads and capacities are counted in thousandths.
const UNIT: u64 = 1000;

/// How many moves may be begun in one renewal interval, if nothing else is said.
const MOVES: usize = 10;

/// How long changes are collected: longer than singletons of one program take to start, and less than anybody notices.
const COLLECT: Duration = Duration::from_millis(20);

/// The most pages in a commit: with a check each, and one for each session, they keep to the limits of every store
/// (120 operations).
const PAGES_MAX: usize = 36;

/// How long a node has to take what it was given: as long as elections may need.
fn patience(ground: &Ground) -> Duration {
    ground.settings().ttl * 2
}

/// How often a placer shows that it acts.
fn beacon_interval(ground: &Ground) -> Duration {
    ground.settings().ttl / 2
}

/// The spread singletons of a cluster: see the [module](self).
#[derive(Debug)]
pub struct Placement {
    ground: Ground,
    board: Arc<Board>,
    moves: Arc<AtomicUsize>,
    /// Run from the first singleton on that is spread by this node.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Where a spread singleton is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Placed {
    /// The singleton.
    pub name: Name,
    /// Its load.
    pub load: f64,
    /// Who runs it.
    pub runs_on: Option<Name>,
    /// Who is to run it, and does not yet.
    pub meant_for: Option<Name>,
    /// Who may run it. If there is nobody, no live node has the labels that it asks for, or all rest after failures.
    pub eligible: BTreeSet<Name>,
}

/// How a singleton is to be spread.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) load: f64,
    pub(crate) labels: Vec<(String, String)>,
}

impl Default for Spread {
    fn default() -> Self {
        Self { load: 1.0, labels: Vec::new() }
    }
}

impl Placement {
    pub(crate) fn of(cluster: &Cluster) -> Arc<Self> {
        cluster.extension(|ground| Self {
            ground,
            board: Arc::default(),
            moves: Arc::new(AtomicUsize::new(MOVES)),
            tasks: Mutex::default(),
        })
    }

    /// At most so many moves are begun in one renewal interval to even out the spread, and no more are under way at
    /// once; 10 if nothing is said, and none with 0. It counts where the placer is: set the same on all nodes.
    pub fn set_moves(&self, moves: usize) {
        self.moves.store(moves, Ordering::Relaxed);
    }

    /// All spread singletons of the cluster, by name, as nodes tell of them. It reads a few keys of each node.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read).
    pub async fn list(&self) -> Result<Vec<Placed>, StoreError> {
        let census = Census::glance(&self.ground).await?;
        let nodes: Vec<SessionId> = census.nodes.keys().copied().collect();
        let node = |index: usize| census.nodes[&nodes[index]].node.clone();
        let works = assess::works(&census, &nodes);
        let placed = works.into_iter().map(|(name, work)| {
            let (runs_on, meant_for) = match work.spot {
                Spot::Nowhere => (None, None),
                Spot::Given(to) => (None, Some(node(to))),
                Spot::Runs(on) => (Some(node(on)), None),
                Spot::Moving(from, to) => (Some(node(from)), Some(node(to))),
            };
            #[allow(clippy::cast_precision_loss, reason = "loads are small")]
            let load = work.load as f64 / UNIT as f64;
            let eligible = work.fit.into_iter().map(node).collect();
            Placed { name, load, runs_on, meant_for, eligible }
        });
        Ok(placed.collect())
    }

    /// Spreads a singleton.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when its load or this node's capacity is no number above zero, or it is spread here
    /// already.
    pub(crate) fn spread(
        &self,
        name: &Name,
        spread: &Spread,
        order: mpsc::WeakSender<Order>,
    ) -> Result<SpreadOracle, StoreError> {
        let labels = &self.ground.settings().labels;
        capacity_of(labels)?;
        let load = thousandths(spread.load).ok_or_else(|| {
            let load = spread.load;
            StoreError::invalid(format!("singleton {name} has the load {load}: use a number above zero"))
        })?;
        let lacking = spread.labels.iter().find(|(label, value)| labels.get(label) != Some(value));
        if let Some((label, value)) = lacking {
            tracing::info!(singleton = %name, label, value, "it will not run on this node, which lacks the label");
        }
        let offer = Offer { load, fit: lacking.is_none() };
        let (entry, wish) = self.board.enter(name, offer, order)?;
        self.start();
        let (election, env) = (self.ground.election(name.clone()), self.ground.env().clone());
        Ok(SpreadOracle::new(ElectionOracle::new(election, 0, env), entry, wish))
    }

    fn start(&self) {
        let mut tasks = self.tasks.lock();
        if !tasks.is_empty() {
            return;
        }
        let (ground, board) = (|| self.ground.clone(), || Arc::clone(&self.board));
        let env = self.ground.env();
        tasks.extend([
            env.spawn(Herald::new(ground(), board()).run()),
            env.spawn(Follower::new(ground(), board()).run()),
            env.spawn(Placer { ground: ground(), moves: Arc::clone(&self.moves) }.run()),
            env.spawn(Substitute::new(ground(), board()).run()),
        ]);
    }

    /// Lets others take over what this node runs, as far as they can, for at most a ttl.
    pub(crate) fn relief(&self) -> impl Future<Output = ()> + Send + use<> {
        let (ground, board) = (self.ground.clone(), Arc::clone(&self.board));
        async move {
            let running = board.running();
            if running.is_empty() {
                return;
            }
            let own = ground.session().id();
            let elsewhere = match Census::glance(&ground).await {
                Ok(census) => others(&census, own),
                Err(_) => return,
            };
            if !running.iter().any(|name| elsewhere.contains(name)) {
                return;
            }
            board.leave();
            let mut news = board.news();
            let relieved = news.wait_for(|_| !board.running().iter().any(|name| elsewhere.contains(name)));
            if ground.env().timeout(ground.settings().ttl, relieved).await.is_err() {
                tracing::warn!("not all singletons of this node were taken over in time: they are stopped");
            }
        }
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.tasks.lock().iter().for_each(JoinHandle::abort);
    }
}

/// What nodes other than this may run.
fn others(census: &Census, own: SessionId) -> BTreeSet<Name> {
    let others = census.nodes.iter().filter(|(session, _)| **session != own);
    let offers = others.flat_map(|(_, seen)| seen.offers.iter());
    offers.filter(|(_, offer)| offer.fit).map(|(name, _)| name.clone()).collect()
}

/// The capacity that these labels tell, in thousandths.
fn capacity_of(labels: &BTreeMap<String, String>) -> Result<u64, StoreError> {
    let Some(text) = labels.get(CAPACITY_LABEL) else { return Ok(UNIT) };
    text.parse().ok().and_then(thousandths).ok_or_else(|| {
        StoreError::invalid(format!(
            "the label {CAPACITY_LABEL} of this node is {text:?}: use a number above zero, or none for 1"
        ))
    })
}

/// A number as thousandths of it, if it is above zero and not beyond all measure.
fn thousandths(number: f64) -> Option<u64> {
    /// Sums of a million such loads still fit.
    const MOST: f64 = 1_000_000_000.0;
    let units = Duration::try_from_secs_f64(number).ok().filter(|_| number <= MOST)?;
    u64::try_from(units.as_millis()).ok().filter(|units| *units > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_above_zero_are_loads_and_capacities() {
        let capacity = |text: &str| capacity_of(&[(CAPACITY_LABEL.to_owned(), text.to_owned())].into());
        assert_eq!(capacity_of(&BTreeMap::new()).unwrap(), 1000);
        assert_eq!((capacity("2").unwrap(), capacity("0.5").unwrap()), (2000, 500));
        for text in ["0", "-1", "NaN", "inf", "1e300", "much", ""] {
            assert!(capacity(text).unwrap_err().to_string().contains("above zero"), "{text}");
        }
    }
}
