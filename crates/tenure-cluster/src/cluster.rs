//! [`Cluster`]: a node's part in a cluster.

use std::{any::Any, fmt, pin::Pin, sync::Arc};

use parking_lot::Mutex;

use tenure_store::{Env, Name, Store, StoreError, latest};
use tokio::{sync::broadcast, task::JoinHandle};

use crate::{
    Cause, ClusterError, Election, Ground, Keys, Member, Members, Session, SessionId, Settings,
    election::{Desk, Queues, Standing},
    lease::Leases,
    locals::Locals,
    node::Node,
    peer::{BoundLinks, Links},
    session::{Keeper, Keeping, join},
    sweeper::Sweeper,
    testator::Testator,
    view::View,
    warden::{Warden, Watch},
};

/// How many events of sessions are kept for a listener that is slow: far more than happen in a ttl.
const EVENTS_MAX: usize = 64;

/// How the names of elections begin that Tenure keeps for itself.
const RESERVED: &str = "tenure/";

/// Refuses elections that are Tenure's own.
pub(crate) fn admit_election(name: &Name) -> Result<(), StoreError> {
    if !name.as_str().starts_with(RESERVED) {
        return Ok(());
    }
    let words = "as only elections of Tenure itself do: choose another name";
    Err(StoreError::invalid(format!("election {name} begins with {RESERVED}, {words}")))
}

/// Something that happened to this node's session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The session has ended; everything that hung on it is lost. The node joins again by itself.
    Ended {
        /// Which.
        session: SessionId,
        /// Why.
        cause: Cause,
    },
    /// The node has joined again.
    Joined {
        /// With this session.
        session: SessionId,
    },
    /// The session had lapsed, and goes on: nobody had ended it.
    Resumed {
        /// Which.
        session: SessionId,
    },
    /// The node can't join again, since another process has its name.
    Displaced {
        /// Who has it.
        by: Box<Member>,
    },
}

/// A node's part in a cluster, until it leaves or is dropped. Clones are the same.
///
/// Dropping the last one stops everything without a goodbye: the session ends with its ttl, or sooner by proof of death or last will.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Arc<Node>,
    keeping: Keeping,
    standing: Standing,
    links: Option<Links>,
    tasks: Vec<JoinHandle<()>>,
    /// What is built on this node, one of each type.
    extensions: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// What is to be done before the node leaves.
    farewells: Farewells,
}

/// What is to be done before a node leaves.
#[derive(Default)]
struct Farewells(Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl fmt::Debug for Farewells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} farewells", self.0.lock().len())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.keeping.session.borrow().end(Cause::Left);
    }
}

impl Cluster {
    /// Takes part in a cluster, with a new session.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the settings break a rule; [`ClusterError::Occupied`] when another live process has the node's name; errors of
    /// the store.
    pub async fn join(store: Arc<dyn Store>, settings: Settings) -> Result<Self, ClusterError> {
        Self::join_in(store, settings, Env::system()).await
    }

    /// The same, with the time and dice of `env`.
    ///
    /// # Errors
    /// As [`Cluster::join`].
    pub async fn join_in(
        store: Arc<dyn Store>,
        mut settings: Settings,
        env: Env,
    ) -> Result<Self, ClusterError> {
        settings.validate()?;
        let bound = match settings.links.clone() {
            Some(links) => Some(BoundLinks::bind(links).await?),
            None => None,
        };
        if let (Some(bound), None) = (&bound, &settings.address) {
            settings.address = Some(bound.address().to_string());
        }
        let node = Arc::new(Node::new(store, env, settings));
        let session = join(&node, node.settings.take_over).await?;
        let testator = Testator::new(&node);
        let keeping = Keeping {
            session: latest::Sender::new(session),
            events: broadcast::Sender::new(EVENTS_MAX),
            leave: latest::Sender::new(false),
            left: latest::Sender::new(false),
        };
        let present = keeping.session.subscribe();
        let (desk, clerk) = Desk::new(Arc::clone(&node), present.clone());
        let (queues, usher) = Queues::new(Arc::clone(&node));
        let keeper = Keeper { node: Arc::clone(&node), keeping: keeping.clone(), testator };
        let mut tasks = vec![
            node.env.spawn(keeper.run()),
            node.env.spawn(Warden::new(Arc::clone(&node), present.clone(), Watch::Neighbours).run()),
            node.env.spawn(Sweeper::new(Arc::clone(&node)).run()),
            node.env.spawn(clerk.run()),
            node.env.spawn(usher.run()),
        ];
        if node.settings.proof_of_death {
            tasks.push(node.env.spawn(Locals::new(Arc::clone(&node)).run()));
        }
        let links = match bound {
            Some(bound) => {
                let (view, changes) = View::new(Arc::clone(&node), present.clone()).await?;
                tasks.push(node.env.spawn(Arc::clone(&view).follow(changes)));
                Some(bound.start(node.settings.cluster.clone(), view, node.env.clone()))
            }
            None => None,
        };
        let standing = Standing { node: Arc::clone(&node), session: present, desk, queues };
        Ok(Self(Arc::new(Inner {
            node,
            keeping,
            standing,
            links,
            tasks,
            extensions: Mutex::default(),
            farewells: Farewells::default(),
        })))
    }

