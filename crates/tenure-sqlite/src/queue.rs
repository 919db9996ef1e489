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

    /// What a thread holds that serves the queue: when it ends, the queue is closed and whatever waits in it is dropped, so that
    /// nobody waits for a thread that is gone.
    pub(crate) fn served(&self) -> Served<T> {
        Served(self.clone())
    }

    /// Takes no more requests. Those that are there are still served.
    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.filled.notify_all();
    }
}

pub(crate) struct Served<T>(Queue<T>);

impl<T> Drop for Served<T> {
    fn drop(&mut self) {
        self.0.close();
        drop(self.0.take(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_order_and_in_groups() {
        let queue = Queue::new();
        for request in 0..5 {
            queue.push(request).unwrap();
        }
        assert!(queue.wait());
        assert_eq!((queue.take(2), queue.take(10), queue.take(10)), (vec![0, 1], vec![2, 3, 4], vec![]));
    }

    #[test]
    fn a_closed_queue_is_served_to_its_end() {
        let queue = Queue::new();
        queue.push(1).unwrap();
        queue.close();
        assert_eq!(queue.push(2), Err(2));
        assert!(queue.wait());
        assert_eq!(queue.take(10), vec![1]);
        assert!(!queue.wait());
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panicked() {
        let queue = Queue::new();
        let (sender, mut receiver) = tokio::sync::oneshot::channel::<()>();
        queue.push(sender).unwrap();
        let panicking = std::thread::spawn({
            let served = queue.served();
            move || {
                let _served = served;
                panic!("on purpose");
            }
        });
        panicking.join().unwrap_err();
        assert!(
            receiver
                .try_recv()
                .is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Closed)
        );
        assert!(queue.push(tokio::sync::oneshot::channel().0).is_err());
    }
}
