//! [`Table`]: what was counted, and how long nobody led.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::fleet::Case;

/// How many errors are shown.
const ERRORS_MAX: usize = 8;

/// What happened in one case.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    case: Case,
    time: Duration,
    pub(crate) acknowledged: usize,
    pub(crate) taken: usize,
    /// By what was said.
    pub(crate) refused: BTreeMap<String, usize>,
    pub(crate) unknown: usize,
    pub(crate) looks: usize,
    pub(crate) calls: usize,
    /// From each kill of a leader to the next registration that was acknowledged by another, sorted.
    pub(crate) without: Vec<Duration>,
}

impl Row {
    pub(crate) fn new(case: Case, time: Duration) -> Self {
        let (refused, without) = (BTreeMap::new(), Vec::new());
        Self { case, time, acknowledged: 0, taken: 0, refused, unknown: 0, looks: 0, calls: 0, without }
    }

    /// The time below which so many of a hundred lie.
    fn without(&self, hundredths: usize) -> u128 {
        let place = self.without.len().saturating_sub(1) * hundredths / 100;
        self.without.get(place).map_or(0, Duration::as_millis)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, acknowledged, taken, unknown, looks, calls, .. } = self;
        let refused: usize = self.refused.values().sum();
        write!(f, "| {} | {} | {} ", case.place, case.kills, case.names)?;
        write!(f, "| {acknowledged} / {taken} / {refused} / {unknown} | {looks} | {calls} ")?;
        write!(f, "| {} / {} / {} ms ", self.without(50), self.without(90), self.without(100))?;
        write!(f, "| {:.0} s |", self.time.as_secs_f64())?;
        self.refused.iter().take(ERRORS_MAX).try_for_each(|(words, times)| write!(f, "\n  {times} x {words}"))
    }
}

/// The rows, as a page shows them.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn add(&mut self, row: Row) {
        self.0.push(row);
        self.0.sort_by_key(|row| row.case.place);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "| store | leaders killed | names | registrations: acknowledged / taken / refused / unknown | consistent look-ups | calls | without a leader: median / p90 / max | took |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
