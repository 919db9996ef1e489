//! [`Keeper`]: a node in this process, with servers that refuse what is sent to them, names, and as many elections and members as are wanted.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tenure::{cluster::Leadership, prelude::*, server::Policy, store::Env};
use tokio::runtime::Runtime;

use crate::stage::CLUSTER;

/// Whether servers take what they refused before.
static LENIENT: AtomicBool = AtomicBool::new(false);

/// Servers take what they refused before.
pub(crate) fn relent() {
    LENIENT.store(true, Ordering::SeqCst);
}

/// A server that refuses large numbers, at once and for good.
#[derive(Default)]
struct Picky;

impl Server for Picky {
    const KIND: &'static str = "picky";
    const POLICY: Policy = Policy { attempts_max: 1, ..Policy::DEFAULT };
    type State = u64;
    type Call = Never;
    type Reply = Never;
    type Cast = u64;
    type Effect = Never;

    fn handle_call(
        &self,
        _: &mut u64,
        call: &Never,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<Never>, Failure> {
        match *call {}
    }

    fn handle_cast(&self, total: &mut u64, cast: &u64, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        if *cast > 500 && !LENIENT.load(Ordering::SeqCst) {
            return Err(Failure::new(format!("{cast} is too large")));
        }
        *total += cast;
        Ok(())
    }
}

/// What does harm where text is taken for markup.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\">";

/// How many join at once.
const JOINING: usize = 16;

/// A member of a crowd is to cost nothing but its row.
const CROWD_TTL: Duration = Duration::from_secs(900);

/// A node in this process. Gone when dropped.
pub(crate) struct Keeper {
    runtime: Runtime,
    cluster: Cluster,
    crowd: Vec<Cluster>,
    names: Vec<(Registration, Inbox<u64, u64>)>,
    registries: Vec<Registry>,
}

impl Keeper {
    pub(crate) fn join(store: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let cluster = runtime.block_on(async {
            let store = tenure::open(store).await.unwrap();
            let mut settings = Settings::new(CLUSTER, "keeper").unwrap();
            settings.labels = [("zone", "a"), ("note", HOSTILE)].map(|(k, v)| (k.into(), v.into())).into();
            Cluster::join(store, settings).await.unwrap()
        });
        Self { runtime, cluster, crowd: Vec::new(), names: Vec::new(), registries: Vec::new() }
    }

    /// So many members more.
    pub(crate) fn gather(&mut self, members: u32) {
        self.crowd = self.runtime.block_on(async {
            let (mut joining, mut crowd) = (tokio::task::JoinSet::new(), Vec::new());
            for number in 0..members {
                let mut settings =
                    Settings::new(CLUSTER, &format!("node-{number}")).unwrap().with_ttl(CROWD_TTL);
                settings.labels =
                    [("zone".to_owned(), ["a", "b", "c"][number as usize % 3].to_owned())].into();
                settings.proof_of_death = false;
                let store = std::sync::Arc::clone(self.cluster.store());
                joining.spawn(async move { Cluster::join(store, settings).await.unwrap() });
                if joining.len() >= JOINING {
                    crowd.extend(joining.join_next().await.map(Result::unwrap));
                }
            }
            crowd.extend(joining.join_all().await);
            crowd
        });
    }

    /// Something of everything, for people to look at; some of it hostile. Servers run since [`Keeper::refuse`].
    pub(crate) fn furnish(&mut self) {
        self.runtime.block_on(async {
            let users = self.cluster.registry("users").await.unwrap();
            for name in ["alice", "bob", "carol", "dave", HOSTILE] {
                let (mailbox, inbox) = mailbox(8);
                self.names.push((users.register(name, &mailbox).await.unwrap(), inbox));
            }
            self.registries.push(users);
            for name in ["billing", "index-eu", "index-us", "reports"] {
                let leadership = self.cluster.election(name).unwrap().campaign().await.unwrap();
                leadership.publish(format!("{{\"at\":\"{}\"}}", HOSTILE.replace('"', "'"))).await.unwrap();
                std::mem::forget::<Leadership>(leadership);
            }
            for (id, messages) in [("orders-1", 40), ("orders-2", 7), ("orders-3", 1), ("paused", 3)] {
                let server = self.cluster.server::<Picky>(id).unwrap();
                for number in 0..messages {
                    server.cast(number).await.unwrap();
                }
                if id == "paused" {
                    server.stop("stock-taking").await.unwrap();
                    server.cast(1).await.unwrap();
                }
            }
        });
    }

    /// Sends numbers to a server that refuses them: they become dead letters.
    pub(crate) fn refuse(&self, numbers: &[u64]) {
        self.runtime.block_on(async {
            self.cluster.serve::<Picky>().unwrap();
            let fussy = self.cluster.server::<Picky>("fussy").unwrap();
            for number in numbers {
                fussy.cast(*number).await.unwrap();
            }
            while fussy.status().await.unwrap().is_none_or(|status| status.died < numbers.len() as u64) {
                Env::system().sleep(Duration::from_millis(20)).await;
            }
        });
    }

    /// Leads so many elections, as long as it is there.
    pub(crate) fn lead(&self, elections: u32) {
        self.runtime.block_on(async {
            let campaigns: Vec<_> = (0..elections)
                .map(|number| {
                    let election = self.cluster.election(&format!("shard-{number}")).unwrap();
                    tokio::spawn(async move { election.campaign().await })
                })
                .collect();
            for campaign in campaigns {
                // What is dropped is given up.
                std::mem::forget::<Leadership>(campaign.await.unwrap().unwrap());
            }
        });
    }
}
