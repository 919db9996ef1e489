//! [`Trace`]: what happened in a run, line by line.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use parking_lot::Mutex;
use tenure_store::Env;

/// What happened in a run, with the simulated time of each event. Two runs are the same if their traces are.
#[derive(Clone, Debug)]
pub struct Trace {
    env: Env,
    lines: Arc<Mutex<String>>,
    /// Whether anything is written down: many runs are never looked at.
    kept: bool,
}

impl Trace {
    pub(crate) fn new(env: Env, kept: bool) -> Self {
        Self { env, lines: Arc::default(), kept }
    }

    /// Adds an event.
    pub fn record(&self, event: fmt::Arguments<'_>) {
        if !self.kept {
            return;
        }
        let time = self.env.now().since_start();
        writeln!(self.lines.lock(), "{:>14} {event}", time.as_nanos()).expect("a string takes everything");
    }

    /// The whole trace so far; nothing, if none is kept.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.lock().clone()
    }
}
