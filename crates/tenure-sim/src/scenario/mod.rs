//! Fleets at work under faults: what runs from a thousand seeds.

mod bank;
mod elections;
mod followers;
mod lanes;
mod promises;
mod registry;
mod servers;
mod suspension;

use std::time::Duration;

use tenure_store::{Faults, Retry};

use crate::{Node, World};

pub use bank::bank;
pub use elections::{Elected, elections};
pub use followers::{Following, followers};
pub use lanes::{Runner, Told, lanes};
pub use promises::{Figures, promises};
pub use registry::{Named, registry};
pub use servers::{Served, servers};
pub use suspension::suspension;

/// How long everything may take to settle once there are no faults any more: longer than any late commit, waking or retry.
pub const CALM: Duration = Duration::from_secs(60);

/// A patience that faults exhaust now and then.
const RETRY: Retry = Retry {
    first: Duration::from_millis(1),
    most: Duration::from_millis(50),
    within: Duration::from_millis(400),
};

/// Cuts nodes off and connects them again, until told to stop.
async fn cut_and_heal(world: World, nodes: Vec<Node>) {
    loop {
        world.env.sleep(world.env.random_time(Duration::from_millis(400))).await;
        let node = &nodes[usize::try_from(world.env.random_in(0..nodes.len() as u64)).expect("few nodes")];
        node.cut();
        world.env.sleep(world.env.random_time(Duration::from_millis(600))).await;
        node.heal();
    }
}

/// Ends all faults.
fn calm(nodes: &[Node]) {
    for node in nodes {
        node.set_faults(Faults::NONE);
        node.heal();
    }
}
