//! [`SingletonBuilder`], [`Singleton`]: how a singleton is started, seen and stopped.

use std::{fmt, future::Future, sync::Arc};

use parking_lot::Mutex;
use tenure_cluster::{Cluster, Ground};
use tenure_store::{Env, Name, StoreError, latest};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::{
    ElectionOracle, Event, Mandate, Oracle, Outcome, Phase, Policy, Standby, Status,
    child::Child,
    placement::{Placement, Spread},
    runner::{Order, Runner},
    seat::Seat,
    teller::{Hook, Teller},
};

/// Orders that wait: more than a handful are never sent.
const ORDERS_MAX: usize = 8;

/// Starts singletons in a cluster.
pub trait Singletons {
    /// Work that runs on one node of the cluster at a time: whichever leads the election of this name. `child` makes the work, each time that it is started.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tenure_cluster::{Cluster, Settings};
    /// # use tenure_singleton::{Mandate, Singletons as _};
    /// # use tenure_store::MemoryStore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = Cluster::join(Arc::new(MemoryStore::new()), Settings::new("c", "n")?).await?;
    /// let nightly = cluster.singleton("nightly", |mandate: Mandate| async move {
    ///     println!("leading in term {:?}", mandate.term());
    ///     mandate.cancelled().await;
    /// });
    /// let nightly = nightly.start()?;
    /// nightly.leads().await;
    /// nightly.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    fn singleton<F, W>(&self, name: &str, child: F) -> SingletonBuilder
    where
        F: Fn(Mandate) -> W + Send + Sync + 'static,
        W: Future<Output: Outcome> + Send + 'static;

    /// Where the [spread](SingletonBuilder::spread) singletons of the cluster are, and how fast they may be moved.
    fn placement(&self) -> Arc<Placement>;
}

impl Singletons for Cluster {
    fn singleton<F, W>(&self, name: &str, child: F) -> SingletonBuilder
    where
        F: Fn(Mandate) -> W + Send + Sync + 'static,
        W: Future<Output: Outcome> + Send + 'static,
    {
        SingletonBuilder::new(name, Decider::Election { cluster: self.clone(), priority: 0 }, child)
    }

    fn placement(&self) -> Arc<Placement> {
        Placement::of(self)
    }
}

/// Who decides.
enum Decider {
    Election { cluster: Cluster, priority: i32 },
    Oracle { oracle: Box<dyn Oracle>, env: Env },
}

/// A singleton that is about to be started.
#[must_use = "it does nothing until it is started"]
pub struct SingletonBuilder {
    name: String,
    decider: Decider,
    child: Child<Mandate>,
    follower: Option<Child<Standby>>,
    policy: Policy,
    spread: Option<Spread>,
    hooks: Vec<Hook>,
}

impl SingletonBuilder {
    fn new<F, W>(name: &str, decider: Decider, child: F) -> Self
    where
        F: Fn(Mandate) -> W + Send + Sync + 'static,
        W: Future<Output: Outcome> + Send + 'static,
    {
        let mut policy = Policy::default();
        if let Decider::Election { cluster, .. } = &decider {
            policy.grace = cluster.settings().ttl / 4;
        }
        Self {
            name: name.to_owned(),
            decider,
            child: Child::new(child),
            follower: None,
            policy,
            spread: None,
            hooks: Vec::new(),
        }
    }

    /// Work that runs where this oracle says so. No cluster is needed.
    pub fn with_oracle<F, W>(name: &str, oracle: impl Oracle, child: F) -> Self
    where
        F: Fn(Mandate) -> W + Send + Sync + 'static,
        W: Future<Output: Outcome> + Send + 'static,
    {
        Self::with_oracle_in(name, oracle, Env::system(), child)
    }

    /// The same, with the time and dice of `env`.
    pub fn with_oracle_in<F, W>(name: &str, oracle: impl Oracle, env: Env, child: F) -> Self
    where
        F: Fn(Mandate) -> W + Send + Sync + 'static,
        W: Future<Output: Outcome> + Send + 'static,
    {
        Self::new(name, Decider::Oracle { oracle: Box::new(oracle), env }, child)
    }

