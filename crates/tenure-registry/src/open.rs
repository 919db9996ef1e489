//! [`Registries`]: how a node gets its part in a registry, and gives it up.

use std::sync::{Arc, atomic::Ordering};

use tenure_cluster::Cluster;
use tenure_server::Serve as _;
use tenure_store::Name;

use crate::{
    Elector, Registry, RegistryError, Wire,
    elector::{MemberId, Membership},
    keys::RegistryKeys,
    log::Log,
    mailroom,
    member::{Member, Members},
    outbox, receiver, scout, usher,
};

/// The longest name of a registry, in bytes: what is made of it must still be a [`Name`].
pub const REGISTRY_NAME_BYTES_MAX: usize = 200;

/// Registries, for whoever takes part in a cluster.
pub trait Registries {
    /// Takes part in the registry of this name, until the node leaves, and returns when this node knows all names. To take part twice changes nothing.
    ///
    /// # Errors
    /// [`RegistryError::Invalid`] when it is no [`Name`], or too long; errors of the store.
    fn registry(&self, name: &str) -> impl Future<Output = Result<Registry, RegistryError>> + Send;

    /// The same, with another way to other nodes than the links of this one. All of a cluster must have the same.
    ///
    /// # Errors
    /// As [`Registries::registry`].
    fn registry_over(
        &self,
        name: &str,
        wire: Option<Arc<dyn Wire>>,
    ) -> impl Future<Output = Result<Registry, RegistryError>> + Send;
}

impl Registries for Cluster {
    async fn registry(&self, name: &str) -> Result<Registry, RegistryError> {
        let wire = self.links().map(|links| Arc::new(links.clone()) as Arc<dyn Wire>);
        self.registry_over(name, wire).await
    }

    async fn registry_over(
        &self,
        name: &str,
        wire: Option<Arc<dyn Wire>>,
    ) -> Result<Registry, RegistryError> {
        let registry: Name = name.parse()?;
        if name.len() > REGISTRY_NAME_BYTES_MAX {
            return Err(RegistryError::Invalid(format!(
                "the name of a registry has {} bytes, the longest has {REGISTRY_NAME_BYTES_MAX}: shorten it",
                name.len()
            )));
        }
        let topics = (format!("registry/{name}").parse()?, format!("registry-mail/{name}").parse()?);
        let members = members(self);
        self.serve_with(Elector::new(self.ground(), &members))?;
        let elector = Elector::of(self, name)?;
        let member = members.open(&registry, || {
            let ground = self.ground();
            let keys = RegistryKeys::new(ground.keys(), &registry, elector.field_key("leader"));
            let log = Log { store: Arc::clone(ground.store()), keys: Arc::new(keys) };
            let member = Member::new(ground, registry.clone(), elector, wire, topics, log, &members);
            let tasks = start(&member);
            (member, tasks)
        });
        let registry = Registry::new(member, &members);
        registry.load().await?;
        Ok(registry)
    }
}

/// What this node has for its registries.
fn members(cluster: &Cluster) -> Arc<Members> {
    let mut new = false;
    let members = cluster.extension(|ground| {
        new = true;
        Members::new(ground)
    });
    if new {
        let leaving = Arc::downgrade(&members);
        cluster.before_leaving(async move {
            let all = leaving.upgrade().map(|members| members.all()).unwrap_or_default();
            // At once: one that takes its time must not add to that of the others.
            let farewells = all.into_iter().map(|member| {
                let env = member.ground.env().clone();
                env.spawn(async move { step_down(&member).await })
            });
            for farewell in farewells.collect::<Vec<_>>() {
                // One that panics can't be helped.
                let _ = farewell.await;
            }
        });
    }
    members
}

/// From now on, registries that this node opens make these mistakes.
#[cfg(feature = "flaws")]
pub fn plant(cluster: &Cluster, flaws: crate::Flaws) {
    members(cluster).plant(flaws);
}

/// Starts all that a member does.
fn start(member: &Arc<Member>) -> Vec<tokio::task::JoinHandle<()>> {
    let env = member.ground.env();
    let mut tasks = vec![
        env.spawn(scout::run(Arc::clone(member))),
        env.spawn(usher::run(Arc::clone(member))),
        env.spawn(outbox::run(Arc::clone(member))),
        env.spawn(mailroom::watch(Arc::clone(member))),
    ];
    if let Some(wire) = &member.wire {
        tasks.push(env.spawn(receiver::run(Arc::clone(member), wire.receive(&member.topic))));
        tasks.push(env.spawn(member.postman.clone().receive(wire.receive(member.postman.topic()))));
    }
    tasks
}

/// Closes all mailboxes, leads no longer when all that was taken is committed, and tells the elector, so that another does at once. Returns after a ttl at the latest.
pub(crate) async fn step_down(member: &Arc<Member>) {
    member.leaving.store(true, Ordering::SeqCst);
    member.mailroom.close_all();
    let (me, env) = (member.me(), member.ground.env());
    let farewell = async {
        member.retire().await;
        let gone = Membership::MemberDown(MemberId::new(&me.node, me.session));
        // If it fails, the end of the session says the same.
        let _ = env.timeout(member.ground.request_time(), usher::cast(member, gone)).await;
    };
    // While the store is gone, a batch under way can't be settled. Whoever leads next reads what became of it.
    let _ = env.timeout(member.ground.settings().ttl, farewell).await;
}
