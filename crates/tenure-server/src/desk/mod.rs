//! [`Desk`]: where one server's messages are handled on one node.
//!
//! A desk is a task with the server's state in memory. It comes into being when there is something to do, and goes when there has been nothing for a while; nothing is lost
//! with it. In each turn it
//!
//! 1. gathers: what callers in this process want, and, if the queue may have something, the head of the queue;
//! 2. folds all of it over the state, in memory;
//! 3. makes one commit, which checks that the server's head is still the one that the state belongs to.
//!
//! # Order
//! Calls of this process never touch the queue. They come behind everything that was acknowledged before they were made, since the commit proves the queue empty; or, if it
//! is not, since a queue that was read after they were made is handled before them, to its end, in the same commit.
//!
//! # Two desks for one server
//! Both are right: whoever commits second meets another head, reads again and runs again. To not waste work, the session that took from the queue last is its owner, and others leave it alone while it
//! gets on; they send what their callers want through the queue.
//!
//! # Messages that kill
//! Whoever is to take from the queue first writes that it does. If that session goes, the next owner runs messages one
//! by one, and says before each that it does. A message whose runner goes at that moment counts as failed. It is the
//! same with priority messages, which may have another owner.

mod birth;
mod commit;
mod delete;
mod doubt;
mod item;
mod load;
mod plan;
mod run;
mod settle;
mod sweep;
mod tell;
mod turn;
mod urgent;
mod work;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tenure_store::{Limits, Name, StoreError};
use tokio::sync::{Notify, mpsc, oneshot};

pub(crate) use commit::delete_pieces;
pub(crate) use item::{Body, Item, Local, Told};
pub(crate) use load::pieces;

pub(crate) use load::Memory;
pub use work::{Locked, LockedRequest};

use sweep::Sweep;
use turn::Turn;
use work::Worker;

use crate::{Server, ServerError, keys::ServerKeys, kind::Kind, watchdog::Slot};

/// How many requests wait for a desk before callers do.
pub(crate) const WAITING_MAX: usize = 8192;

/// Is shown the state.
pub(crate) type Look<S> = Box<dyn FnOnce(Result<&<S as Server>::State, ServerError>) + Send>;

/// Something that a desk is asked for.
#[allow(clippy::large_enum_variant, reason = "nearly all requests are the large one: a box would only cost")]
pub(crate) enum Request<S: Server> {
    /// Handle this message.
    Handle(Item<S>),
    /// Show the state.
    Look(Look<S>),
    /// There may be something in the store: [`Shared::poked`] says so. This only wakes it.
    Poke,
    /// Locked work has ended.
    Worked(work::Worked<S>),
    /// Something is to be swept: what is kept until this time.
    Sweep(u64),
    /// Effects that were to be done are done.
    EffectsDone,
    /// A commit whose outcome was told as unknown has landed, or can't any more.
    Settled,
}

/// The way to a desk.
pub(crate) struct DeskRef<S: Server> {
    pub(crate) requests: mpsc::Sender<Request<S>>,
    pub(crate) shared: Arc<Shared>,
}

impl<S: Server> Clone for DeskRef<S> {
    fn clone(&self) -> Self {
        Self { requests: self.requests.clone(), shared: Arc::clone(&self.shared) }
    }
}

/// What others may know of a desk without asking it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Whether it can't go: it has something in hand.
    pub(crate) busy: AtomicBool,
    /// When it was used last, counted in rounds of the janitor.
    pub(crate) used: AtomicU64,
    /// Whether it was poked, and has not noticed yet.
    pub(crate) poked: AtomicBool,
}

impl<S: Server> DeskRef<S> {
    /// Says that there may be something in the store.
    pub(crate) fn poke(&self) {
        if !self.shared.poked.swap(true, Ordering::SeqCst) {
            // If too much waits for it, it does not sleep, and sees that it was poked; or it is gone.
            let _ = self.requests.try_send(Request::Poke);
        }
    }
}

/// Where one server's messages are handled.
pub(crate) struct Desk<S: Server> {
    kind: Arc<Kind<S>>,
    id: Name,
    keys: Arc<ServerKeys>,
    limits: Limits,
    requests: mpsc::Receiver<Request<S>>,
    own: mpsc::WeakSender<Request<S>>,
    shared: Arc<Shared>,
    /// The state, and the head that it belongs to.
    memory: Option<Memory<S>>,
    /// Messages of this process that wait: priority ones, and others.
    urgent: VecDeque<Item<S>>,
    waiting: VecDeque<Item<S>>,
    /// Behind a lock that nobody waits for, since what is in it can't be shared.
    looks: Mutex<Vec<Look<S>>>,
    /// What is to be swept.
    sweeps: Vec<Sweep>,
    /// Whether the store may have something for it.
    look: bool,
    /// Shared by what this desk has sent through the queue and that is not there yet.
    under_way: Arc<()>,
    worker: Option<Worker<S>>,
    worked: Option<work::Worked<S>>,
    /// Whether effects are being done, and whether some came meanwhile.
    effects: bool,
    more_effects: bool,
    /// Tells who does them.
    effects_told: Arc<Notify>,
    /// How many commits may land yet whose outcome was told as unknown.
    doubts: usize,
    /// Where it says what it runs.
    slot: Arc<Slot>,
    turn: Turn,
}

