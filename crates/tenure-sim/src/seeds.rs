//! [`for_each_seed`]: many runs, and the one that failed told by its seed.

use std::{
    env,
    ops::Range,
    panic::{self, AssertUnwindSafe},
};

use crate::{Trace, World, world::run};

/// Names the one seed to run, with its trace.
const SEED_VARIABLE: &str = "TENURE_SEED";

/// Runs a scenario from every seed of a range, or only from the one that `TENURE_SEED` names.
///
/// # Panics
/// If a run panics: with the seed, and how to run it again.
#[allow(clippy::print_stderr, reason = "the trace is asked for")]
pub fn for_each_seed<Running: Future<Output = ()>>(seeds: Range<u64>, scenario: impl Fn(World) -> Running) {
    let asked =
        env::var(SEED_VARIABLE).ok().map(|seed| seed.parse::<u64>().expect("TENURE_SEED is a number"));
    for seed in asked.map_or(seeds, |seed| seed..seed + 1) {
        // Kept out here, so that it can be shown after a panic.
        let mut trace: Option<Trace> = None;
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            run(seed, asked.is_some(), |world| {
                trace = Some(world.trace.clone());
                scenario(world)
            })
        }));
        if let (Some(_), Some(trace)) = (asked, trace) {
            eprintln!("{}", trace.text());
        }
        if let Err(failure) = outcome {
            eprintln!("seed {seed} failed; {SEED_VARIABLE}={seed} runs it alone and shows its trace");
            panic::resume_unwind(failure);
        }
    }
}
