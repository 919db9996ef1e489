//! [`Calls`]: what this node has asked others, and waits for.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The calls that wait for an answer, by number.
#[derive(Debug)]
pub(crate) struct Calls<T>(Mutex<BTreeMap<u64, oneshot::Sender<T>>>);

/// A call that waits for its answer. It is forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct Call<'a, T> {
    calls: &'a Calls<T>,
    number: u64,
    answer: oneshot::Receiver<T>,
}

impl<T> Calls<T> {
    /// From now on, an answer under this number is waited for.
    pub(crate) fn begin(&self, number: u64) -> Call<'_, T> {
        let (told, answer) = oneshot::channel();
        self.0.lock().insert(number, told);
        Call { calls: self, number, answer }
    }

    /// An answer has come.
    pub(crate) fn end(&self, number: u64, answer: T) {
        let told = self.0.lock().remove(&number);
        if let Some(told) = told {
            // Whoever asked may have given up.
            let _ = told.send(answer);
        }
    }
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Call<'_, T> {
    /// The answer. Nothing, if there will be none.
    pub(crate) async fn answer(&mut self) -> Option<T> {
        (&mut self.answer).await.ok()
    }
}

impl<T> Drop for Call<'_, T> {
    fn drop(&mut self) {
        self.calls.0.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_is_answered_once_and_forgotten_when_nobody_waits_for_it() {
        let calls = Calls::default();
        let (mut first, mut second) = (calls.begin(1), calls.begin(2));
        calls.end(1, "one");
        calls.end(1, "again");
        calls.end(3, "nobody asked");
        assert_eq!(first.answer().await, Some("one"));
        let waiting = second.answer();
        drop(waiting);
        assert_eq!(calls.0.lock().len(), 1, "it can still be waited for");
        drop(second);
        assert!(calls.0.lock().is_empty());
        calls.end(2, "too late");
    }
}
