//! [`Recent`]: the ids of messages that were delivered lately.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use tenure_store::Moment;

use super::MessageId;

/// How many ids are remembered at most, a few MiB of them. At more messages within the window, the oldest is forgotten early: an attempt that was
/// repeated after that many others may be delivered twice.
const IDS_MAX: usize = 65_536;

/// Ids, each for a time and not more than so many.
#[derive(Debug)]
pub(super) struct Recent {
    window: Duration,
    ids: HashSet<MessageId>,
    /// The same, in the order in which they came, with when.
    order: VecDeque<(Moment, MessageId)>,
}

impl Recent {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, ids: HashSet::new(), order: VecDeque::new() }
    }

    /// Whether an id is remembered.
    pub(super) fn contains(&mut self, id: MessageId, now: Moment) -> bool {
        self.forget(now);
        self.ids.contains(&id)
    }

    /// Remembers an id, from now on.
    pub(super) fn insert(&mut self, id: MessageId, now: Moment) {
        if self.ids.insert(id) {
            self.order.push_back((now, id));
        }
        self.forget(now);
    }

    fn forget(&mut self, now: Moment) {
        while let Some((when, id)) = self.order.front()
            && (now - *when > self.window || self.order.len() > IDS_MAX)
        {
            self.ids.remove(id);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    fn id(number: usize) -> MessageId {
        MessageId::from_bytes((number as u128).to_be_bytes())
    }

    #[test]
    fn an_id_is_remembered_for_the_window() {
        let now = Env::system().now();
        let mut recent = Recent::new(Duration::from_secs(10));
        assert!(!recent.contains(id(1), now));
        recent.insert(id(1), now);
        recent.insert(id(2), now.after(Duration::from_secs(5)));
        assert!(recent.contains(id(1), now.after(Duration::from_secs(10))));
        assert!(!recent.contains(id(1), now.after(Duration::from_secs(11))));
        assert!(recent.contains(id(2), now.after(Duration::from_secs(11))));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let now = Env::system().now();
        let mut recent = Recent::new(Duration::from_secs(10));
        (0..=IDS_MAX).for_each(|number| recent.insert(id(number), now));
        assert!(!recent.contains(id(0), now) && recent.contains(id(1), now));
        assert_eq!((recent.ids.len(), recent.order.len()), (IDS_MAX, IDS_MAX));
    }
}
