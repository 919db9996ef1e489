//! [`OneLeader`]: at no instant do two nodes believe that they lead.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tenure_cluster::Leadership;

/// All leaderships that anybody holds. A node that stands still believes what it would believe if it went on at that instant.
#[derive(Clone, Debug, Default)]
pub struct OneLeader {
    held: Arc<Mutex<Vec<Held>>>,
}

/// A node and its leadership.
type Held = (String, Weak<Leadership>);

impl OneLeader {
    /// This node holds this leadership, for as long as it lives.
    pub fn holds(&self, node: &str, leadership: &Arc<Leadership>) {
        let mut held = self.held.lock();
        held.retain(|(_, leadership)| leadership.strong_count() > 0);
        held.push((node.to_owned(), Arc::downgrade(leadership)));
    }

    /// Looks at this instant. Returns how many lead.
    ///
    /// # Errors
    /// Who believes that they lead, if they are two.
    pub fn check(&self) -> Result<usize, String> {
        let held = self.held.lock();
        let mut leaders = Vec::new();
        for (node, leadership) in held.iter() {
            // The last one to let go of it would resign: so this must never be the last, and on one thread it is not.
            let Some(leadership) = leadership.upgrade() else { continue };
            if !leadership.remaining().is_zero() {
                leaders.push(format!("{node} in term {}", leadership.term()));
            }
        }
        if leaders.len() > 1 {
            Err(format!("they all believe that they lead: {leaders:?}"))
        } else {
            Ok(leaders.len())
        }
    }
}
