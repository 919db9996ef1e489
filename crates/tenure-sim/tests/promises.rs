//! All that servers promise besides, from ten thousand seeds.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::cell::RefCell;

use tenure_server::Flaws;
use tenure_sim::{
    for_each_seed,
    scenario::{Figures, promises},
};

/// What a sweep must have seen at least, for every hundred seeds.
const FLOORS: [(&str, u64); 18] = [
    ("acknowledged", 2000),
    ("refused", 40),
    ("unknown", 300),
    ("killed", 200),
    ("from servers", 400),
    ("cancelled", 20),
    ("effects", 100),
    ("effects again", 1),
    ("after commits", 100),
    ("dead letters", 40),
    ("failed", 3),
    ("replayed", 3),
    ("thrown away", 1),
    ("answered again", 80),
    ("answered later", 10),
    ("deletions", 500),
    ("lives", 450),
    ("passed by", 10),
];

/// So many that they are split over several tests, which run side by side.
fn promises_from(seeds: std::ops::Range<u64>) {
    let total = RefCell::new(Figures::default());
    let count = seeds.end - seeds.start;
    for_each_seed(seeds, |world| async {
        let figures = promises(world, Flaws::default()).await.unwrap();
        figures.all().for_each(|(name, figure)| total.borrow_mut().add(name, figure));
    });
    if std::env::var_os("TENURE_SEED").is_some() {
        return;
    }
    let seen = total.into_inner();
    for (figure, floor) in FLOORS {
        let found = seen.all().find(|(name, _)| *name == figure).map_or(0, |(_, found)| found);
        assert!(found * 100 > floor * count, "too calm, there are too few of {figure}: {seen:?}");
    }
}

#[test]
fn every_promise_is_kept_in_the_first_seeds() {
    promises_from(0..5000);
}

#[test]
fn every_promise_is_kept_in_the_other_seeds() {
    promises_from(5000..10_000);
}
