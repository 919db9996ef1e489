//! [`Participant`]: stands in an election for as long as it is wanted, and tells of each rise and fall, once.

use std::{fmt, sync::Arc};

use tenure_store::latest;
use tokio::task::JoinHandle;

use super::{Election, Leadership};

/// Whether a node stands for an office.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It stands, and leads when elected.
    Candidate,
    /// It only watches. A leader that becomes an observer resigns.
    Observer,
}

/// What a participant is told. For each election the calls come in turns, a rise and then its fall, never two of one kind in a row, and
/// each is over before the next begins.
pub trait Callbacks: Send + Sync + 'static {
    /// This node leads now.
    fn on_elected(&self, leadership: &Arc<Leadership>);
    /// It leads no more: the session has lapsed or ended, it was deposed, or became an observer.
    fn on_deposed(&self, leadership: &Arc<Leadership>);
}

/// Stands in an election until it is dropped, winning again whenever it has lost.
pub struct Participant {
    role: latest::Sender<Role>,
    leading: latest::Receiver<Option<Arc<Leadership>>>,
    task: JoinHandle<()>,
}

impl Participant {
    pub(crate) fn start(
        election: Election,
        priority: i32,
        role: Role,
        callbacks: Arc<dyn Callbacks>,
    ) -> Self {
        let role = latest::Sender::new(role);
        let (tell, leading) = latest::channel(None);
        let env = election.standing.node.env.clone();
        let participation =
            Participation { election, priority, role: role.subscribe(), leading: tell, callbacks };
        Self { role, leading, task: env.spawn(participation.run()) }
    }

    /// Switches between standing and watching.
    pub fn set_role(&self, role: Role) {
        self.role.send_if_modified(|present| std::mem::replace(present, role) != role);
    }

    /// The leadership, while this node leads.
    #[must_use]
    pub fn leadership(&self) -> Option<Arc<Leadership>> {
        self.leading.borrow().clone()
    }
}

/// Resigns, if it leads, without another call.
impl Drop for Participant {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = *self.role.borrow();
        f.debug_struct("Participant").field("role", &role).field("leading", &self.leadership()).finish()
    }
}

struct Participation {
    election: Election,
    priority: i32,
    role: latest::Receiver<Role>,
    leading: latest::Sender<Option<Arc<Leadership>>>,
    callbacks: Arc<dyn Callbacks>,
}

impl Participation {
    async fn run(mut self) {
        loop {
            if self.role.wait_for(|role| *role == Role::Candidate).await.is_err() {
                return;
            }
            let mut role = self.role.clone();
            let won = tokio::select! {
                biased;
                changed = role.wait_for(|role| *role == Role::Observer) => match changed {
                    Ok(_) => continue,
                    Err(_) => return,
                },
                won = self.election.campaign_with(self.priority) => won,
            };
            let Ok(leadership) = won else { return };
            let leadership = Arc::new(leadership);
            self.callbacks.on_elected(&leadership);
            self.leading.send_replace(Some(Arc::clone(&leadership)));
            let (session, term) = (leadership.session().id(), leadership.term());
            let heir = tokio::select! {
                biased;
                () = leadership.lost() => None,
                _ = role.wait_for(|role| *role == Role::Observer) => None,
                ask = self.election.asked(session, term) => ask.to,
            };
            self.leading.send_replace(None);
            self.callbacks.on_deposed(&leadership);
            // The last one to hold it resigns; as a rule that is here.
            if let (Some(leadership), Some(heir)) = (Arc::into_inner(leadership), heir) {
                // If the heir does not wait for it, whoever waits first gets it.
                let _ = leadership.hand_over(&heir).await;
            }
        }
    }
}
