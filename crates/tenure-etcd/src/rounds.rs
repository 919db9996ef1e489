//! [`Rounds`]: one request at a time on behalf of all who wait for its answer.

use std::future::Future;

use tenure_store::StoreError;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

/// How many may wait for the next round; more wait to be let in. Far more than requests that one process has under way.
const WAITING_MAX: usize = 1024;

/// Something that is done for many at once: a connection made, a login, a look at the clock of the cluster.
///
/// A round begins after everybody who waits for it has come, so its answer is as new as any of them may ask for. Rounds never overlap,
/// and their answers come in order. They are done in a task of their own: whoever stops waiting stops nobody else.
#[derive(Debug)]
pub(crate) struct Rounds<T> {
    door: mpsc::Sender<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T: Clone + Send + 'static> Rounds<T> {
    /// Rounds that each do `round`. The task ends when this value is dropped and nobody waits.
    pub(crate) fn start<F>(mut round: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let (door, mut waiting) = mpsc::channel::<oneshot::Sender<_>>(WAITING_MAX);
        tokio::spawn(async move {
            let mut guests = Vec::new();
            while waiting.recv_many(&mut guests, WAITING_MAX).await > 0 {
                let outcome: Result<T, StoreError> = round().await;
                for guest in guests.drain(..) {
                    // Whoever does not wait any more needs no answer.
                    let _ = guest.send(outcome.clone());
                }
            }
        });
        Self { door }
    }

    /// The answer of a round that begins after this call.
    pub(crate) async fn join(&self) -> Result<T, StoreError> {
        let (sender, answer) = oneshot::channel();
        let gone = || StoreError::unavailable("the runtime that the store was opened on has ended");
        // At the first poll as a rule, so that those who come in order are served in order.
        match self.door.try_send(sender) {
            Ok(()) => {}
            Err(TrySendError::Full(sender)) => self.door.send(sender).await.map_err(|_| gone())?,
            Err(TrySendError::Closed(_)) => return Err(gone()),
        }
        answer.await.map_err(|_| gone())?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_share_a_round_that_began_after_they_came() {
        let (begun, gate) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
        let rounds = Arc::new(Rounds::start({
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            move || {
                let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                let gate = Arc::clone(&gate);
                async move {
                    gate.acquire().await.unwrap().forget();
                    Ok(number)
                }
            }
        }));
        let join = || {
            tokio::spawn({
                let rounds = Arc::clone(&rounds);
                async move { rounds.join().await.unwrap() }
            })
        };
        let first = join();
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // They come when the first round is under way, and one of them goes again.
        let (second, dropped, third) = (join(), join(), join());
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        dropped.abort();
        gate.add_permits(2);
        assert_eq!((first.await.unwrap(), second.await.unwrap(), third.await.unwrap()), (1, 2, 2));
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
