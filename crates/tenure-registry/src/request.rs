//! [`ask`]: asks whoever leads for a change, and [`Asked`]: waits for what comes of it.

use std::{sync::Arc, time::Duration};

use tenure_store::Name;
use tokio::sync::oneshot;

use crate::{Owner, RegistryError, batch::Change, member::Member, message::Answer, outbox::Told};

/// What is asked for, in words: what is done, and to which name.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) does: &'static str,
    /// Nothing, if it is about all names.
    pub(crate) name: Option<Name>,
}

impl Words {
    pub(crate) fn new(does: &'static str, name: &Name) -> Self {
        Self { does, name: Some(name.clone()) }
    }

    fn name(&self) -> String {
        self.name.as_ref().map_or_else(|| "all registrations".to_owned(), ToString::to_string)
    }

    fn lost(&self) -> RegistryError {
        RegistryError::Lost { name: self.name() }
    }
}

/// A request that is waited for. It is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    member: &'a Arc<Member>,
    words: Words,
    /// Of the request.
    pub(crate) number: u64,
    answer: oneshot::Receiver<Told>,
    /// Whether there was no answer yet.
    pending: bool,
}

/// Asks whoever leads for what `change` makes of the request's number.
pub(crate) fn ask(
    member: &Arc<Member>,
    owner: Owner,
    words: Words,
    change: impl FnOnce(u64) -> Change,
) -> Result<Asked<'_>, RegistryError> {
    let (told, answer) = oneshot::channel();
    match member.outbox.submit(member, owner, Some(told), change) {
        Some(number) => Ok(Asked { member, words, number, answer, pending: true }),
        None => Err(words.lost()),
    }
}

impl Asked<'_> {
    /// Waits until this node's own names show it.
    pub(crate) async fn outcome(self, timeout: Duration) -> Result<(), RegistryError> {
        self.outcome_and_copies(timeout).await.0
    }

    /// The same, and whether copies of the request may be decided yet.
    pub(crate) async fn outcome_and_copies(mut self, timeout: Duration) -> (Result<(), RegistryError>, bool) {
        let member = self.member;
        let answered = member.ground.env().timeout(timeout, async {
            let answer = (&mut self.answer).await;
            if let Ok((Answer::Done(position), _)) = answer {
                member.names.reach(position).await;
            }
            answer
        });
        let answered = answered.await;
        self.pending = answered.is_err();
        let copied = matches!(answered, Ok(Ok((_, true))));
        let answered = answered.map(|told| told.map(|(answer, _)| answer));
        // Words are for those who fail: most do not.
        let what = || format!("{} {}", self.words.does, self.words.name());
        let result = match answered {
            Ok(Ok(Answer::Done(_))) => Ok(()),
            Ok(Ok(Answer::Taken(by))) => Err(RegistryError::Taken { name: self.words.name(), by }),
            Ok(Ok(Answer::Gone | Answer::Ended)) => Err(self.words.lost()),
            Ok(Ok(Answer::NotLeader)) => Err(RegistryError::unavailable(what(), "nobody leads")),
            Ok(Err(_)) => {
                let why = "the session of this node has ended, or the node has left".into();
                Err(RegistryError::OutcomeUnknown { what: format!("{} was done", what()), why })
            }
            Err(_) if self.give_up() => Err(RegistryError::OutcomeUnknown {
                what: format!("{} was done", what()),
                why: format!("no answer came within {timeout:?}"),
            }),
            Err(_) => Err(RegistryError::unavailable(
                what(),
                format!("nobody who leads was reached within {timeout:?}"),
            )),
        };
        let requests = &member.meters.requests;
        let outcome = match &result {
            Ok(()) => &requests.done,
            Err(RegistryError::Taken { .. }) => &requests.taken,
            Err(RegistryError::Lost { .. }) => &requests.lost,
            Err(RegistryError::Unavailable { .. }) => &requests.unavailable,
            Err(_) => &requests.unknown,
        };
        outcome.increment(1);
        (result, copied)
    }

    /// Gives it up. Returns whether it may have happened.
    fn give_up(&self) -> bool {
        self.member.outbox.give_up(self.number)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.pending {
            self.give_up();
        }
    }
}
