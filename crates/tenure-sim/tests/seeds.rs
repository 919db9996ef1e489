//! Every scenario, from a thousand seeds or more.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::cell::Cell;

use tenure_cluster::Flaws;
use tenure_sim::{
    for_each_seed,
    scenario::{Elected, Following, bank, elections, followers, lanes, suspension},
};
use tenure_store::Lane;

const SEEDS: std::ops::Range<u64> = 0..1000;

#[test]
fn commits_through_lanes_happen_exactly_once() {
    let [acknowledged, refused, unknown, lost] = [const { Cell::new(0) }; 4];
    for_each_seed(SEEDS, |world| async {
        let told = lanes::<Lane>(world).await.unwrap();
        acknowledged.set(acknowledged.get() + told.acknowledged);
        refused.set(refused.get() + told.refused);
        unknown.set(unknown.get() + told.unknown);
        lost.set(lost.get() + told.answers_lost);
    });
    let seen = [acknowledged.get(), refused.get(), unknown.get(), lost.get()];
    if std::env::var_os("TENURE_SEED").is_none() {
        let floors = [20_000, 5000, 50, 5000];
        assert!(
            seen.iter().zip(floors).all(|(count, floor)| *count > floor),
            "a sweep this calm shows nothing: {seen:?}"
        );
    }
}

#[test]
fn contended_transfers_keep_the_sum() {
    let made = Cell::new(0);
    for_each_seed(SEEDS, |world| async {
        made.set(made.get() + bank(world).await.unwrap());
    });
    if std::env::var_os("TENURE_SEED").is_none() {
        assert!(made.get() > 10_000, "only {} transfers were made", made.get());
    }
}

#[test]
fn followers_see_the_last_change() {
    for_each_seed(SEEDS, |world| async {
        followers(world, Following::WatchThenRead).await.unwrap();
    });
}

/// So many that they are split over several tests, which run side by side.
fn elections_from(seeds: std::ops::Range<u64>) {
    let total = Cell::new(Elected::default());
    let count = seeds.end - seeds.start;
    for_each_seed(seeds, |world| async {
        let elected = elections(world, Flaws::default()).await.unwrap();
        let mut sum = total.get();
        sum.won += elected.won;
        sum.worked += elected.worked;
        sum.refused += elected.refused;
        total.set(sum);
    });
    let seen = total.get();
    if std::env::var_os("TENURE_SEED").is_none() {
        assert!(
            seen.won > 4 * count && seen.worked > 50 * count && seen.refused > count,
            "too calm: {seen:?}"
        );
    }
}

#[test]
fn one_leads_at_a_time_in_the_first_seeds() {
    elections_from(0..5000);
}

#[test]
fn one_leads_at_a_time_in_the_other_seeds() {
    elections_from(5000..10_000);
}

#[test]
fn a_common_pause_ends_no_session() {
    for_each_seed(SEEDS, |world| async { suspension(world, Flaws::default()).await.unwrap() });
}
