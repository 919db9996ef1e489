//! [`Table`]: what was measured.

use std::{fmt, time::Duration};

use crate::{fleet::Outcome, scenario::Scenario, support::place::Place};

/// What one round took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Nobody believed to lead: from the last belief of the one to the first of the next.
    pub(crate) gap: Duration,
    /// From the fault to the first belief of the next.
    pub(crate) outage: Duration,
}

/// What all rounds of one case took.
#[derive(Debug)]
pub(crate) struct Row {
    place: Place,
    scenario: &'static Scenario,
    measured: Vec<Measured>,
    unprovoked: usize,
    stalled: usize,
}

impl Row {
    pub(crate) fn new(place: Place, scenario: &'static Scenario) -> Self {
        Self { place, scenario, measured: Vec::new(), unprovoked: 0, stalled: 0 }
    }

    pub(crate) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Measured(measured) => self.measured.push(measured),
            Outcome::Unprovoked => self.unprovoked += 1,
            Outcome::Stalled => self.stalled += 1,
        }
    }

    /// How many rounds were measured.
    pub(crate) fn rounds(&self) -> usize {
        self.measured.len()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gaps = Spread::of(self.measured.iter().map(|measured| measured.gap));
        let outages = Spread::of(self.measured.iter().map(|measured| measured.outage));
        let ttl = self.scenario.ttl().as_secs();
        write!(
            f,
            "| {} | {} | {ttl} s | {} | {gaps} | {outages} |",
            self.place,
            self.scenario.words,
            self.rounds()
        )?;
        write!(f, " {} / {} |", self.stalled, self.unprovoked)
    }
}

/// The rows, as a page shows them.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn add(&mut self, row: Row) {
        self.0.push(row);
        self.0.sort_by_key(|row| (row.place, row.scenario.number()));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "| store | case | ttl | rounds | nobody leads: median / 90 % / worst, ms | since the fault: median / 90 % / worst, ms | made again: stalled / unprovoked |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- |")?;
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

/// How times are spread.
struct Spread(Vec<Duration>);

impl Spread {
    fn of(times: impl Iterator<Item = Duration>) -> Self {
        let mut times: Vec<Duration> = times.collect();
        times.sort();
        Self(times)
    }

    /// So many of a hundred are no longer than this.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, most, worst] =
            [50, 90, 100].map(|percent| self.percentile(percent).as_secs_f64() * 1000.0);
        write!(f, "{median:.1} / {most:.1} / {worst:.1}")
    }
}
