//! A registry, from ten thousand seeds.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tenure_registry::Flaws;
use tenure_sim::{
    for_each_seed,
    scenario::{Named, registry},
};

/// Counts how often a follower had to read the store because something was missing.
#[derive(Default)]
struct Gaps(Arc<AtomicU64>);

impl Recorder for Gaps {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            "tenure_registry_gaps_total" => Counter::from_arc(Arc::clone(&self.0)),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// So many that they are split over several tests, which run side by side.
fn registry_from(seeds: std::ops::Range<u64>) {
    let (total, gaps) = (Cell::new([0; Named::FIGURES]), Gaps::default());
    let count = seeds.end - seeds.start;
    metrics::with_local_recorder(&gaps, || {
        for_each_seed(seeds, |world| async {
            let named = registry(world, Flaws::default()).await.unwrap();
            let mut sum = total.get();
            sum.iter_mut().zip(named.figures()).for_each(|(sum, (_, figure))| *sum += figure);
            total.set(sum);
        });
    });
    if std::env::var_os("TENURE_SEED").is_some() {
        return;
    }
    let mut seen: Vec<(&str, u64)> = Vec::new();
    for ((name, _), figure) in Named::default().figures().into_iter().zip(total.get()) {
        seen.push((name, figure));
    }
    seen.push(("gaps", gaps.0.load(Ordering::SeqCst)));
    for (name, figure) in &seen {
        // Of some there are few in one run, of others many.
        let floor = if matches!(*name, "lost" | "leaders killed") { count / 4 } else { count };
        assert!(*figure > floor, "too calm, there are too few of {name}: {seen:?}");
    }
}

#[test]
fn names_are_unique_and_never_lost_in_the_first_seeds() {
    registry_from(0..5000);
}

#[test]
fn names_are_unique_and_never_lost_in_the_other_seeds() {
    registry_from(5000..10_000);
}
