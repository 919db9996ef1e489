//! [`Ledger`]: which increments were asked for, which were acknowledged, and whether the counter agrees.

use std::collections::{BTreeMap, BTreeSet};

use tenure::store::Moment;

/// An increment that was not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Which node was asked last.
    seat: usize,
    at: Moment,
}

/// Every increment has a number, and is asked for under it until it is acknowledged: of the same node or another.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    issued: u64,
    acknowledged: u64,
    again: u64,
    open: BTreeMap<u64, Asked>,
    totals: Totals,
}

/// The totals that increments were answered with: each from 1 on must come once.
#[derive(Debug, Default)]
struct Totals {
    /// All up to here have come.
    through: u64,
    /// These have come too.
    ahead: BTreeSet<u64>,
    /// So many have come again: each of them is an increment that another has overwritten.
    repeated: u64,
}

impl Totals {
    fn add(&mut self, total: u64) {
        if total <= self.through || !self.ahead.insert(total) {
            self.repeated += 1;
            return;
        }
        while self.ahead.remove(&(self.through + 1)) {
            self.through += 1;
        }
    }

    fn greatest(&self) -> u64 {
        self.ahead.last().copied().unwrap_or(self.through)
    }
}

impl Ledger {
    /// A new increment, asked of this node.
    pub(crate) fn issue(&mut self, seat: usize, at: Moment) -> u64 {
        self.issued += 1;
        self.open.insert(self.issued, Asked { seat, at });
        self.issued
    }

    /// An increment is asked for again.
    pub(crate) fn ask_again(&mut self, number: u64, seat: usize, at: Moment) {
        if let Some(asked) = self.open.get_mut(&number) {
            *asked = Asked { seat, at };
            self.again += 1;
        }
    }

    /// An increment was acknowledged. What comes late, from a node that was asked before, counts once.
    pub(crate) fn acknowledge(&mut self, number: u64, total: u64) {
        if self.open.remove(&number).is_some() {
            self.acknowledged += 1;
            self.totals.add(total);
        }
    }

    /// Those that this node was asked for last.
    pub(crate) fn asked_of(&self, seat: usize) -> Vec<u64> {
        self.open.iter().filter(|(_, asked)| asked.seat == seat).map(|(number, _)| *number).collect()
    }

    /// Those that were asked for before then.
    pub(crate) fn asked_before(&self, moment: Moment) -> Vec<u64> {
        self.open.iter().filter(|(_, asked)| asked.at < moment).map(|(number, _)| *number).collect()
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// How often somebody had to ask again.
    pub(crate) fn again(&self) -> u64 {
        self.again
    }

    /// How many are lost, as far as the answers tell.
    pub(crate) fn lost(&self) -> u64 {
        self.totals.repeated
    }

    /// How many were made twice, as far as the answers tell.
    pub(crate) fn doubled(&self) -> u64 {
        self.totals.greatest().saturating_sub(self.issued)
    }

    /// How many are lost and how many were made twice, when none is open and the counter is at `value`.
    pub(crate) fn verdict(&self, value: u64) -> (u64, u64) {
        debug_assert!(self.open.is_empty(), "nobody knows yet");
        let lost = self.acknowledged.saturating_sub(value).max(self.totals.repeated);
        (lost, value.max(self.totals.greatest()).saturating_sub(self.acknowledged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(totals: &[u64]) -> Ledger {
        let mut ledger = Ledger::default();
        for total in totals {
            let number = ledger.issue(0, Moment::ZERO);
            ledger.acknowledge(number, *total);
        }
        ledger
    }

    #[test]
    fn each_total_comes_once_in_whatever_order() {
        assert_eq!(counted(&[2, 1, 4, 3]).verdict(4), (0, 0));
        assert_eq!(counted(&[1, 2, 2]).verdict(2), (1, 0), "one was overwritten");
        assert_eq!(counted(&[1, 2, 3]).verdict(2), (1, 0), "one has vanished");
        assert_eq!(counted(&[1, 3]).verdict(3), (0, 1), "one was made twice");
        assert_eq!(counted(&[1, 2]).verdict(3), (0, 1), "one was made twice, unseen");
        assert_eq!(counted(&[1, 1]).lost(), 1);
        assert_eq!(counted(&[1, 3]).doubled(), 1);
    }

    #[test]
    fn what_is_asked_again_counts_once() {
        let mut ledger = Ledger::default();
        let number = ledger.issue(0, Moment::ZERO);
        ledger.ask_again(number, 1, Moment::ZERO.after(std::time::Duration::from_secs(1)));
        assert_eq!((ledger.asked_of(0).len(), ledger.asked_of(1)), (0, vec![number]));
        assert!(ledger.asked_before(Moment::ZERO).is_empty());
        ledger.acknowledge(number, 1);
        ledger.acknowledge(number, 1);
        assert_eq!((ledger.acknowledged(), ledger.again(), ledger.verdict(1)), (1, 1, (0, 0)));
    }
}
