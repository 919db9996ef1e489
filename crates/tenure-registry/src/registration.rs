//! [`Registration`]: a name that this process owns, and [`Spawned`]: a task that does.

use std::{fmt, sync::Arc, time::Duration};

use tenure_cluster::Hold;
use tenure_store::Name;
use tokio::task::JoinHandle;

use crate::{
    Metadata, Owner, RegistryError,
    batch::Change,
    mailbox::Shared,
    member::Member,
    request::{Words, ask},
};

/// A name that this process owns. Dropping it unregisters the name.
pub struct Registration {
    pub(crate) member: Arc<Member>,
    pub(crate) name: Name,
    pub(crate) number: u64,
    pub(crate) hold: Hold,
    pub(crate) shared: Arc<Shared>,
    /// Whether it is still to be taken back.
    pub(crate) owned: bool,
}

impl Registration {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Tells this registration from others of this process.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// For how long the name is this one's for certain: nobody else can have it before that is over. Zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.shared.is_closed() || !self.member.mailroom.has(self.number) {
            return Duration::ZERO;
        }
        self.hold.remaining()
    }

    /// Returns when the name is lost: the session that it hangs on is about to lapse, or has ended. Its mailbox is closed then. A little time is left until the name can be another's; what
    /// acts in its name must have stopped by then.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn lost(&self) {
        self.shared.closed().await;
    }

    /// Says something else about the name, in place of all that was said before.
    ///
    /// # Errors
    /// [`RegistryError::Lost`], [`RegistryError::Invalid`], and when it can't be done at present.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it happens.
    pub async fn describe(&self, metadata: Metadata, timeout: Duration) -> Result<(), RegistryError> {
        metadata.admit()?;
        if self.remaining().is_zero() {
            return Err(RegistryError::Lost { name: self.name.to_string() });
        }
        self.member.admit()?;
        let (name, number) = (self.name.clone(), self.number);
        let change = |request| Change::Describe { name, number, request, metadata };
        ask(&self.member, self.owner(), Words::new("describing", &self.name), change)?.outcome(timeout).await
    }

    /// Takes the name back, and returns when it is free for others. The mailbox takes no more messages under this name from now on.
    ///
    /// # Errors
    /// When it can't be done at present: it is then taken back as soon as that is possible, or is free when the session ends.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop it.
    pub async fn unregister(mut self, timeout: Duration) -> Result<(), RegistryError> {
        self.owned = false;
        self.member.mailroom.remove(self.number);
        match self.ask_to_unregister(timeout).await {
            // It was free already.
            Err(RegistryError::Lost { .. }) => Ok(()),
            Err(error) => {
                self.take_back();
                Err(error)
            }
            done => done,
        }
    }
}

impl Registration {
    fn owner(&self) -> Owner {
        Owner { node: self.member.ground.settings().node.clone(), session: self.hold.session().id() }
    }

    async fn ask_to_unregister(&self, timeout: Duration) -> Result<(), RegistryError> {
        self.member.admit()?;
        let words = Words::new("taking back the registration of", &self.name);
        ask(&self.member, self.owner(), words, |_| self.unregistered())?.outcome(timeout).await
    }

    fn unregistered(&self) -> Change {
        Change::Unregister { name: self.name.clone(), number: self.number }
    }

    /// Has it taken back, without waiting for that.
    fn take_back(&self) {
        // Without its session, it is free already.
        self.member.outbox.submit(&self.member, self.owner(), None, |_| self.unregistered());
    }

    /// Lets go of what was refused, or never asked of anybody.
    pub(crate) fn forget(mut self) {
        self.owned = false;
        self.member.mailroom.remove(self.number);
        self.member.take_back_if_abandoned(self.name.as_str());
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.owned {
            self.member.mailroom.remove(self.number);
            self.take_back();
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("name", &self.name)
            .field("number", &self.number)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// A task that owns a name. The name is lost when the task ends, and the task is ended when the name is lost. Dropping it ends both.
#[derive(Debug)]
pub struct Spawned {
    pub(crate) name: Name,
    pub(crate) shared: Arc<Shared>,
    pub(crate) task: JoinHandle<()>,
}

impl Spawned {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns when the task has ended, for whatever reason.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn ended(&mut self) {
        if !self.task.is_finished() {
            // A task that panicked has ended.
            let _ = (&mut self.task).await;
        }
    }

    /// Whether the name was lost while the task ran.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.is_closed()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.task.abort();
    }
}
