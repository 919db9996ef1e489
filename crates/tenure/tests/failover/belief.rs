//! [`Watched`]: a leadership that is asked every millisecond whether it still holds.
//!
//! # What a sample proves
//! The clock is read before and after `remaining()`. If that was above zero, the worker believed to lead at some instant in between, and since belief that is
//! lost never comes back (which is checked), from the first sample's `after` to the last sample's `before` without a gap. A worker that is stopped between two of these
//! calls makes that interval shorter, never longer: so there are no false alarms.
//!
//! What lies between two samples is not seen. So the deadline is recorded too, read before the rest: what the leadership itself has promised does not
//! depend on how often it was asked.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use tenure::{
    cluster::{ClusterError, Leadership, Term},
    store::{Commit, Env},
};
use tokio::sync::oneshot;

use crate::ledger::{Ledger, Record, Sample};

/// Between two samples.
const PAUSE: Duration = Duration::from_millis(1);

/// How many more samples are taken after the loss, none of which may find it held again.
const SAMPLES_AFTER: usize = 20;

/// A leadership, and its record.
#[derive(Debug)]
pub(crate) struct Watched {
    held: Arc<Mutex<Option<Leadership>>>,
    pub(crate) term: Term,
    pub(crate) record: Arc<Record>,
    lost: oneshot::Receiver<()>,
}

impl Watched {
    /// From now on, it is asked; `None` if it was lost before it could be.
    pub(crate) fn start(leadership: Leadership, ledger: &mut Ledger) -> Option<Self> {
        let env = Env::system();
        let first = sample(&leadership, &env)?;
        let term = leadership.term();
        let record = Arc::new(ledger.begin(term.0, first));
        let held = Arc::new(Mutex::new(Some(leadership)));
        let (tell, lost) = oneshot::channel();
        let watching = (Arc::clone(&held), Arc::clone(&record));
        thread::spawn(move || {
            let (held, record) = watching;
            ask_until_lost(&held, &record, &env);
            // The worker may be leaving.
            let _ = tell.send(());
        });
        Some(Self { held, term, record, lost })
    }

    /// This commit, under its guard, however long it is held.
    pub(crate) fn guarded(&self, commit: Commit) -> Commit {
        self.held.lock().unwrap().as_ref().expect("it is taken out by its end only").guarded(commit)
    }

    /// Returns when it is lost, and lets go of it.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn lost(&mut self) {
        (&mut self.lost).await.expect("it is told before the thread ends");
        // Here, since it may only be dropped on a runtime.
        drop(self.held.lock().unwrap().take());
    }

    /// Gives it up. It is believed in up to the instant at which that begins.
    pub(crate) async fn resign(self) -> Result<(), ClusterError> {
        let leadership = {
            let mut held = self.held.lock().unwrap();
            let leadership = held.take().expect("it is taken out by its end only");
            if let Some(last) = sample(&leadership, &Env::system()) {
                self.record.believed(last);
            }
            leadership
        };
        self.record.give_up();
        leadership.resign().await
    }
}

/// Asks once whether it holds.
fn sample(leadership: &Leadership, env: &Env) -> Option<Sample> {
    let deadline = leadership.deadline();
    let before = env.now().since_start();
    let holds = !leadership.remaining().is_zero();
    let after = env.now().since_start();
    holds.then_some(Sample { before, after, deadline })
}

/// Asks until it is lost, or somebody has taken it out.
fn ask_until_lost(held: &Mutex<Option<Leadership>>, record: &Record, env: &Env) {
    loop {
        thread::sleep(PAUSE);
        // Not under the lock longer than for one sample: whoever resigns waits for it.
        match held.lock().unwrap().as_ref().map(|leadership| sample(leadership, env)) {
            Some(Some(sample)) => record.believed(sample),
            Some(None) => break,
            None => return,
        }
    }
    record.lost();
    for _ in 0..SAMPLES_AFTER {
        thread::sleep(PAUSE);
        let again = held.lock().unwrap().as_ref().and_then(|leadership| sample(leadership, env));
        assert!(again.is_none(), "a leadership that was lost holds again: {again:?}");
    }
}
