//! [`Order`]: the order of the items of a list, by labels with gaps between them.
//!
//! A new item gets a label halfway between its neighbours'. Where there is none left, the items around get new ones: the fewest that
//! leave room again, where more of them have to leave wider gaps, so that it takes the longer until it is their turn again.
//!
//! | insertions | new labels for others |
//! | --- | --- |
//! | at the ends, or anywhere by chance | none |
//! | all at one spot, or each behind the last | 1 in 20, and at most a few dozen at a time |
//! | each between the last two, which is the worst | 4 each for the first 10,000, sometimes for half of these at a time |

use std::collections::VecDeque;

use super::ItemId;

/// The label of the first item: equally far from both ends.
const MIDDLE: u128 = 1 << 127;

/// How far an item at an end is from its neighbour: 2⁴⁷ items fit on each side, and 80 insertions at one spot between two.
const GAP: u128 = 1 << 80;

/// What new labels for two items leave between them at least: room for 32 insertions at one spot. For twice as many, it is four times as wide.
const GAP_MIN: u128 = 1 << 32;

/// The items of a list in order.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// In the order of the labels. Inserting moves what is on the shorter side: 32 bytes for each item there.
    seats: VecDeque<(u128, ItemId)>,
}

impl Order {
    /// The order by these labels, or a label that two items have.
    pub(super) fn new(mut seats: Vec<(u128, ItemId)>) -> Result<Self, ItemId> {
        seats.sort_unstable();
        match seats.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(pair[1].1),
            None => Ok(Self { seats: seats.into() }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<ItemId> {
        self.seats.get(index).map(|(_, id)| *id)
    }

    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = ItemId> + ExactSizeIterator {
        self.seats.iter().map(|(_, id)| *id)
    }

    /// Where the item with this label is.
    pub(super) fn index(&self, label: u128) -> Option<usize> {
        self.seats.binary_search_by_key(&label, |(label, _)| *label).ok()
    }

    /// Puts an item where its label belongs. No other may have this label.
    pub(super) fn put(&mut self, label: u128, id: ItemId) {
        let at = self.seats.partition_point(|(other, _)| *other < label);
        self.seats.insert(at, (label, id));
    }

    pub(super) fn remove(&mut self, label: u128) {
        if let Some(index) = self.index(label) {
            self.seats.remove(index);
        }
    }

    /// Puts a new item in front of the one at `index`, or at the end. Returns its label, and those items that had to get new ones.
    pub(super) fn insert(&mut self, index: usize, id: ItemId) -> (u128, Vec<(ItemId, u128)>) {
        let index = index.min(self.len());
        let mut relabelled = Vec::new();
        let label = self.room(index).unwrap_or_else(|| {
            relabelled = self.spread(index);
            self.room(index).expect("there is room where labels were just spread")
        });
        self.seats.insert(index, (label, id));
        (label, relabelled)
    }

    /// A label in front of the item at `index`, if there is one left.
    fn room(&self, index: usize) -> Option<u128> {
        let between = |low: u128, high: u128| (high - low >= 2).then(|| low + (high - low) / 2);
        match (self.before(index), self.label(index)) {
            (None, None) => Some(MIDDLE),
            (Some(low), None) => low.checked_add(GAP).or_else(|| between(low, u128::MAX)),
            (None, Some(high)) => high.checked_sub(GAP).or_else(|| between(0, high)),
            (Some(low), Some(high)) => between(low, high),
        }
    }

    /// Gives the items around `index` new labels: the fewest, by doubling, that leave gaps wide enough.
    fn spread(&mut self, index: usize) -> Vec<(ItemId, u128)> {
        let (mut reach, mut enough) = (1, GAP_MIN);
        loop {
            let (start, end) = (index.saturating_sub(reach), (index + reach).min(self.len()));
            let (low, high) = (self.before(start), self.label(end));
            let count = (end - start) as u128;
            let gap = ((high.unwrap_or(u128::MAX) - low.unwrap_or(0)) / (count + 1)).min(GAP);
            if gap >= enough {
                // Towards an open end, no more room is taken than is needed.
                let first = match (low, high) {
                    (Some(low), _) => low + gap,
                    (None, Some(high)) => high - gap * count,
                    (None, None) => MIDDLE - gap * (count / 2),
                };
                return self.relabel(start, end, first, gap);
            }
            // Enough is GAP in the end, which all items of a list have between them when they are spread over all labels.
            (reach, enough) = (reach * 2, (enough * 4).min(GAP));
        }
    }

    fn relabel(&mut self, start: usize, end: usize, first: u128, gap: u128) -> Vec<(ItemId, u128)> {
        let mut changed = Vec::with_capacity(end - start);
        let mut label = first;
        for (own, id) in self.seats.range_mut(start..end) {
            *own = label;
            changed.push((*id, label));
            label = label.saturating_add(gap);
        }
        changed
    }

    fn before(&self, index: usize) -> Option<u128> {
        index.checked_sub(1).and_then(|index| self.label(index))
    }

    fn label(&self, index: usize) -> Option<u128> {
        self.seats.get(index).map(|(label, _)| *label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(order: &Order) -> Vec<u64> {
        order.ids().map(ItemId::number).collect()
    }

    fn check(order: &Order) {
        let labels: Vec<u128> = order.seats.iter().map(|(label, _)| *label).collect();
        assert!(labels.is_sorted_by(|left, right| left < right), "{labels:?}");
    }

    /// How many labels change, in all and at most at once, when each of 10,000 items comes to `index` in a list of 100.
    fn relabelled(index: impl Fn(usize) -> usize) -> (usize, usize) {
        let mut order = Order::default();
        for number in 0..100 {
            order.insert(usize::MAX, ItemId::new(number));
        }
        let (mut all, mut most) = (0, 0);
        for number in 0..10_000 {
            let changed = order.insert(50 + index(number), ItemId::new(100 + number as u64)).1.len();
            (all, most) = (all + changed, most.max(changed));
        }
        check(&order);
        (all, most)
    }

    #[test]
    fn insertions_at_one_spot_seldom_touch_others() {
        for (what, (all, most)) in
            [("in front of the last", relabelled(|_| 0)), ("behind the last", relabelled(|number| number))]
        {
            assert!(0 < all && all < 1000 && most < 64, "{what}: {all} new labels, {most} at once");
        }
        assert_eq!(
            relabelled(|number| (number.wrapping_mul(6_364_136_223_846_793_005) >> 33) % (number + 1)),
            (0, 0)
        );
    }

    #[test]
    fn insertions_between_the_last_two_touch_few_others() {
        let (all, most) = relabelled(|number| number / 2);
        assert!(all < 50_000 && most < 6000, "{all} new labels, {most} at once");
    }

    #[test]
    fn the_ends_are_never_used_up() {
        let mut order = Order::default();
        for number in 0..1000 {
            let (_, relabelled) =
                order.insert(if number % 2 == 0 { 0 } else { usize::MAX }, ItemId::new(number));
            assert!(relabelled.is_empty());
        }
        check(&order);
    }

    #[test]
    fn labels_at_the_very_ends_give_way() {
        for labels in [
            vec![0, 1 << 40],
            vec![u128::MAX - (1 << 40), u128::MAX],
            vec![0, 1, 2],
            vec![u128::MAX - 1, u128::MAX],
            vec![0],
            vec![u128::MAX],
            vec![0, u128::MAX],
        ] {
            for index in 0..=labels.len() {
                let seats = (0..).map(ItemId::new).zip(&labels).map(|(id, label)| (*label, id)).collect();
                let mut order = Order::new(seats).unwrap();
                let mut expected = ids(&order);
                for number in 100..200 {
                    order.insert(index, ItemId::new(number));
                    expected.insert(index, number);
                    check(&order);
                }
                assert_eq!(ids(&order), expected, "{labels:?} {index}");
            }
        }
    }
}