impl<S: Server> Desk<S> {
    /// Starts a desk.
    pub(crate) fn start(kind: &Arc<Kind<S>>, id: Name) -> DeskRef<S> {
        let (send, requests) = mpsc::channel(WAITING_MAX);
        let shared = Arc::new(Shared::default());
        let desk = Self {
            keys: Arc::new(ServerKeys::new(kind.ground.keys(), &kind.name, &id)),
            limits: kind.ground.store().limits(),
            kind: Arc::clone(kind),
            id: id.clone(),
            requests,
            own: send.downgrade(),
            shared: Arc::clone(&shared),
            memory: None,
            urgent: VecDeque::new(),
            waiting: VecDeque::new(),
            looks: Mutex::default(),
            sweeps: Vec::new(),
            look: false,
            under_way: Arc::default(),
            worker: None,
            worked: None,
            effects: false,
            more_effects: false,
            doubts: 0,
            effects_told: Arc::default(),
            slot: Arc::new(Slot::new(S::KIND, id.clone(), S::POLICY.slow)),
            turn: Turn::default(),
        };
        kind.ground.env().spawn(desk.run());
        DeskRef { requests: send, shared }
    }

    /// Runs until nobody can ask it any more.
    async fn run(mut self) {
        loop {
            if self.is_idle() {
                let busy = self.worker.is_some() || self.effects || self.doubts > 0;
                self.shared.busy.store(busy, Ordering::SeqCst);
                match self.requests.recv().await {
                    Some(request) => self.take(request),
                    None => return,
                }
            }
            self.shared.busy.store(true, Ordering::SeqCst);
            while let Ok(request) = self.requests.try_recv() {
                self.take(request);
            }
            self.look |= self.shared.poked.swap(false, Ordering::SeqCst);
            if self.own.strong_count() == 0 && std::mem::take(&mut self.look) {
                // Nobody can ask it any more, so no work can be begun: what the store has is for others.
                self.send_waiting();
            }
            self.turn().await;
        }
    }

    fn is_idle(&self) -> bool {
        !self.look
            && self.worked.is_none()
            && self.urgent.is_empty()
            && self.looks.lock().is_empty()
            && self.sweeps.is_empty()
            && self.waiting.is_empty()
    }

    fn take(&mut self, request: Request<S>) {
        match request {
            Request::Handle(item) if matches!(item.origin, item::Origin::Local { urgent: true, .. }) => {
                self.urgent.push_back(item);
            }
            // Behind nothing, it need not wait for a turn.
            Request::Handle(item) if item.many.is_some() && self.waiting.is_empty() => {
                self.send_through_queue(item);
            }
            Request::Handle(item) => self.waiting.push_back(item),
            Request::Look(look) => self.looks.get_mut().push(look),
            // It is noticed before the next turn.
            Request::Poke => {}
            // Its claim may be lost, and may be taken again.
            Request::Worked(work::Worked { outcome: None, .. }) => (self.worker, self.look) = (None, true),
            Request::Worked(worked) => self.worked = Some(worked),
            Request::Sweep(at) if self.sweeps.iter().any(|sweep| sweep.at == at) => {}
            Request::Sweep(at) => self.sweeps.push(Sweep::new(at, &self.keys)),
            Request::EffectsDone => {
                self.effects = false;
                if std::mem::take(&mut self.more_effects) {
                    self.start_effects();
                }
            }
            Request::Settled => {
                self.doubts -= 1;
                self.start_effects();
            }
        }
    }

    /// Answers all that wait in this process with an error.
    fn refuse_all(&mut self, error: &ServerError) {
        for item in self.urgent.drain(..).chain(self.waiting.drain(..)) {
            refuse(item, error.clone());
        }
        for look in self.looks.get_mut().drain(..) {
            look(Err(error.clone()));
        }
    }
}

/// Tells the caller of a message in this process that it came to nothing.
pub(crate) fn refuse<S: Server>(item: Item<S>, error: ServerError) {
    if let item::Origin::Local { told, .. } = item.origin {
        // Callers may have given up.
        match told {
            Local::Call(told) => drop(told.send(Err(error))),
            Local::Cast(Some(told)) => drop(told.send(Err(error))),
            Local::Cast(None) => {
                tracing::warn!(kind = S::KIND, message = item.id, %error, "a message that nobody waited for was not handled");
            }
        }
    }
}

/// A request and the answer to it.
pub(crate) fn question<T>() -> (oneshot::Sender<T>, oneshot::Receiver<T>) {
    oneshot::channel()
}

/// What passes when a store is not there for a while.
fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::Full(_))
}
