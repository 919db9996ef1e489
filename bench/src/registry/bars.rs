//! The bars: what a registry must reach, and whether it does.

use tenure_bench::figures::median;

use crate::{bench::Bench, looking, registering};

/// Look-ups a second, from two threads together.
const LOOK_UPS_MIN: f64 = 5e6;

/// A hand-over, in milliseconds.
const PASSING_MS_MAX: f64 = 500.0;

/// How many times the raw rate 256 registrations at once must reach on PostgreSQL.
const TIMES_RAW: f64 = 50.0;

pub(crate) fn print(bench: &Bench) {
    println!("\nBars");
    let postgres = bench.url.starts_with("postgres");
    for name in [registering::ALONE, registering::CROWD, registering::FAR] {
        if let Some(row) = bench.found(name) {
            let has_bar = postgres && name != registering::FAR;
            let what = if has_bar {
                format!("{name}: at least 50 times the raw rate")
            } else {
                format!("{name}: times the raw rate")
            };
            bar(&what, &format!("{:.1} times", row.ratio()), has_bar.then(|| row.ratio() >= TIMES_RAW));
        }
    }
    if let Some(row) = bench.found(looking::LOOK_UPS) {
        let rate = row.work.rate();
        let told = format!("{:.1} million", rate / 1e6);
        bar("look-ups from two threads: at least 5 million a second", &told, Some(rate >= LOOK_UPS_MIN));
    }
    for (what, times) in [("leaves", &bench.figures.left), ("is killed", &bench.figures.killed)] {
        if !times.is_empty() {
            let median = median(times.clone());
            let what = format!("hand-over when the leader {what}: median under 500 ms");
            bar(&what, &format!("{median:.0} ms"), Some(median < PASSING_MS_MAX));
        }
    }
    let failed: Vec<&str> =
        bench.rows.iter().filter(|row| row.work.error.is_some()).map(|row| row.name.as_str()).collect();
    let told =
        if failed.is_empty() { "all rows".to_owned() } else { format!("not in: {}", failed.join("; ")) };
    bar("no request failed", &told, Some(failed.is_empty()));
}

fn bar(what: &str, told: &str, met: Option<bool>) {
    let met = match met {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "no bar",
    };
    println!("{what:<82} {told:>16}   {met}");
}
