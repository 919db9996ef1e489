//! The bars: what durable servers must reach, and whether they do.

use crate::{bench::Bench, idle, inline, queued};

/// A consumer of a million idle servers has less memory than this.
const RESIDENT_MIB_MAX: f64 = 300.0;

/// Commits a call, with 256 callers of one server.
const COMMITS_MAX: f64 = 0.02;

pub(crate) fn print(bench: &Bench) {
    println!("\nBars");
    if let Some(row) = bench.found(inline::IDLE) {
        let (commits, calls) = (row.work.counts.commits, row.work.messages);
        let told = format!("{commits} commits for {calls} calls");
        bar("an inline call of a server at rest costs exactly 1 commit", &told, Some(commits == calls));
    }
    let times = times(&bench.url);
    if let Some(row) = bench.found(inline::CROWD) {
        let told = format!("{:.4}", row.commits());
        bar("256 callers, inline: fewer than 0.02 commits a call", &told, Some(row.commits() < COMMITS_MAX));
        times_raw("inline", times, row.ratio());
    }
    if let Some(row) = bench.found(queued::CROWD) {
        times_raw("queued", times.map(|times| times / 2.0), row.ratio());
        if let Some(inline) = bench.found(inline::CROWD) {
            let part = row.ratio() / inline.ratio();
            bar("256 callers, queued: part of what was measured inline", &format!("{part:.2}"), None);
        }
    }
    if let Some((row, (p50, _))) = bench.found(queued::IDLE).and_then(|row| Some((row, row.work.p50_p99?))) {
        let most = 4.0 * 1e3 / row.raw + 10.0;
        let what = format!("p50 of a queued call at rest: under 4 raw commits + 10 ms = {most:.2} ms");
        bar(&what, &format!("{p50:.2} ms"), Some(p50 < most));
    }
    if let Some(kib) = bench.found(idle::TOUCHED).and_then(|row| row.work.resident_kib) {
        let mib = kib as f64 / 1024.0;
        let what = format!("a consumer with {} idle servers: under 300 MiB", bench.options.idle());
        bar(&what, &format!("{mib:.1} MiB"), Some(mib < RESIDENT_MIB_MAX));
    }
    let wrong: Vec<&str> =
        bench.rows.iter().filter(|row| !row.is_exact()).map(|row| row.name.as_str()).collect();
    let told = if wrong.is_empty() { "all rows".to_owned() } else { format!("not in: {}", wrong.join("; ")) };
    bar("every message is applied exactly once, by the servers' own states", &told, Some(wrong.is_empty()));
}

/// How many times the raw rate 256 callers of one server must reach, where that is said.
fn times(url: &str) -> Option<f64> {
    match url.split(':').next() {
        Some("sqlite") => Some(10.0),
        Some("postgres" | "postgresql") => Some(20.0),
        _ => None,
    }
}

fn times_raw(way: &str, least: Option<f64>, ratio: f64) {
    let told = format!("{ratio:.1} times");
    match least {
        Some(least) => {
            let what = format!("256 callers, {way}: at least {least:.0} times the raw rate");
            bar(&what, &told, Some(ratio >= least));
        }
        None => bar(&format!("256 callers, {way}: times the raw rate"), &told, None),
    }
}

fn bar(what: &str, told: &str, met: Option<bool>) {
    let met = match met {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "no bar",
    };
    println!("{what:<78} {told:>28}   {met}");
}
