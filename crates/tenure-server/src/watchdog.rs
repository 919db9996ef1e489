//! [`Watchdog`]: reports callbacks that run for too long, while they do.
//!
//! Callbacks are synchronous: one that does not return keeps the thread that it runs on, and no task may be left to
//! say so. So a thread of its own looks at what is being run, twenty times a second while anything is, and ends when
//! nothing was for a while. It decides nothing. On simulated time, which passes in no callback, there is none: then a
//! callback is reported when it returns.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_store::{Env, Moment, Name};

/// Between two looks: a callback is reported at most so much late.
const TICK: Duration = Duration::from_millis(50);

/// After so many looks at which nothing was run, the thread ends.
const TICKS_IDLE: u32 = 200;

/// The longest pause between two reports of one callback, which double.
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// Looks at what is being run on a node.
#[derive(Debug)]
pub(crate) struct Watchdog {
    env: Env,
    turns: Mutex<Turns>,
}

/// The turns that are under way.
#[derive(Debug, Default)]
struct Turns {
    last: u64,
    slots: BTreeMap<u64, Arc<Slot>>,
    /// Whether a thread looks at them.
    is_watched: bool,
}

/// Where a desk says what it runs.
#[derive(Debug)]
pub(crate) struct Slot {
    kind: &'static str,
    server: Name,
    /// Longer than this is too long.
    slow: Duration,
    running: Mutex<Option<Running>>,
}

/// A callback that runs.
#[derive(Debug)]
struct Running {
    /// What sort of message it handles.
    sort: &'static str,
    message: u64,
    since: Moment,
    /// How long it runs when it is reported next.
    report: Duration,
    is_reported: bool,
}

/// A turn that is under way, for as long as this is there.
pub(crate) struct Turn {
    watchdog: Arc<Watchdog>,
    number: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.watchdog.turns.lock().slots.remove(&self.number);
    }
}

impl Watchdog {
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), turns: Mutex::default() }
    }

    /// Looks at this slot from now on.
    pub(crate) fn begin_turn(self: &Arc<Self>, slot: &Arc<Slot>) -> Turn {
        let mut turns = self.turns.lock();
        turns.last += 1;
        let number = turns.last;
        turns.slots.insert(number, Arc::clone(slot));
        let begin = !turns.is_watched && !self.env.is_simulated();
        turns.is_watched |= begin;
        drop(turns);
        if begin {
            let watchdog = Arc::clone(self);
            let thread = std::thread::Builder::new().name("tenure-watchdog".to_owned());
            if let Err(error) = thread.spawn(move || watchdog.watch()) {
                tracing::warn!(%error, "no thread could be started that reports slow callbacks: it is tried again");
                self.turns.lock().is_watched = false;
            }
        }
        Turn { watchdog: Arc::clone(self), number }
    }

    /// Looks until there is nothing to look at.
    fn watch(&self) {
        let mut idle = 0;
        loop {
            std::thread::sleep(TICK);
            let mut turns = self.turns.lock();
            idle = if turns.slots.is_empty() { idle + 1 } else { 0 };
            if idle > TICKS_IDLE {
                turns.is_watched = false;
                return;
            }
            let slots: Vec<Arc<Slot>> = turns.slots.values().cloned().collect();
            drop(turns);
            slots.iter().for_each(|slot| slot.look(&self.env));
        }
    }
}

impl Slot {
    pub(crate) fn new(kind: &'static str, server: Name, slow: Duration) -> Self {
        Self { kind, server, slow, running: Mutex::default() }
    }

    /// A callback begins.
    pub(crate) fn begin(&self, env: &Env, sort: &'static str, message: u64) {
        let running = Running { sort, message, since: env.now(), report: self.slow, is_reported: false };
        *self.running.lock() = Some(running);
    }

    /// It has returned. Returns how long it ran.
    pub(crate) fn end(&self, env: &Env) -> Duration {
        let Some(mut running) = self.running.lock().take() else { return Duration::ZERO };
        let took = env.now() - running.since;
        if took > self.slow {
            self.report(&mut running, took, "it has returned");
            self.gauge(&running).decrement(1.0);
        }
        took
    }

    fn look(&self, env: &Env) {
        let mut slot = self.running.lock();
        if let Some(running) = &mut *slot {
            let took = env.now() - running.since;
            if took > running.report {
                running.report = took + took.min(PAUSE_MOST);
                self.report(running, took, "it still runs");
            }
        }
    }

    fn report(&self, running: &mut Running, took: Duration, now: &str) {
        let Running { sort, message, .. } = *running;
        tracing::warn!(kind = self.kind, server = %self.server, sort, message, ?took, now, "a callback is slow: it keeps the other messages of its server waiting");
        if !std::mem::replace(&mut running.is_reported, true) {
            metrics::counter!("tenure_server_slow_callbacks_total", "kind" => self.kind, "sort" => sort)
                .increment(1);
            self.gauge(running).increment(1.0);
        }
    }

    fn gauge(&self, running: &Running) -> metrics::Gauge {
        metrics::gauge!("tenure_server_slow_callbacks", "kind" => self.kind, "sort" => running.sort)
    }
}
