//! [`Row`]: one line of the table.

use crate::task::Work;

/// What was measured, and the raw rate around it.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) work: Work,
    /// The rate of single commits before and after; none, where the store is not asked.
    pub(crate) raw: f64,
}

impl Row {
    /// How many times the raw rate.
    pub(crate) fn ratio(&self) -> f64 {
        self.work.rate() / self.raw
    }

    /// So much a request.
    fn each(&self, count: u64) -> String {
        if self.raw.is_nan() {
            "-".into()
        } else {
            format!("{:.4}", count as f64 / self.work.count.max(1) as f64)
        }
    }

    pub(crate) fn print(&self) {
        let counts = self.work.counts;
        let (p50, p99) = match self.work.p50_p99 {
            Some((p50, p99)) => (format!("{p50:.4}"), format!("{p99:.4}")),
            None => ("-".into(), "-".into()),
        };
        let ratio = if self.raw.is_nan() { "-".into() } else { format!("{:.2}", self.ratio()) };
        println!(
            "{:<56} {:>10.0} {ratio:>8} {:>9} {:>9} {p50:>9} {p99:>9}",
            self.name,
            self.work.rate(),
            self.each(counts.commits),
            self.each(counts.commits + counts.reads),
        );
        if let Some(error) = &self.work.error {
            println!("    a request failed: {error}");
        }
    }
}

pub(crate) fn print_head() {
    println!(
        "{:<56} {:>10} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "", "a second", "x raw", "commits", "trips", "p50 ms", "p99 ms"
    );
    println!("{:<56} {:>10} {:>8} {:>9} {:>9}", "", "", "", "each", "each");
}
