//! Suspension: all nodes stand still for longer than a ttl, as on a machine that sleeps, and go on one after another.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cluster, Flaws, Settings};
use tenure_store::{Faults, Gate, Store};

use crate::{World, invariant::Spared};

const NODES: usize = 3;
const ROUNDS: usize = 3;
const TTL: Duration = Duration::from_secs(6);

/// Nodes that are suspended together, again and again.
///
/// # Errors
/// When anybody's session was ended, though all had been away.
pub async fn suspension(world: World, flaws: Flaws) -> Result<(), String> {
    let mut spared = Spared::default();
    let mut fleet = Vec::new();
    for at in 0..NODES {
        let node = world.node(format!("node{at}"), Faults::NONE);
        let gate = Gate::new();
        let mut settings = Settings::new("fleet", &node.name).expect("names").with_ttl(TTL).with_flaws(flaws);
        settings.proof_of_death = false;
        let store: Arc<dyn Store> = node.store();
        let cluster = Cluster::join_in(store, settings, node.env.behind(&gate)).await;
        let cluster = cluster.map_err(|error| error.to_string())?;
        spared.has(&node.name, cluster.session().id());
        fleet.push((node, gate, cluster));
    }
    for _ in 0..ROUNDS {
        world.env.sleep(TTL + world.env.random_time(TTL)).await;
        fleet.iter().for_each(|(_, gate, _)| gate.pause());
        world.env.sleep(TTL * 2 + world.env.random_time(TTL)).await;
        for (_, gate, _) in &fleet {
            gate.resume();
            world.env.sleep(world.env.random_time(TTL / 4)).await;
        }
    }
    world.env.sleep(TTL * 3).await;
    fleet.iter().try_for_each(|(node, _, cluster)| spared.check(&node.name, cluster.session().id()))
}
