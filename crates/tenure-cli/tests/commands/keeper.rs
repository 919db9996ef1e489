//! [`Keeper`]: a node in this process, with servers, a registry, and offices that it gives up when it is asked.

use std::{sync::Arc, time::Duration};

use tenure::{
    cluster::{Callbacks, Leadership, Participant, Role},
    prelude::*,
    server::{LockedRequest, Policy},
};
use tokio::runtime::Runtime;

use crate::stage::{CLUSTER, Stage};

/// A number that grows by what is sent, refuses what is too large, and works for long when it is asked to.
#[derive(Default)]
struct Counter;

/// What is sent to it.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
enum Say {
    Add(u64),
    Work,
}

impl Counter {
    fn add(total: &mut u64, say: &Say, context: &mut Context<'_, Self>) -> Result<Option<u64>, Failure> {
        match say {
            Say::Add(number) if *number > 500 => Err(Failure::new(format!("{number} is too large\u{1b}[2J"))),
            Say::Add(number) => {
                *total += number;
                Ok(Some(*total))
            }
            Say::Work => {
                context.lock()?;
                Ok(None)
            }
        }
    }
}

impl Server for Counter {
    const KIND: &'static str = "counter";
    const POLICY: Policy = Policy { attempts_max: 1, ..Policy::DEFAULT };
    type State = u64;
    type Call = Say;
    type Reply = u64;
    type Cast = Say;
    type Effect = Never;

    fn handle_call(
        &self,
        total: &mut u64,
        say: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        Self::add(total, say, context)
    }

    fn handle_cast(
        &self,
        total: &mut u64,
        say: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        Self::add(total, say, context).map(|_| ())
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        let (LockedRequest::Call(_) | LockedRequest::Cast(_)) = &locked.request;
        std::future::pending::<()>().await;
        Err(Failure::new("nobody waits for so long"))
    }
}

struct Silent;

impl Callbacks for Silent {
    fn on_elected(&self, _: &Arc<Leadership>) {}
    fn on_deposed(&self, _: &Arc<Leadership>) {}
}

/// A node in this process. Gone when dropped.
pub(crate) struct Keeper {
    runtime: Runtime,
    cluster: Cluster,
    participants: Vec<Participant>,
    names: Vec<Registration>,
}

impl Keeper {
    pub(crate) fn join(stage: &Stage, node: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let cluster = runtime.block_on(async {
            let store = tenure::open(stage.store()).await.unwrap();
            let mut settings = Settings::new(CLUSTER, node).unwrap();
            settings.labels.insert("note".to_owned(), "\u{1b}[31mred".to_owned());
            Cluster::join(store, settings).await.unwrap()
        });
        Self { runtime, cluster, participants: Vec::new(), names: Vec::new() }
    }

    /// Stands for an office, and gives it up when it is asked.
    pub(crate) fn stand(&mut self, office: &str) {
        let _inside = self.runtime.enter();
        let election = self.cluster.election(office).unwrap();
        self.participants.push(election.participate(0, Role::Candidate, Arc::new(Silent)));
    }

    /// Leads an office, and does not listen.
    pub(crate) fn lead_deaf(&self, office: &str) {
        self.runtime.block_on(async {
            let leadership = self.cluster.election(office).unwrap().campaign().await.unwrap();
            std::mem::forget::<Leadership>(leadership);
        });
    }

    /// Handles the messages of counters.
    pub(crate) fn serve(&self) {
        let _inside = self.runtime.enter();
        self.cluster.serve::<Counter>().unwrap();
    }

    /// Takes part in a registry, with these names.
    pub(crate) fn register(&mut self, registry: &str, names: &[&str]) {
        self.names = self.runtime.block_on(async {
            let registry = self.cluster.registry(registry).await.unwrap();
            let mut registrations = Vec::new();
            for name in names {
                let (mailbox, inbox) = mailbox::<String, String>(1);
                std::mem::forget::<Inbox<String, String>>(inbox);
                let labels = Metadata::new().label("zone", "a\u{1b}[2J");
                let timeout = Duration::from_secs(10);
                registrations.push(registry.register_with(name, &mailbox, labels, timeout).await.unwrap());
            }
            registrations
        });
    }

    /// Says goodbye.
    pub(crate) fn leave(self) {
        let Self { runtime, cluster, participants, names } = self;
        drop((participants, names));
        runtime.block_on(cluster.leave());
    }
}
