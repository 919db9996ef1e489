//! [`Table`]: what was counted.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    check::Book,
    journal::{Fate, History},
    log::Sort,
};

/// How many errors are shown.
const ERRORS_MAX: usize = 8;

/// What happened in one case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// Its name.
    case: String,
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) restarts: usize,
    pub(crate) cuts: u64,
    pub(crate) time: Duration,
    calls: usize,
    casts: usize,
    onces: usize,
    locked: usize,
    others: usize,
    refused: usize,
    /// Unknown ones, and how many of them were done.
    unknown: usize,
    unknown_done: usize,
    /// Ordinary messages that had failed before they were done.
    moved: usize,
    wait: Duration,
    /// What senders were told when it was not an acknowledgement, and how often.
    errors: BTreeMap<String, usize>,
}

impl Row {
    pub(crate) fn new(case: String) -> Self {
        Self { case, ..Self::default() }
    }

    /// How many messages were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.calls + self.casts + self.onces + self.locked + self.others
    }

    pub(crate) fn count(&mut self, history: &History, books: &[Book]) {
        let mut unknown = Vec::new();
        for (id, sent) in &history.sent {
            match (sent.fate(), sent.sort) {
                (Fate::Done, Sort::Call) => self.calls += 1,
                (Fate::Done, Sort::Cast | Sort::CastAll | Sort::Burst) => self.casts += 1,
                (Fate::Done, Sort::Once) => self.onces += 1,
                (Fate::Done, Sort::Lock) => self.locked += 1,
                (Fate::Done, _) => self.others += 1,
                (Fate::NotDone, _) => self.refused += 1,
                (Fate::Unknown, _) => unknown.push(*id),
            }
            self.wait = self.wait.max(sent.wait);
            if !sent.error.is_empty() {
                *self.errors.entry(sent.error.clone()).or_default() += 1;
            }
        }
        self.unknown = unknown.len();
        for entry in books.iter().flat_map(|book| book.entries.values()) {
            if entry.sort != Sort::Copy && unknown.binary_search(&entry.id).is_ok() {
                self.unknown_done += 1;
            }
            if entry.sort.is_ordered() && entry.attempt > 0 {
                self.moved += 1;
            }
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, kills, stops, restarts, cuts, calls, casts, onces, locked, others, .. } = self;
        let Self { refused, unknown, unknown_done, moved, wait, time, .. } = self;
        write!(f, "| {case} | {kills} / {stops} / {restarts} / {cuts} ")?;
        write!(f, "| {calls} / {casts} / {onces} / {locked} / {others} ")?;
        write!(f, "| {refused} | {unknown} / {unknown_done} | {moved} ")?;
        write!(f, "| {} ms | {:.0} s |", wait.as_millis(), time.as_secs_f64())?;
        self.errors.iter().take(ERRORS_MAX).try_for_each(|(words, times)| write!(f, "\n  {times} x {words}"))
    }
}

/// The rows, as a page shows them.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn add(&mut self, row: Row) {
        self.0.push(row);
        self.0.sort_by(|a, b| a.case.cmp(&b.case));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "| case | kills / stops / restarts / cuts | acknowledged: calls / casts / repeated / locked / others | refused | unknown / of these done | moved by a failure | longest wait | took |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
