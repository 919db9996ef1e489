//! What a process does with names: it keeps its share, fights for others, looks them up and calls them, until it is told to rest.

use std::{sync::Arc, time::Duration};

use tenure::{
    registry::{Mailbox, Metadata, Registration, Registry, RegistryError, mailbox},
    store::Env,
};
use tokio::sync::watch;

use crate::journal::Journal;

/// Names that all fight for: few enough to be wanted by several at once.
const WANTED: u64 = 64;

/// How long a name that was won is kept at most.
const KEPT_MOST: Duration = Duration::from_millis(40);

/// After something that did not succeed.
const PAUSE: Duration = Duration::from_millis(5);

/// Between two looks of one task.
const LOOK_PAUSE: Duration = Duration::from_millis(4);

/// How long a request may take.
const TIME: Duration = Duration::from_secs(10);
const CALL_TIME: Duration = Duration::from_millis(500);

/// How many local look-ups are made between two consistent ones.
const LOCAL_LOOKS: u64 = 50;

/// A mailbox is asked with nothing, and says by whom and under which claim it is owned.
type Box = Mailbox<(), (String, u64)>;

/// What all tasks of a process have.
#[derive(Clone)]
pub(crate) struct Rival {
    pub(crate) registry: Registry,
    pub(crate) journal: Arc<Journal>,
    pub(crate) session: String,
    pub(crate) dice: Env,
    pub(crate) rest: watch::Receiver<bool>,
    /// How many names are shared out.
    pub(crate) names: u64,
}

/// A name of those that are shared out.
pub(crate) fn shared(number: u64) -> String {
    format!("shared/{number}")
}

impl Rival {
    fn rests(&self) -> bool {
        *self.rest.borrow()
    }

    /// Registers a name, and writes down what comes of it.
    async fn claim(&self, name: &str) -> Option<(u64, Registration)> {
        let claim = self.journal.ask(name);
        let mailbox = self.mailbox(claim);
        let result = self.registry.register_with(name, &mailbox, Metadata::new(), TIME).await;
        match &result {
            Ok(registration) => {
                let entry = self.registry.whereis(name);
                let epoch = entry.as_ref().map_or(0, |entry| entry.epoch());
                self.journal.tell("own", claim, format_args!("{} {epoch}", registration.number()));
                let own = |entry: &Arc<tenure::registry::Entry>| entry.number() == registration.number();
                if !entry.as_ref().is_some_and(own) && !registration.remaining().is_zero() {
                    self.journal
                        .say(format_args!("flaw {name} was acknowledged, and this node sees {entry:?}"));
                }
            }
            Err(RegistryError::Taken { by, .. }) => self.journal.tell("taken", claim, by.session),
            Err(error @ (RegistryError::OutcomeUnknown { .. } | RegistryError::Lost { .. })) => {
                self.journal.tell("maybe", claim, error);
            }
            Err(error) => self.journal.tell("not", claim, error),
        }
        result.ok().map(|registration| (claim, registration))
    }

    /// A mailbox that answers until nobody has it any more.
    fn mailbox(&self, claim: u64) -> Box {
        let (mailbox, mut inbox) = mailbox(4);
        let session = self.session.clone();
        tokio::spawn(async move {
            while let Some(letter) = inbox.recv().await {
                // Whoever asked may have gone.
                let _ = letter.reply(&(session.clone(), claim));
            }
        });
        mailbox
    }

    /// Registers every so many of the shared names, from one on, each as soon as it is free, and keeps them.
    pub(crate) async fn keep(self, names: Vec<u64>) -> Vec<Registration> {
        let mut kept = Vec::new();
        for number in names {
            let name = shared(number);
            loop {
                if let Some((claim, registration)) = self.claim(&name).await {
                    if registration.remaining().is_zero() {
                        self.journal.tell("lost", claim, "");
                    }
                    kept.push(registration);
                    break;
                }
                self.dice.sleep(PAUSE).await;
                if self.rests() {
                    return kept;
                }
            }
        }
        kept
    }

    /// Fights for names, and gives them back soon, in one way or another.
    pub(crate) async fn fight(self) {
        while !self.rests() {
            let name = format!("wanted/{}", self.dice.random_in(0..WANTED));
            let Some((claim, registration)) = self.claim(&name).await else {
                self.dice.sleep(PAUSE).await;
                continue;
            };
            tokio::select! {
                () = self.dice.sleep(self.dice.random_time(KEPT_MOST)) => {}
                () = registration.lost() => self.journal.tell("lost", claim, ""),
            }
            self.journal.tell("back", claim, "");
            if self.dice.chance(0.5) {
                if registration.unregister(TIME).await.is_ok() {
                    self.journal.tell("free", claim, "");
                }
            } else {
                drop(registration);
            }
        }
    }

    /// Looks names up, and calls them.
    pub(crate) async fn look(self) {
        while !self.rests() {
            self.dice.sleep(LOOK_PAUSE).await;
            let name = if self.dice.chance(0.5) {
                shared(self.dice.random_in(0..self.names))
            } else {
                format!("wanted/{}", self.dice.random_in(0..WANTED))
            };
            for _ in 0..LOCAL_LOOKS {
                let name = shared(self.dice.random_in(0..self.names));
                if self.registry.whereis(&name).is_some_and(|entry| entry.name() != name) {
                    self.journal.say(format_args!("flaw {name} was looked up, and another was found"));
                }
            }
            let since = self.journal.now();
            if self.dice.chance(0.5) {
                // One that can't be answered says nothing.
                if let Ok(found) = self.registry.whereis_consistent(&name).await {
                    let owner = found.map_or_else(
                        || "- 0".to_owned(),
                        |entry| format!("{} {}", entry.owner().session, entry.number()),
                    );
                    self.journal.saw("see", since, format_args!("{name} {owner}"));
                }
            } else if let Ok((session, claim)) =
                self.registry.call::<(), (String, u64)>(&name, &(), CALL_TIME).await
            {
                self.journal.saw("call", since, format_args!("{name} {session} {claim}"));
            }
        }
    }
}
