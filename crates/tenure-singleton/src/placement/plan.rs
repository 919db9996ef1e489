//! [`plan`]: where each singleton is to run. A pure function: the same situation gives the same answer.
//!
//! 1. Who runs stays. What runs where it must not (its node leaves) moves at once.
//! 2. What nobody runs goes to the node that would have the least load in proportion to its capacity, the heaviest
//!    first.
//! 3. With moves to spare: from the node with the most load in proportion to the one with the least, of those between
//!    which something can move. A move is made only if the two differ by more than [`TOLERANCE`], and if the one that
//!    gets it then has less than the one that gave it had.
//!
//! So each move makes the greater of two shares smaller: moves come to an end, and none is ever taken back. Where all
//! may run everywhere, all nodes then differ by at most the tolerance, or by less than one singleton. Only single
//! moves are considered, no swaps: with loads that differ much, a better spread may exist.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use tenure_store::Name;

/// Two nodes that differ by no more than one part in so many are even enough.
pub(crate) const TOLERANCE: u64 = 20;

/// A node's place in the list of nodes.
pub(crate) type NodeIndex = usize;

/// A node that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// In thousandths; above zero.
    pub(crate) capacity: u64,
    /// Whether it may be given more.
    pub(crate) ready: bool,
}

/// A singleton.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// In thousandths; above zero.
    pub(crate) load: u64,
    /// Who may run it, by itself and its labels.
    pub(crate) fit: BTreeSet<NodeIndex>,
    /// Who did not take it when it was given it lately.
    pub(crate) avoid: BTreeSet<NodeIndex>,
    pub(crate) spot: Spot,
}

/// Where a singleton is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Nowhere.
    Nowhere,
    /// This one is to run it, and does not yet.
    Given(NodeIndex),
    /// This one runs it.
    Runs(NodeIndex),
    /// The first runs it, and is to hand it over to the second.
    Moving(NodeIndex, NodeIndex),
}

impl Spot {
    /// Whose load it is.
    pub(crate) fn bearer(self) -> Option<NodeIndex> {
        match self {
            Self::Nowhere => None,
            Self::Given(node) | Self::Runs(node) | Self::Moving(_, node) => Some(node),
        }
    }
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many moves were begun to even out, of those that were allowed.
    pub(crate) moves: usize,
    /// Whether more would be worth it.
    pub(crate) more: bool,
}

/// Decides where each of these is to be, in place of where it is, beginning at most `moves` moves that only even out.
pub(crate) fn plan(places: &[Place], works: &mut BTreeMap<Name, Work>, moves: usize) -> Plan {
    let mut loads = vec![0; places.len()];
    for work in works.values() {
        if let Some(node) = work.spot.bearer() {
            loads[node] += work.load;
        }
    }
    let mut homeless: Vec<&mut Work> = works.values_mut().filter(|work| is_homeless(work)).collect();
    // Stable: of equal loads, by name.
    homeless.sort_by_key(|work| std::cmp::Reverse(work.load));
    for work in homeless {
        let Some(node) = choose(work, places, &loads) else { continue };
        match work.spot {
            Spot::Runs(from) => {
                loads[from] -= work.load;
                work.spot = Spot::Moving(from, node);
            }
            _ => work.spot = Spot::Given(node),
        }
        loads[node] += work.load;
    }
    let mut plan = Plan::default();
    while let Some((name, from, to)) = next_move(places, works, &loads) {
        if plan.moves == moves {
            plan.more = true;
            break;
        }
        let Some(work) = works.get_mut(&name) else { break };
        work.spot = Spot::Moving(from, to);
        loads[from] -= work.load;
        loads[to] += work.load;
        plan.moves += 1;
    }
    plan
}

/// Whether somebody has to be found for it.
fn is_homeless(work: &Work) -> bool {
    match work.spot {
        Spot::Nowhere => true,
        Spot::Runs(node) => !work.fit.contains(&node),
        Spot::Given(_) | Spot::Moving(..) => false,
    }
}

/// Who is to have it: whoever has the least with it. One that did not take it lately only if there is nobody else.
fn choose(work: &Work, places: &[Place], loads: &[u64]) -> Option<NodeIndex> {
    let worst = |node: &NodeIndex| (work.avoid.contains(node), !places[*node].ready);
    work.fit.iter().copied().min_by(|a, b| {
        let shares = compare(loads[*a] + work.load, places[*a], loads[*b] + work.load, places[*b]);
        worst(a).cmp(&worst(b)).then(shares)
    })
}

/// The move that is worth most, if one is worth it: what, from where, to where.
fn next_move(
    places: &[Place],
    works: &BTreeMap<Name, Work>,
    loads: &[u64],
) -> Option<(Name, NodeIndex, NodeIndex)> {
    let mut order: Vec<NodeIndex> = (0..places.len()).collect();
    order.sort_by(|a, b| compare(loads[*a], places[*a], loads[*b], places[*b]).then(a.cmp(b)));
    for from in order.iter().rev().copied() {
        let mut movable: Option<Vec<(&Name, &Work)>> = None;
        for to in order.iter().copied().filter(|to| places[*to].ready) {
            if !differ(loads[from], places[from], loads[to], places[to]) {
                // All that follow have more.
                break;
            }
            let movable = movable.get_or_insert_with(|| {
                works.iter().filter(|(_, work)| work.spot == Spot::Runs(from)).collect()
            });
            let better = movable.iter().filter(|(_, work)| {
                let less = compare(loads[to] + work.load, places[to], loads[from], places[from]);
                work.fit.contains(&to) && !work.avoid.contains(&to) && less == Ordering::Less
            });
            let ideal = even(loads[from], places[from], loads[to], places[to]);
            // The heaviest that does not overshoot, else the lightest.
            let best = better.min_by_key(|(_, work)| {
                if work.load <= ideal { (false, u64::MAX - work.load) } else { (true, work.load) }
            });
            if let Some((name, _)) = best {
                return Some(((*name).clone(), from, to));
            }
        }
    }
    None
}

/// Which of two nodes with these loads has more in proportion.
fn compare(a: u64, at: Place, b: u64, bt: Place) -> Ordering {
    (u128::from(a) * u128::from(bt.capacity)).cmp(&(u128::from(b) * u128::from(at.capacity)))
}

/// Whether the first has more in proportion than the second, by more than the tolerance.
fn differ(a: u64, at: Place, b: u64, bt: Place) -> bool {
    let (a, b) = (u128::from(a) * u128::from(bt.capacity), u128::from(b) * u128::from(at.capacity));
    a > b && (a - b) * u128::from(TOLERANCE) > a
}

/// How much would have to move from the first to the second for both to have the same in proportion.
fn even(a: u64, at: Place, b: u64, bt: Place) -> u64 {
    let (a, b) = (u128::from(a) * u128::from(bt.capacity), u128::from(b) * u128::from(at.capacity));
    let even = a.saturating_sub(b) / (u128::from(at.capacity) + u128::from(bt.capacity));
    u64::try_from(even).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
