//! Nodes of one process on simulated time, over one store in memory, each with links that can be cut.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cluster, Keys, Settings};
use tenure_registry::{
    Elector, Inbox, MemberId, Membership, Metadata, Registration, Registries as _, Registry, RegistryError,
    mailbox,
};
use tenure_server::ServerRef;
use tenure_store::{Env, Faults, Faulty, Gate, Key, MemoryStore, Range, Store, StoreExt as _, Tuple};

use crate::net::Net;

/// How long a call may take in these tests.
pub(crate) const TIME: Duration = Duration::from_secs(5);

/// A cluster in the making.
pub(crate) struct Sim {
    pub(crate) env: Env,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) net: Net,
}

/// A node and its part in the registry `names`.
pub(crate) struct Seat {
    pub(crate) cluster: Cluster,
    pub(crate) registry: Registry,
    pub(crate) gate: Gate,
    /// The way to the store.
    pub(crate) link: Arc<Faulty>,
    net: Net,
}

impl Sim {
    pub(crate) fn new() -> Self {
        Self::with_seed(11)
    }

    pub(crate) fn with_seed(seed: u64) -> Self {
        let env = Env::simulated(seed);
        Self { store: Arc::new(MemoryStore::new()), net: Net::new(env.fork()), env }
    }

    /// A node with links.
    pub(crate) async fn seat(&self, name: &str) -> Seat {
        self.sit(name, "names", true).await
    }

    /// A node without an address.
    pub(crate) async fn seat_without_links(&self, name: &str) -> Seat {
        self.sit(name, "names", false).await
    }

    /// So many nodes with links, called `n0` and so on, of which `n0` leads, and all of which are members.
    pub(crate) async fn seats(&self, count: usize) -> Vec<Seat> {
        let mut seats = Vec::new();
        for number in 0..count {
            seats.push(self.seat(&format!("n{number}")).await);
            self.until_members(&seats[0], number + 1).await;
        }
        let led = seats[0].registry.leader().await.unwrap().leader;
        assert_eq!(led, Some(seats[0].id()), "the first that came leads");
        seats
    }

    /// A change of leader whose new leader does not answer: `n0` decides it, `n1` is to lead, and all but `n0` stand still. `first` is done just before.
    pub(crate) async fn stuck(count: usize, first: impl Fn(&Self)) -> (Self, Vec<Seat>) {
        for seed in 0..50 {
            let sim = Self::with_seed(seed);
            let seats = sim.seats(count).await;
            first(&sim);
            seats[1..].iter().for_each(|seat| seat.gate.pause());
            seats[0].tell(Membership::MemberDown(seats[0].id())).await;
            for _ in 0..50 {
                sim.env.sleep(Duration::from_millis(1)).await;
                let led = seats[0].registry.leader().await.unwrap();
                if led.epoch == 2 && led.leader == Some(seats[1].id()) {
                    return (sim, seats);
                }
            }
            // Another was to decide it.
        }
        panic!("n0 never decides");
    }

    /// A node that takes part in this registry.
    pub(crate) async fn sit(&self, name: &str, registry: &str, links: bool) -> Seat {
        let gate = Gate::new();
        let env = self.env.fork().behind(&gate);
        let inner = Arc::clone(&self.store) as Arc<dyn Store>;
        let link = Arc::new(Faulty::new(inner, self.env.fork(), Faults::NONE));
        let mut settings = Settings::new("fleet", name).unwrap();
        // One process runs all of them.
        settings.proof_of_death = false;
        let mut tries = 0;
        let cluster = loop {
            tries += 1;
            let store = Arc::clone(&link) as Arc<dyn Store>;
            match Cluster::join_in(store, settings.clone(), env.clone()).await {
                Ok(cluster) => break cluster,
                // The one before it is not known to be gone yet.
                Err(_) if tries < 100 => self.env.sleep(Duration::from_secs(1)).await,
                Err(error) => panic!("{error}"),
            }
        };
        let wire = links.then(|| self.net.end(cluster.ground()));
        let registry = cluster.registry_over(registry, wire).await.unwrap();
        registry.ready(TIME).await.unwrap();
        Seat { cluster, registry, gate, link, net: self.net.clone() }
    }

    /// Returns when something is so.
    pub(crate) async fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        for _ in 0..40_000 {
            if is() {
                return;
            }
            self.env.sleep(Duration::from_millis(5)).await;
        }
        panic!("{what}: it never came to be");
    }

    pub(crate) async fn until_members(&self, seat: &Seat, count: usize) {
        for _ in 0..10_000 {
            if seat.registry.members().await.is_ok_and(|members| members.len() == count) {
                return;
            }
            self.env.sleep(Duration::from_millis(5)).await;
        }
        panic!("there never were {count} members");
    }

    /// Returns when a node leads and knows it.
    pub(crate) async fn until_leads(&self, seat: &Seat) {
        for _ in 0..40_000 {
            if seat.registry.status().leads() {
                return;
            }
            self.env.sleep(Duration::from_millis(5)).await;
        }
        panic!(
            "{} never leads: {:?}, {:?}",
            seat.name(),
            seat.registry.status(),
            seat.registry.leader().await
        );
    }

    pub(crate) async fn until_leads_one_of(&self, seats: &[&Seat]) {
        self.until("one of them leads", || seats.iter().any(|seat| seat.registry.status().leads())).await;
    }

    /// Where the registry `names` has its keys.
    pub(crate) fn keys(&self, word: &str) -> Tuple {
        Keys::new(&"fleet".parse().unwrap()).area("registry").text("names").text(word)
    }

    /// All keys of a range.
    pub(crate) async fn stored(&self, range: Range) -> Vec<Key> {
        let (mut rest, mut found) = (Some(range), Vec::new());
        while let Some(range) = rest.take() {
            let page = self.store.scan(&range, 1000).await.unwrap();
            rest = page.items.last().filter(|_| page.more).map(|last| range.after(&last.key));
            found.extend(page.items.into_iter().map(|item| item.key));
        }
        found
    }
}

impl Seat {
    /// As the elector knows it.
    pub(crate) fn id(&self) -> MemberId {
        MemberId::new(&self.cluster.settings().node, self.cluster.session().id())
    }

    pub(crate) fn name(&self) -> &str {
        self.cluster.settings().node.as_str()
    }

    pub(crate) fn elector(&self) -> ServerRef<Elector> {
        Elector::of(&self.cluster, "names").unwrap()
    }

    /// Tells the elector, as a member would.
    pub(crate) async fn tell(&self, membership: Membership) {
        self.elector().cast(membership).await.unwrap();
    }

    /// Ends the process at once: nothing of it reaches anything any more.
    pub(crate) fn kill(&self) {
        self.link.cut();
        self.gate.kill();
        self.net.remove(self.name());
    }

    /// Registers a mailbox of numbers.
    pub(crate) async fn register(
        &self,
        name: &str,
    ) -> Result<(Registration, Inbox<u64, u64>), RegistryError> {
        let (mailbox, inbox) = mailbox::<u64, u64>(16);
        let registration = self.registry.register_with(name, &mailbox, Metadata::new(), TIME).await?;
        Ok((registration, inbox))
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.registry.whereis(name).is_some()
    }

    /// Whose a name is, as far as this node knows.
    pub(crate) fn owner_of(&self, name: &str) -> Option<String> {
        self.registry.whereis(name).map(|entry| entry.owner().node.to_string())
    }
}