    /// The settings that it joined with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.node.settings
    }

    /// The store that it is in.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.node.store
    }

    /// What other primitives stand on. It does not keep the node in the cluster.
    #[must_use]
    pub fn ground(&self) -> Ground {
        Ground::new(self.0.standing.clone(), self.0.keeping.session.subscribe())
    }

    /// The one `T` that is built on this node, made when it is first asked for. It is dropped with the last clone of this, so it must hold none.
    pub fn extension<T: Any + Send + Sync>(&self, make: impl FnOnce(Ground) -> T) -> Arc<T> {
        let mut extensions = self.0.extensions.lock();
        if let Some(found) = extensions.iter().find_map(|one| Arc::clone(one).downcast().ok()) {
            return found;
        }
        let made = Arc::new(make(self.ground()));
        extensions.push(Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
        made
    }

    /// Has this done when the node [leaves](Cluster::leave), before anything is given up: for work that must have stopped by then. It bounds its
    /// own time. All of them run at once.
    pub fn before_leaving(&self, farewell: impl Future<Output = ()> + Send + 'static) {
        self.0.farewells.0.lock().push(Box::pin(farewell));
    }

    /// The present session.
    #[must_use]
    pub fn session(&self) -> Session {
        self.0.keeping.session.borrow().clone()
    }

    /// What happens to this node's sessions from now on. A listener that is too slow misses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.0.keeping.events.subscribe()
    }

    /// Who is there.
    #[must_use]
    pub fn members(&self) -> Members {
        Members::new(Arc::clone(&self.0.node))
    }

    /// The way to other nodes, if the settings have `links`: messages to one of them, and to all.
    #[must_use]
    pub fn links(&self) -> Option<&Links> {
        self.0.links.as_ref()
    }

    /// The election of this name.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is no [`Name`], or begins with `tenure/`: such names Tenure keeps for itself.
    pub fn election(&self, name: &str) -> Result<Election, StoreError> {
        let name: Name = name.parse()?;
        admit_election(&name)?;
        Ok(Election::new(self.0.standing.clone(), name))
    }

    /// The names of all elections that ever had a leader, in order.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub async fn elections(&self) -> Result<Vec<Name>, StoreError> {
        let found = self.0.node.scan(&self.0.node.keys.elections()).await?;
        found.iter().map(|item| Keys::name_of(&item.key)).collect()
    }

    /// Leases for programs that are no nodes. From the first call on, this node sees to it that those of all the cluster end when nobody renews them.
    #[must_use]
    pub fn leases(&self) -> Arc<Leases> {
        let (node, session) = (Arc::clone(&self.0.node), self.0.keeping.session.subscribe());
        self.extension(|_| Leases::new(node, session))
    }

    /// Gives everything up at once: leaderships, places in queues, the session. Returns when others can take over, or after a ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop it.
    pub async fn leave(&self) {
        let farewells = std::mem::take(&mut *self.0.farewells.0.lock());
        let farewells: Vec<_> =
            farewells.into_iter().map(|farewell| self.0.node.env.spawn(farewell)).collect();
        for farewell in farewells {
            // One that panics can't be helped.
            let _ = farewell.await;
        }
        self.0.keeping.leave.send_replace(true);
        let mut left = self.0.keeping.left.subscribe();
        // The sender lives as long as this does.
        let _ = left.wait_for(|left| *left).await;
        self.0.tasks.iter().for_each(JoinHandle::abort);
        if let Some(links) = &self.0.links {
            links.shutdown().await;
        }
    }
}
