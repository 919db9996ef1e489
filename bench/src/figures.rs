//! Clocks, medians, memory and lines of output.

use std::time::Duration;

use tenure_store::Env;

/// How many things a second, when `count` of them took as long as `work` takes.
pub fn rate(count: u64, work: impl FnOnce()) -> f64 {
    let env = Env::system();
    let start = env.now();
    work();
    count as f64 / (env.now() - start).as_secs_f64()
}

/// The middle one.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> f64 {
    quantile(&mut figures, 0.5)
}

/// The figure below which this part of all figures lies. There must be at least one.
pub fn quantile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index within the slice")]
    let index = ((figures.len() - 1) as f64 * part).round() as usize;
    figures[index]
}

/// Prints a line: what was measured, the figure, and what stands beside it.
pub fn line(what: &str, figure: String, beside: String) {
    println!("{what:<58} {figure:>14}   {beside}");
}

/// A rate in words.
#[must_use]
pub fn per_second(rate: f64) -> String {
    format!("{rate:.0}/s")
}

/// A time in words.
#[must_use]
pub fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// The least, the middle and the greatest of times, given in seconds.
pub fn spread(times: &mut [f64]) -> String {
    [0.0, 0.5, 1.0].map(|part| milliseconds(Duration::from_secs_f64(quantile(times, part)))).join(" / ")
}

/// Whether a bar was kept, in a word.
#[must_use]
pub fn verdict(kept: bool) -> String {
    if kept { "kept".to_owned() } else { "MISSED".to_owned() }
}

/// The memory that this process has, in KiB.
#[must_use]
pub fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
