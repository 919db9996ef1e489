//! [`Board`]: what a node's tasks know of its own spread singletons. Nothing here is in the store.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tenure_store::{Name, StoreError, latest};
use tokio::sync::mpsc;

use super::record::{Heir, Offer, Post, Run};
use crate::runner::Order;

/// What a node is to do about one of its singletons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing: it does not stand. If it leads all the same, it goes on.
    #[default]
    Idle,
    /// Stand.
    Stand,
    /// Take it if it is free and nobody stands. The number tells one try from the next.
    Try(u64),
    /// Hand it over to this one as soon as it stands. Until then it is kept, and taken back if nobody has it.
    Yield(Heir),
}

impl Wish {
    /// What is to be done about a singleton with this post, or none.
    fn of(post: Option<&Post>) -> Self {
        match post {
            Some(Post { heir: None }) => Self::Stand,
            Some(Post { heir: Some(heir) }) => Self::Yield(heir.clone()),
            None => Self::Idle,
        }
    }
}

/// The spread singletons of one node.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    /// Counts what others should hear of.
    news: latest::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    locals: BTreeMap<Name, Local>,
    /// What the placer wants of this session, of singletons that come later too.
    posts: BTreeMap<Name, Post>,
    /// The last number of an entry, or of a try.
    last: u64,
    /// Whether the node is about to leave: it offers nothing any more.
    leaving: bool,
}

#[derive(Debug)]
struct Local {
    /// Tells it from earlier ones of the same name.
    id: u64,
    offer: Offer,
    /// Whether its runner wants it: not while it rests after failures, nor before its first claim.
    willing: bool,
    runs: Option<Run>,
    wish: latest::Sender<Wish>,
    order: mpsc::WeakSender<Order>,
}

/// A singleton on the board, until this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    board: Arc<Board>,
    name: Name,
    id: u64,
}

/// A hand-over that is to be prepared.
#[derive(Debug)]
pub(crate) struct Yielding {
    pub(crate) name: Name,
    pub(crate) heir: Heir,
    pub(crate) wish: latest::Receiver<Wish>,
    pub(crate) order: mpsc::WeakSender<Order>,
}

impl Board {
    /// Puts a singleton on the board.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is there already.
    pub(crate) fn enter(
        self: &Arc<Self>,
        name: &Name,
        offer: Offer,
        order: mpsc::WeakSender<Order>,
    ) -> Result<(Entry, latest::Receiver<Wish>), StoreError> {
        let mut state = self.state.lock();
        // One that nobody has a handle of is about to end.
        if state.locals.get(name).is_some_and(|local| local.order.strong_count() > 0) {
            return Err(StoreError::invalid(format!(
                "singleton {name} is spread by this node already: shut the other one down first"
            )));
        }
        state.last += 1;
        let id = state.last;
        let (wish, wishes) = latest::channel(Wish::of(state.posts.get(name)));
        state.locals.insert(name.clone(), Local { id, offer, willing: false, runs: None, wish, order });
        Ok((Entry { board: Arc::clone(self), name: name.clone(), id }, wishes))
    }

    /// Changes whenever others should hear of something.
    pub(crate) fn news(&self) -> latest::Receiver<u64> {
        self.news.subscribe()
    }

    /// What the node offers and runs.
    pub(crate) fn announced(&self) -> (BTreeMap<Name, Offer>, BTreeMap<Name, Run>) {
        let state = self.state.lock();
        let offered = state.locals.iter().filter(|(_, local)| local.willing && !state.leaving);
        let offers = offered.map(|(name, local)| (name.clone(), local.offer)).collect();
        let running = state.locals.iter().filter_map(|(name, local)| Some((name.clone(), local.runs?)));
        (offers, running.collect())
    }

    /// What the node runs.
    pub(crate) fn running(&self) -> Vec<Name> {
        let state = self.state.lock();
        let running = state.locals.iter().filter(|(_, local)| local.runs.is_some());
        running.map(|(name, _)| name.clone()).collect()
    }

    /// From now on the node offers nothing.
    pub(crate) fn leave(&self) {
        self.state.lock().leaving = true;
        self.tell();
    }

    /// The placer wants this of us. Returns the hand-overs that are new.
    pub(crate) fn follow(&self, posts: &BTreeMap<Name, Post>) -> Vec<Yielding> {
        let mut yielding = Vec::new();
        let mut state = self.state.lock();
        state.posts.clone_from(posts);
        for (name, local) in &state.locals {
            let wish = Wish::of(posts.get(name));
            if wish == Wish::Idle && matches!(*local.wish.borrow(), Wish::Try(_)) {
                // We have helped ourselves to it, while there was nobody to ask.
                continue;
            }
            let new = local.wish.send_if_modified(|present| {
                let new = *present != wish;
                present.clone_from(&wish);
                new
            });
            if let (true, Wish::Yield(heir)) = (new, wish) {
                let (wish, order) = (local.wish.subscribe(), local.order.clone());
                yielding.push(Yielding { name: name.clone(), heir, wish, order });
            }
        }
        yielding
    }

    /// What this node could run and nobody told it to.
    pub(crate) fn idle(&self) -> Vec<Name> {
        let state = self.state.lock();
        let idle = state.locals.iter().filter(|(_, local)| {
            let waits = matches!(*local.wish.borrow(), Wish::Idle | Wish::Try(_));
            local.willing && local.offer.fit && local.runs.is_none() && waits && !state.leaving
        });
        idle.map(|(name, _)| name.clone()).collect()
    }

    /// Tries to get these, where they are free.
    pub(crate) fn help_with(&self, names: &[Name]) {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        for local in names.iter().filter_map(|name| state.locals.get(name)) {
            local.wish.send_if_modified(|wish| {
                let idle = matches!(wish, Wish::Idle | Wish::Try(_));
                if idle {
                    *wish = Wish::Try(number);
                }
                idle
            });
        }
    }

    /// There is somebody to ask again.
    pub(crate) fn end_help(&self) {
        for local in self.state.lock().locals.values().filter(|local| local.runs.is_none()) {
            local.wish.send_if_modified(|wish| {
                let tried = matches!(wish, Wish::Try(_));
                if tried {
                    *wish = Wish::Idle;
                }
                tried
            });
        }
    }

    fn tell(&self) {
        self.news.send_modify(|count| *count += 1);
    }
}

impl Entry {
    /// Its runner wants it, and does not have it.
    pub(crate) fn wants(&self) {
        self.change(|local| (local.willing, local.runs) = (true, None));
    }

    /// Its runner has it.
    pub(crate) fn runs(&self, term: u64) {
        self.change(|local| local.runs = Some(Run { term }));
    }

    /// Its runner does not have it any more.
    pub(crate) fn stopped(&self) {
        self.change(|local| local.runs = None);
    }

    /// Its runner does not want it at present.
    pub(crate) fn declines(&self) {
        self.change(|local| local.willing = false);
    }

    fn change(&self, change: impl FnOnce(&mut Local)) {
        let mut state = self.board.state.lock();
        let Some(local) = state.locals.get_mut(&self.name).filter(|local| local.id == self.id) else {
            return;
        };
        let before = (local.willing, local.runs);
        change(local);
        let new = before != (local.willing, local.runs);
        drop(state);
        if new {
            self.board.tell();
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.board.state.lock();
        if state.locals.get(&self.name).is_some_and(|local| local.id == self.id) {
            state.locals.remove(&self.name);
            drop(state);
            self.board.tell();
        }
    }
}
