//! [`Queue`]: requests on their way from async code to a thread that may block.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Condvar, Mutex};

/// A queue of requests for threads, which take as many as they like at a time. Callers of a store wait for their answers, so it is as
/// long as there are callers.
#[derive(Debug)]
pub(crate) struct Queue<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct State<T> {
    requests: VecDeque<T>,
    closed: bool,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let state = Mutex::new(State { requests: VecDeque::new(), closed: false });
        Self(Arc::new(Shared { state, filled: Condvar::new() }))
    }

    /// Puts a request behind the others. Gives it back if the queue is closed.
    pub(crate) fn push(&self, request: T) -> Result<(), T> {
        let mut state = self.0.state.lock();
        if state.closed {
            return Err(request);
        }
        state.requests.push_back(request);
        drop(state);
        self.0.filled.notify_one();
        Ok(())
    }

    /// Waits until there is a request. Returns `false` if there is none and the queue is closed.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.0.state.lock();
        self.0.filled.wait_while(&mut state, |state| state.requests.is_empty() && !state.closed);
        !state.requests.is_empty()
    }

    /// Takes up to `most` requests, none if there are none.
    pub(crate) fn take(&self, most: usize) -> Vec<T> {
        let mut state = self.0.state.lock();
        let count = state.requests.len().min(most);
        state.requests.drain(..count).collect()
    }

    /// Takes no more requests. Those that are there are still served.
    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.filled.notify_all();
    }
}