    /// Work that runs while this node does not lead, and has ended before the other is started.
    pub fn follower<F, W>(mut self, child: F) -> Self
    where
        F: Fn(Standby) -> W + Send + Sync + 'static,
        W: Future<Output: Outcome> + Send + 'static,
    {
        self.follower = Some(Child::new(child));
        self
    }

    /// Changes how the child is treated.
    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// Stands before all nodes of less priority; 0 is usual. Foreign oracles have their own ways.
    pub fn priority(mut self, priority: i32) -> Self {
        if let Decider::Election { priority: present, .. } = &mut self.decider {
            *present = priority;
        }
        self
    }

    /// Spreads it: of all nodes of the cluster that start it, it runs where there is the least load, and the others
    /// do not even stand. See [`placement`](crate::placement). All nodes should spread it alike; a priority has no
    /// meaning then.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tenure_cluster::{Cluster, Settings};
    /// # use tenure_singleton::{Mandate, Singletons as _};
    /// # use tenure_store::MemoryStore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut settings = Settings::new("orders", "worker-1")?;
    /// settings.labels.insert("zone".into(), "a".into());
    /// settings.labels.insert("capacity".into(), "2".into());
    /// let cluster = Cluster::join(Arc::new(MemoryStore::new()), settings).await?;
    /// let mut shards = Vec::new();
    /// for shard in 0..16 {
    ///     let work = |mandate: Mandate| async move { mandate.cancelled().await };
    ///     shards.push(cluster.singleton(&format!("shard {shard}"), work).spread().only_on("zone", "a").start()?);
    /// }
    /// shards[7].leads().await;
    /// cluster.leave().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn spread(mut self) -> Self {
        self.spread.get_or_insert_default();
        self
    }

    /// Spreads it over those nodes alone that have this label, of [`Settings::labels`](tenure_cluster::Settings), and
    /// all others that it is limited to.
    pub fn only_on(mut self, label: &str, value: &str) -> Self {
        self.spread.get_or_insert_default().labels.push((label.to_owned(), value.to_owned()));
        self
    }

    /// Spreads it as so much work, in proportion to others: a number above zero; 1 is usual.
    pub fn load(mut self, load: f64) -> Self {
        self.spread.get_or_insert_default().load = load;
        self
    }

    /// Calls this at each event, in the singleton's own task: it should be quick.
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the name, the policy, its load or this node's capacity breaks a rule, or it is to
    /// be spread without an election of a cluster.
    pub fn start(self) -> Result<Singleton, StoreError> {
        let name: Name = self.name.parse()?;
        let (order, orders) = mpsc::channel(ORDERS_MAX);
        let spread = self.spread.is_some();
        let (oracle, env, cluster): (Box<dyn Oracle>, Env, _) = match self.decider {
            Decider::Election { cluster, priority } => {
                let ttl = cluster.settings().ttl;
                if self.policy.grace * 3 > ttl {
                    let grace = self.policy.grace;
                    return Err(StoreError::invalid(format!(
                        "grace x 3 <= ttl must hold, but there is grace {grace:?} and ttl {ttl:?}: use a shorter grace, or a longer ttl"
                    )));
                }
                let env = cluster.ground().env().clone();
                self.policy.validate()?;
                let election = cluster.election(name.as_str())?;
                let oracle: Box<dyn Oracle> = match &self.spread {
                    Some(spread) => {
                        Box::new(Placement::of(&cluster).spread(&name, spread, order.downgrade())?)
                    }
                    None => Box::new(ElectionOracle::new(election, priority, env.clone())),
                };
                (oracle, env, Some(cluster))
            }
            Decider::Oracle { .. } if spread => {
                return Err(StoreError::invalid(format!(
                    "singleton {name} is to be spread, but a foreign oracle decides: let the cluster's election \
                     decide, or don't spread it"
                )));
            }
            Decider::Oracle { oracle, env } => {
                self.policy.validate()?;
                (oracle, env, None)
            }
        };
        let tell = Teller::new(name.clone(), self.hooks);
        let singleton = Singleton {
            name: name.clone(),
            order,
            status: tell.status.subscribe(),
            events: tell.events.clone(),
        };
        let runner = Runner {
            seat: Seat::new(name, oracle, env.clone()),
            policy: self.policy,
            child: self.child,
            follower: self.follower,
            env: env.clone(),
            tell,
            orders,
        };
        // It gives up by itself what hangs on a node that is gone.
        drop(env.spawn(runner.run()));
        if let Some(cluster) = cluster {
            Running::of(&cluster).add(&singleton, spread);
        }
        Ok(singleton)
    }
}

