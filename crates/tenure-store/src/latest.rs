//! [`Sender`] and [`Receiver`] of the latest value of something: as Tokio's `watch`, but whoever waits is woken in the order of waiting.
//!
//! Tokio's spreads those who wait over several lists by dice of its own. In a simulation, the seed must decide who comes first.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

struct Shared<T> {
    value: RwLock<T>,
    /// Counts the changes.
    version: AtomicU64,
    changed: Notify,
}

/// Nothing follows: the sender is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing follows")]
pub struct Ended;

/// Has the value, and changes it.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
    /// Lives as long as any sender: receivers tell by it whether something may follow.
    life: Arc<Life<T>>,
}

/// Wakes everybody when the last sender goes.
struct Life<T>(Arc<Shared<T>>);

impl<T> Drop for Life<T> {
    fn drop(&mut self) {
        self.0.changed.notify_waiters();
    }
}

/// Sees the value, and waits for changes.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    life: Weak<Life<T>>,
    /// The change that was seen last.
    seen: u64,
}

/// A sender of this value, and a receiver.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// A sender of this value.
    pub fn new(value: T) -> Self {
        let shared = Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            changed: Notify::new(),
        });
        Self { life: Arc::new(Life(Arc::clone(&shared))), shared }
    }

    /// The value, which can't change while this is held.
    pub fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read()
    }

    /// A receiver that has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.version.load(Ordering::SeqCst);
        Receiver { shared: Arc::clone(&self.shared), life: Arc::downgrade(&self.life), seen }
    }

    /// Puts another value in its place.
    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|present| std::mem::swap(present, &mut value));
        value
    }

    /// Changes the value.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Changes the value, or not, and says so. Returns what was said.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.shared.value.write();
        let modified = change(&mut value);
        if modified {
            self.shared.version.fetch_add(1, Ordering::SeqCst);
        }
        drop(value);
        if modified {
            self.shared.changed.notify_waiters();
        }
        modified
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), life: Arc::clone(&self.life) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

impl<T> Receiver<T> {
    /// The value, which can't change while this is held.
    pub fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read()
    }

    /// The same; it counts as seen.
    pub fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value.read();
        self.seen = self.shared.version.load(Ordering::SeqCst);
        value
    }

    /// Returns when there is a value that was not seen, which then counts as seen.
    ///
    /// # Errors
    /// [`Ended`] when nothing follows.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn changed(&mut self) -> Result<(), Ended> {
        let seen = self.seen;
        let changed = self.wait(|shared| shared.version.load(Ordering::SeqCst) != seen).await;
        self.seen = self.shared.version.load(Ordering::SeqCst);
        changed
    }

    /// Returns when the value is so.
    ///
    /// # Errors
    /// [`Ended`] when it is not, and nothing follows.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn wait_for(&mut self, mut is: impl FnMut(&T) -> bool) -> Result<(), Ended> {
        self.wait(|shared| is(&shared.value.read())).await
    }

    /// Whether nothing follows: all senders are gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.life.strong_count() == 0
    }

    async fn wait(&self, mut is: impl FnMut(&Shared<T>) -> bool) -> Result<(), Ended> {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if is(&self.shared) {
                return Ok(());
            }
            if self.has_ended() {
                return Err(Ended);
            }
            changed.await;
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), life: Weak::clone(&self.life), seen: self.seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_order() {
        let (sender, receiver) = channel(0);
        let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..100 {
            let (mut receiver, order) = (receiver.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                receiver.changed().await.unwrap();
                order.lock().push(number);
            }));
        }
        // The runtime lets some of them run at a time.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        sender.send_replace(1);
        for one in waiting {
            one.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_was_sent_is_seen_once_and_the_end_is_told() {
        let (sender, mut receiver) = channel(0);
        assert!(!sender.send_if_modified(|_| false));
        sender.send_modify(|value| *value = 7);
        assert_eq!(receiver.changed().await, Ok(()));
        assert_eq!(*receiver.borrow_and_update(), 7);
        assert_eq!(receiver.wait_for(|value| *value == 7).await, Ok(()));
        let ended =
            tokio::spawn(
                async move { (receiver.changed().await, receiver.wait_for(|value| *value == 8).await) },
            );
        tokio::task::yield_now().await;
        drop((sender.clone(), sender));
        assert_eq!(ended.await.unwrap(), (Err(Ended), Err(Ended)));
    }
}
