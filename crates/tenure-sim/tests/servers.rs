//! Servers, from ten thousand seeds.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::cell::Cell;

use tenure_server::Flaws;
use tenure_sim::{
    for_each_seed,
    scenario::{Served, servers},
};

/// So many that they are split over several tests, which run side by side.
fn servers_from(seeds: std::ops::Range<u64>) {
    let total = Cell::new(Served::default());
    let count = seeds.end - seeds.start;
    for_each_seed(seeds, |world| async {
        let served = servers(world, Flaws::default()).await.unwrap();
        let mut sum = total.get();
        sum.acknowledged += served.acknowledged;
        sum.refused += served.refused;
        sum.unknown += served.unknown;
        total.set(sum);
    });
    let seen = total.get();
    if std::env::var_os("TENURE_SEED").is_none() {
        assert!(seen.acknowledged > 40 * count && seen.unknown > count, "too calm: {seen:?}");
    }
}

#[test]
fn every_message_is_applied_once_in_the_first_seeds() {
    servers_from(0..5000);
}

#[test]
fn every_message_is_applied_once_in_the_other_seeds() {
    servers_from(5000..10_000);
}