impl fmt::Debug for SingletonBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingletonBuilder")
            .field("name", &self.name)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// A singleton's part on this node. Dropping it shuts it down, in the background.
#[derive(Debug)]
pub struct Singleton {
    name: Name,
    order: mpsc::Sender<Order>,
    status: latest::Receiver<Status>,
    events: broadcast::Sender<Event>,
}

impl Singleton {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// What happens from now on. A listener that is too slow misses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Returns when this node leads, or the singleton has ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn leads(&self) -> Status {
        self.reaches(|phase| matches!(phase, Phase::Leading | Phase::Ended)).await
    }

    /// Returns when the singleton has ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn ended(&self) {
        self.reaches(|phase| phase == Phase::Ended).await;
    }

    async fn reaches(&self, is: impl Fn(Phase) -> bool) -> Status {
        let mut status = self.status.clone();
        // A runner that is gone has been killed with its process, in a simulation.
        let _ = status.wait_for(|status| is(status.phase)).await;
        status.borrow().clone()
    }

    /// Stops the child, gives leadership to a node that waits for it, and stands again. Returns when that has happened, or there was nothing to hand over.
    pub async fn hand_over(&self, to: Name) {
        let (done, handed) = oneshot::channel();
        if self.order.send(Order::HandOver { to, done }).await.is_ok() {
            // It is dropped when this node does not lead.
            let _ = handed.await;
        }
    }

    /// Stops the child, gives leadership up, and returns when both are done.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop it.
    pub async fn shutdown(self) {
        shut_down(self.order.clone(), self.status.clone()).await;
    }
}

async fn shut_down(order: mpsc::Sender<Order>, mut status: latest::Receiver<Status>) {
    // One that has ended takes no orders.
    let _ = order.send(Order::Shutdown).await;
    let _ = status.wait_for(|status| status.phase == Phase::Ended).await;
}

/// All singletons of a node that may still run: they end before the node leaves.
#[derive(Debug, Default)]
struct Running(Arc<Mutex<Vec<Known>>>);

#[derive(Debug)]
struct Known {
    order: mpsc::WeakSender<Order>,
    status: latest::Receiver<Status>,
    spread: bool,
}

impl Running {
    fn of(cluster: &Cluster) -> Arc<Self> {
        let mut new = None;
        let running = cluster.extension(|_: Ground| {
            let made = Self::default();
            new = Some(Arc::clone(&made.0));
            made
        });
        if let Some(all) = new {
            let relief = Placement::of(cluster).relief();
            cluster.before_leaving(async move {
                let (spread, others): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut *all.lock()).into_iter().partition(|known| known.spread);
                others.iter().for_each(Known::shut_down);
                // Others take over while it still runs here.
                relief.await;
                spread.iter().for_each(Known::shut_down);
                for Known { mut status, .. } in spread.into_iter().chain(others) {
                    let _ = status.wait_for(|status| status.phase == Phase::Ended).await;
                }
            });
        }
        running
    }

    fn add(&self, singleton: &Singleton, spread: bool) {
        let mut all = self.0.lock();
        all.retain(|known| known.status.borrow().phase != Phase::Ended);
        let (order, status) = (singleton.order.downgrade(), singleton.status.clone());
        all.push(Known { order, status, spread });
    }
}

impl Known {
    fn shut_down(&self) {
        if let Some(order) = self.order.upgrade() {
            let _ = order.try_send(Order::Shutdown);
        }
    }
}
