//! [`Life`]: what a process with a registry does.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cluster, SessionId, Settings};
use tenure_registry::{
    Metadata, Query, Registration, Registries as _, Registry, RegistryError, mailbox, plant,
};
use tenure_store::{Env, Store};

use super::{Common, Desk, NAMES, REGISTRY, TROUBLE};

/// After a failure.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest time between two things that one worker does.
const IDLE: Duration = Duration::from_millis(250);

/// How many names a process has at most.
const HELD_MAX: usize = 3;

pub(super) struct Life {
    pub(super) process: u64,
    pub(super) common: Common,
    pub(super) env: Env,
    pub(super) store: Arc<dyn Store>,
    pub(super) settings: Settings,
    pub(super) has_links: bool,
    pub(super) desk: Arc<Desk>,
}

impl Life {
    /// Takes part, works, leaves, and takes part again, until the trouble is over.
    pub(super) async fn run(self) {
        loop {
            let cluster = self.join().await;
            plant(&cluster, self.common.flaws);
            let wire = self.has_links.then(|| self.common.net.attach(cluster.ground()));
            loop {
                let registry = loop {
                    match cluster.registry_over(REGISTRY, wire.clone()).await {
                        Ok(registry) => break registry,
                        Err(_) => self.env.sleep(PAUSE).await,
                    }
                };
                *self.desk.registry.lock() = Some(registry.clone());
                tokio::select! {
                    biased;
                    () = self.enough() => {}
                    _ = async { tokio::join!(self.work(&registry), self.work(&registry)) } => {
                        // What is held is held on; what is lost is let go.
                        loop {
                            self.let_go_of_lost();
                            self.env.sleep(PAUSE * 2).await;
                        }
                    }
                }
                self.common.count(|named| &mut named.left);
                *self.desk.registry.lock() = None;
                self.common.chronicle.leaves(registry.status().member.session);
                let held = std::mem::take(&mut *self.desk.held.lock());
                held.iter().for_each(|(one, session)| self.common.claims.gives_up(*session, one.number()));
                let stays = self.env.chance(0.5);
                if stays {
                    registry.leave().await;
                } else {
                    cluster.leave().await;
                }
                drop(held);
                if !stays {
                    break;
                }
            }
        }
    }

    async fn join(&self) -> Cluster {
        loop {
            match Cluster::join_in(Arc::clone(&self.store), self.settings.clone(), self.env.clone()).await {
                Ok(cluster) => return cluster,
                Err(_) => self.env.sleep(PAUSE * 2).await,
            }
        }
    }

    fn is_over(&self) -> bool {
        self.common.now() >= TROUBLE
    }

    /// Returns when this process wants to leave; never, when the trouble is over.
    async fn enough(&self) {
        self.env.sleep(self.env.random_time(Duration::from_secs(12))).await;
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }

    /// One thing after another.
    async fn work(&self, registry: &Registry) {
        while !self.is_over() {
            self.env.sleep(self.env.random_time(IDLE)).await;
            self.let_go_of_lost();
            let name = NAMES[usize::try_from(self.env.random_in(0..NAMES.len() as u64)).expect("few")];
            match self.env.random_in(0..20) {
                0..9 if self.desk.held.lock().len() < HELD_MAX => self.register(registry, name).await,
                0..11 => self.unregister().await,
                11..13 => self.drop_one(),
                13..15 => self.describe().await,
                15..19 => self.look_up(registry, name).await,
                _ => self.list(registry),
            }
        }
    }

    fn timeout(&self) -> Duration {
        let most = if self.env.chance(0.3) { 200 } else { 3000 };
        self.env.random_time(Duration::from_millis(most))
    }

