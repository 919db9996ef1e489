//! Clocks, medians and lines of output.

use std::time::Duration;

use tenure_store::Env;

/// How many things a second, when `count` of them took as long as `work` takes.
pub(crate) fn rate(count: u64, work: impl FnOnce()) -> f64 {
    let env = Env::system();
    let start = env.now();
    work();
    count as f64 / (env.now() - start).as_secs_f64()
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    quantile(&mut figures, 0.5)
}

/// The figure below which this part of all figures lies.
pub(crate) fn quantile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index within the slice")]
    let index = ((figures.len() - 1) as f64 * part).round() as usize;
    figures[index]
}

pub(crate) fn line(what: &str, figure: String, beside: String) {
    println!("{what:<58} {figure:>14}   {beside}");
}

pub(crate) fn per_second(rate: f64) -> String {
    format!("{rate:.0}/s")
}

pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
