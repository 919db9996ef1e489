//! [`Watch`]: waiting for a change, and [`WatchHub`], which stores use to find who waits for it.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Key, Range};

/// Waits for something in a range to change.
///
/// Wakings are hints. To miss nothing: make the watch, read, wait, read again.
pub struct Watch {
    signal: Arc<Notify>,
    /// Dropped with the watch: takes it out of wherever it is known.
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Watch {
    /// A watch, and the waker that wakes it: for stores that keep their own book of watches, and for wrappers.
    #[must_use]
    pub fn pair() -> (Waker, Watch) {
        let signal = Arc::new(Notify::new());
        (Waker { signal: Arc::downgrade(&signal) }, Watch { signal, guard: None })
    }

    /// This watch, with something that is dropped together with it.
    #[must_use]
    pub fn guarded(mut self, guard: impl Send + Sync + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Returns when something in the range may have changed since this watch was made, or since the last return.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: a waking that it did not deliver goes to the next call.
    pub async fn changed(&mut self) {
        self.signal.notified().await;
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// Wakes one [`Watch`], as often as it likes; wakings that nobody has waited for yet count as one.
#[derive(Clone, Debug)]
pub struct Waker {
    signal: Weak<Notify>,
}

impl Waker {
    /// Wakes the watch, if it still exists.
    pub fn wake(&self) {
        if let Some(signal) = self.signal.upgrade() {
            signal.notify_one();
        }
    }
}

/// A watch's entry in the book of its hub.
struct Registration {
    hub: Weak<Shared>,
    id: u64,
    range: Range,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(shared) = self.hub.upgrade() {
            shared.leave(self.id, &self.range);
        }
    }
}

/// Knows every [`Watch`] of one store in one process, and wakes those that a change concerns.
///
/// Watches of one key or one prefix are looked up: a change costs as much with 100,000 of them as with one. Others, rare,
/// are searched through.
#[derive(Clone, Debug, Default)]
pub struct WatchHub(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How many watches there are: lets commits pass without taking the lock where nobody watches.
    count: AtomicUsize,
    book: Mutex<Book>,
}

/// Watches by what they watch, then by id, so that they wake in the same order in each run.
#[derive(Debug, Default)]
struct Book {
    next_id: u64,
    keys: BTreeMap<Key, BTreeMap<u64, Waker>>,
    prefixes: BTreeMap<Key, BTreeMap<u64, Waker>>,
    /// How many watched prefixes there are of each length: only these lengths of a changed key need to be looked up.
    prefix_lengths: BTreeMap<usize, usize>,
    others: BTreeMap<u64, (Range, Waker)>,
}

impl WatchHub {
    /// A hub without watches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new watch over `range`, known from now on.
    #[must_use]
    pub fn watch(&self, range: Range) -> Watch {
        let (waker, watch) = Watch::pair();
        let id = self.0.book.lock().enter(&range, waker);
        self.0.count.fetch_add(1, Ordering::SeqCst);
        watch.guarded(Registration { hub: Arc::downgrade(&self.0), id, range })
    }

    /// How many watches there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Wakes every watch that any of these changed ranges concerns. Call it when the change can be read.
    pub fn wake(&self, changed: impl IntoIterator<Item = Range>) {
        if self.count() == 0 {
            return;
        }
        let book = self.0.book.lock();
        for range in changed {
            book.wake(&range);
        }
    }

    /// Wakes every watch: when what changed is not known, or the store was closed.
    pub fn wake_all(&self) {
        self.wake([Range::all()]);
    }
}

impl Shared {
    fn leave(&self, id: u64, range: &Range) {
        self.book.lock().leave(id, range);
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Book {
    fn enter(&mut self, range: &Range, waker: Waker) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        match range {
            Range::Key(key) => {
                self.keys.entry(key.clone()).or_default().insert(id, waker);
            }
            Range::Prefix(prefix) => {
                self.prefixes.entry(prefix.clone()).or_insert_with(|| {
                    *self.prefix_lengths.entry(prefix.len()).or_default() += 1;
                    BTreeMap::new()
                });
                self.prefixes.entry(prefix.clone()).or_default().insert(id, waker);
            }
            Range::Between { .. } => {
                self.others.insert(id, (range.clone(), waker));
            }
        }
        id
    }

    fn leave(&mut self, id: u64, range: &Range) {
        match range {
            Range::Key(key) => {
                leave_one(&mut self.keys, key, id);
            }
            Range::Prefix(prefix) => {
                if leave_one(&mut self.prefixes, prefix, id)
                    && let Some(count) = self.prefix_lengths.get_mut(&prefix.len())
                {
                    *count -= 1;
                    if *count == 0 {
                        self.prefix_lengths.remove(&prefix.len());
                    }
                }
            }
            Range::Between { .. } => {
                self.others.remove(&id);
            }
        }
    }

    fn wake(&self, changed: &Range) {
        match changed {
            Range::Key(key) => self.wake_key(key),
            _ => self.wake_range(changed),
        }
        for (range, waker) in self.others.values() {
            if range.overlaps(changed) {
                waker.wake();
            }
        }
    }

    fn wake_key(&self, key: &Key) {
        wake_each(self.keys.get(key));
        for length in self.prefix_lengths.keys().take_while(|length| **length <= key.len()) {
            wake_each(self.prefixes.get(&Key::new(key.to_bytes().slice(..*length))));
        }
    }

    fn wake_range(&self, changed: &Range) {
        for (key, wakers) in self.keys.range(changed.start().clone()..) {
            if changed.end().is_some_and(|end| *key >= end) {
                break;
            }
            wake_each(Some(wakers));
        }
        for (prefix, wakers) in &self.prefixes {
            if Range::Prefix(prefix.clone()).overlaps(changed) {
                wake_each(Some(wakers));
            }
        }
    }
}

fn wake_each(wakers: Option<&BTreeMap<u64, Waker>>) {
    for waker in wakers.into_iter().flat_map(BTreeMap::values) {
        waker.wake();
    }
}

/// Takes one waker out, and its key too if it was the last; returns whether it was.
fn leave_one(book: &mut BTreeMap<Key, BTreeMap<u64, Waker>>, key: &Key, id: u64) -> bool {
    let Some(wakers) = book.get_mut(key) else { return false };
    wakers.remove(&id);
    let last = wakers.is_empty();
    if last {
        book.remove(key);
    }
    last
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker as TaskWaker},
    };

    use super::*;

    fn woken(watch: &mut Watch) -> bool {
        let future = pin!(watch.changed());
        matches!(future.poll(&mut Context::from_waker(TaskWaker::noop())), Poll::Ready(()))
    }

    fn between(start: &str, end: &str) -> Range {
        Range::Between { start: start.into(), end: end.into() }
    }

    #[test]
    fn a_change_wakes_those_it_concerns_and_no_others() {
        let ranges = [
            Range::Key("ab".into()),
            Range::Key("b".into()),
            Range::Prefix("a".into()),
            Range::Prefix("abc".into()),
            Range::all(),
            between("aa", "ac"),
            between("b", "c"),
        ];
        let changes = [
            (Range::Key("ab".into()), vec![0, 2, 4, 5]),
            (Range::Key("b".into()), vec![1, 4, 6]),
            (Range::Prefix("ab".into()), vec![0, 2, 3, 4, 5]),
            (between("abd", "b"), vec![2, 4, 5]),
            (Range::all(), vec![0, 1, 2, 3, 4, 5, 6]),
        ];
        let hub = WatchHub::new();
        let mut watches: Vec<Watch> = ranges.iter().map(|range| hub.watch(range.clone())).collect();
        for (change, expected) in changes {
            hub.wake([change.clone()]);
            let woken: Vec<usize> =
                watches.iter_mut().enumerate().filter_map(|(at, watch)| woken(watch).then_some(at)).collect();
            assert_eq!(woken, expected, "{change:?}");
        }
    }

    #[test]
    fn many_changes_are_one_waking() {
        let hub = WatchHub::new();
        let mut watch = hub.watch(Range::all());
        hub.wake_all();
        hub.wake_all();
        assert!(woken(&mut watch));
        assert!(!woken(&mut watch));
    }

    #[test]
    fn a_dropped_watch_leaves_nothing_behind() {
        let hub = WatchHub::new();
        let watches = [Range::Key("k".into()), Range::Prefix("p".into()), between("a", "b")]
            .map(|range| hub.watch(range));
        assert_eq!(hub.count(), 3);
        drop(watches);
        let book = hub.0.book.lock();
        assert_eq!(hub.count(), 0);
        assert!(book.keys.is_empty() && book.prefixes.is_empty() && book.others.is_empty());
        assert!(book.prefix_lengths.is_empty());
    }
}
