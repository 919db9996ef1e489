//! The same seed is the same run, byte for byte; another seed is another run.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use tenure_sim::{
    Trace,
    scenario::{Following, bank, elections, followers, lanes, promises, registry, servers},
    simulate,
};
use tenure_store::Lane;

fn traces(seed: u64) -> [String; 7] {
    let text = |trace: Trace| trace.text();
    [
        text(simulate(seed, |world| async { lanes::<Lane>(world).await.unwrap() }).1),
        text(simulate(seed, |world| async { bank(world).await.unwrap() }).1),
        text(simulate(seed, |world| async { followers(world, Following::WatchThenRead).await.unwrap() }).1),
        text(
            simulate(seed, |world| async {
                elections(world, tenure_cluster::Flaws::default()).await.unwrap()
            })
            .1,
        ),
        text(
            simulate(seed, |world| async { servers(world, tenure_server::Flaws::default()).await.unwrap() })
                .1,
        ),
        text(
            simulate(seed, |world| async { promises(world, tenure_server::Flaws::default()).await.unwrap() })
                .1,
        ),
        text(
            simulate(seed, |world| async {
                registry(world, tenure_registry::Flaws::default()).await.unwrap()
            })
            .1,
        ),
    ]
}

#[test]
fn a_seed_decides_the_trace() {
    for seed in 0..20 {
        let (first, again) = (traces(seed), traces(seed));
        for (first, again) in first.iter().zip(&again) {
            assert!(first.lines().count() > 30, "there is something to compare");
            assert!(first == again, "seed {seed} gave two traces");
        }
    }
}

#[test]
fn another_seed_gives_another_trace() {
    let all: Vec<[String; 7]> = (0..20).map(traces).collect();
    for scenario in 0..7 {
        let different: std::collections::HashSet<&String> =
            all.iter().map(|traces| &traces[scenario]).collect();
        assert_eq!(different.len(), all.len());
    }
}
