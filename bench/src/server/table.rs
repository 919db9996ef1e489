//! [`Row`]: one line of the table.

use crate::crowd::Work;

/// What was measured, and the raw rate around it.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) work: Work,
    /// The rate of single commits before and after.
    pub(crate) raw: f64,
    pub(crate) note: String,
}

impl Row {
    /// How many times the raw rate.
    pub(crate) fn ratio(&self) -> f64 {
        self.work.rate() / self.raw
    }

    pub(crate) fn commits(&self) -> f64 {
        self.each(self.work.counts.commits)
    }

    fn trips(&self) -> f64 {
        self.each(self.work.counts.commits + self.work.counts.reads)
    }

    /// So much a message.
    pub(crate) fn each(&self, count: u64) -> f64 {
        count as f64 / self.work.messages.max(1) as f64
    }

    /// Whether every message was applied exactly once.
    pub(crate) fn is_exact(&self) -> bool {
        self.work.applied == self.work.messages && self.work.error.is_none()
    }

    pub(crate) fn print(&self) {
        let (p50, p99) = match self.work.p50_p99 {
            Some((p50, p99)) => (format!("{p50:.2}"), format!("{p99:.2}")),
            None => ("-".into(), "-".into()),
        };
        let line = format!(
            "{:<50} {:>10.0} {:>8.2} {:>10.4} {:>10.4} {p50:>9} {p99:>9}  {}",
            self.name,
            self.work.rate(),
            self.ratio(),
            self.commits(),
            self.trips(),
            self.note,
        );
        println!("{}", line.trim_end());
        if let Some(error) = &self.work.error {
            println!("    a message failed: {error}");
        }
        if !self.is_exact() {
            println!("    {} were sent, and {} were applied", self.work.messages, self.work.applied);
        }
    }
}

pub(crate) fn print_head() {
    println!(
        "{:<50} {:>10} {:>8} {:>10} {:>10} {:>9} {:>9}",
        "", "messages/s", "x raw", "commits", "trips", "p50 ms", "p99 ms"
    );
    println!("{:<50} {:>10} {:>8} {:>10} {:>10}", "", "", "", "a message", "a message");
}
