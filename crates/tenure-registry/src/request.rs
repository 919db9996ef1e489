//! [`request`]: asks whoever leads for a change, and waits for what comes of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{Owner, RegistryError, batch::Change, member::Member, message::Answer};

/// Asks whoever leads for a change, and waits until this node's own names show it.
pub(crate) async fn request(
    member: &Arc<Member>,
    owner: Owner,
    change: Change,
    timeout: Duration,
) -> Result<(), RegistryError> {
    let (does, name) = match &change {
        Change::Register { name, .. } => ("the registration of", Some(name.clone())),
        Change::Unregister { name, .. } => ("taking back the registration of", Some(name.clone())),
        Change::Describe { name, .. } => ("describing", Some(name.clone())),
        Change::Ended | Change::Left { .. } => ("taking back", None),
    };
    // Words are for those who fail: most do not.
    let name = || name.as_ref().map_or_else(|| "all registrations".to_owned(), ToString::to_string);
    let what = || format!("{does} {}", name());
    let lost = || RegistryError::Lost { name: name() };
    if member.leaving.load(Ordering::SeqCst) && !matches!(change, Change::Left { .. }) {
        return Err(RegistryError::Left);
    }
    let (told, answer) = oneshot::channel();
    let Some(number) = member.outbox.submit(member, owner, change, Some(told)) else { return Err(lost()) };
    // Given up when this is dropped, too.
    let mut waiting = Waiting { member, number, pending: true };
    let answered = member.ground.env().timeout(timeout, async {
        let answer = answer.await;
        if let Ok(Answer::Done(position)) = answer {
            member.names.reach(position).await;
        }
        answer
    });
    let answered = answered.await;
    waiting.pending = answered.is_err();
    let result = match answered {
        Ok(Ok(Answer::Done(_))) => Ok(()),
        Ok(Ok(Answer::Taken(by))) => Err(RegistryError::Taken { name: name(), by }),
        Ok(Ok(Answer::Gone | Answer::Ended)) => Err(lost()),
        Ok(Ok(Answer::NotLeader)) => Err(RegistryError::unavailable(what(), "nobody leads")),
        Ok(Err(_)) => {
            let why = "the session of this node has ended, or the node has left".into();
            Err(RegistryError::OutcomeUnknown { what: format!("{} was done", what()), why })
        }
        Err(_) if waiting.give_up() => Err(RegistryError::OutcomeUnknown {
            what: format!("{} was done", what()),
            why: format!("no answer came within {timeout:?}"),
        }),
        Err(_) => Err(RegistryError::unavailable(
            what(),
            format!("nobody who leads was reached within {timeout:?}"),
        )),
    };
    let outcome = match &result {
        Ok(()) => "done",
        Err(RegistryError::Taken { .. }) => "taken",
        Err(RegistryError::Lost { .. }) => "lost",
        Err(RegistryError::Unavailable { .. }) => "unavailable",
        Err(_) => "unknown",
    };
    let registry = member.registry.to_shared();
    metrics::counter!("tenure_registry_requests_total", "registry" => registry, "outcome" => outcome)
        .increment(1);
    result
}

/// A request that is waited for.
struct Waiting<'a> {
    member: &'a Arc<Member>,
    number: u64,
    /// Whether there was no answer yet.
    pending: bool,
}

impl Waiting<'_> {
    /// Gives it up. Returns whether it may have happened.
    fn give_up(&self) -> bool {
        self.member.outbox.give_up(self.number)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.pending {
            self.give_up();
        }
    }
}