    async fn register(&self, registry: &Registry, name: &str) {
        let (mailbox, inbox) = mailbox::<u64, u64>(1);
        let session = registry.status().member.session;
        let metadata = Metadata::new().label("by", self.settings.node.as_str());
        let asked = self.common.claims.asks(name, session, self.common.now());
        let outcome = registry.register_with(name, &mailbox, metadata, self.timeout()).await;
        self.trace(format_args!("registers {name} -> {outcome:?}"));
        match outcome {
            Ok(made) => {
                self.common.count(|named| &mut named.registered);
                let made = Arc::new(made);
                self.common.owners.holds(self.process, session, &made);
                let now = self.common.now();
                let acknowledged = self.common.claims.acknowledged(name, (session, made.number()), now);
                self.common.judge(acknowledged);
                self.common.judge(self.common.owners.check([name]));
                if registry.whereis(name).is_none_or(|entry| entry.number() != made.number()) {
                    let found = registry.whereis(name);
                    self.common.judge(Err(format!("{name} was acknowledged, and its owner sees {found:?}")));
                }
                self.desk.held.lock().push((made, session));
                // Nobody reads it: an inbox that goes closes nothing.
                drop(inbox);
            }
            Err(RegistryError::Taken { by, .. }) => {
                self.common.count(|named| &mut named.taken);
                self.common.judge(self.common.claims.taken(&asked, by.session));
            }
            Err(RegistryError::OutcomeUnknown { .. }) => self.common.count(|named| &mut named.unknown),
            Err(_) => {}
        }
    }

    /// One of those that are held, which is held no longer.
    fn take_one(&self) -> Option<(Registration, SessionId)> {
        let mut held = self.desk.held.lock();
        if held.is_empty() {
            return None;
        }
        let at = usize::try_from(self.env.random_in(0..held.len() as u64)).expect("few");
        let (one, session) = held.swap_remove(at);
        drop(held);
        self.common.claims.gives_up(session, one.number());
        // The other worker may be describing it.
        Arc::try_unwrap(one).ok().map(|one| (one, session))
    }

    async fn unregister(&self) {
        let Some((one, session)) = self.take_one() else { return };
        let (name, number) = (one.name().to_owned(), one.number());
        let outcome = one.unregister(self.timeout()).await;
        self.trace(format_args!("unregisters {name} -> {outcome:?}"));
        match outcome {
            Ok(()) => self.common.claims.freed(session, number, self.common.now()),
            Err(RegistryError::OutcomeUnknown { .. }) => self.common.count(|named| &mut named.unknown),
            Err(_) => {}
        }
    }

    fn drop_one(&self) {
        if let Some((one, _)) = self.take_one() {
            self.trace(format_args!("drops {}", one.name()));
        }
    }

    async fn describe(&self) {
        let one = self.desk.held.lock().first().cloned();
        if let Some((one, _)) = one {
            let metadata = Metadata::new().label("at", self.common.now().as_millis().to_string());
            let outcome = one.describe(metadata, self.timeout()).await;
            self.trace(format_args!("describes {} -> {outcome:?}", one.name()));
        }
    }

    async fn look_up(&self, registry: &Registry, name: &str) {
        let begun = self.common.now();
        let found = registry.whereis_consistent(name).await;
        self.trace(format_args!("looks {name} up -> {found:?}"));
        if let Ok(found) = found {
            self.common.count(|named| &mut named.looked_up);
            let found = found.map(|entry| (entry.owner().session, entry.number()));
            self.common.judge(self.common.claims.looked_up(name, begun, found));
        }
    }

    fn list(&self, registry: &Registry) {
        let page = registry.list(&Query::all(), None, usize::MAX);
        self.common.judge(self.common.chronicle.check(self.settings.node.as_str(), &page));
        for entry in &page.entries {
            if registry.whereis(entry.name()).as_ref() != Some(entry) {
                self.common.judge(Err(format!("{entry:?} is listed, and looked up otherwise")));
            }
        }
    }

    /// Lets go of what is lost.
    fn let_go_of_lost(&self) {
        let lost: Vec<_> =
            self.desk.held.lock().extract_if(.., |(held, _)| held.remaining().is_zero()).collect();
        for (one, session) in lost {
            self.common.count(|named| &mut named.lost);
            self.common.claims.gives_up(session, one.number());
        }
    }

    fn trace(&self, event: std::fmt::Arguments<'_>) {
        self.common.world.trace.record(format_args!("{}.{} {event}", self.settings.node, self.process));
    }
}
