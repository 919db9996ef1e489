//! [`Table`]: for how long nobody ran the command, after each kind of fault.

use std::fmt;

use crate::{fault::Fault, fleet::Round, log::Life, store::Place};

/// What all rounds on one store took.
#[derive(Debug)]
pub(crate) struct Row {
    place: Place,
    /// For each kind of fault, in how many rounds it happened, and the gaps in nanoseconds where the command was ended.
    faults: Vec<(Fault, usize, Vec<u64>)>,
}

impl Row {
    pub(crate) fn new(place: Place, rounds: &[Round], lives: &[Life]) -> Self {
        let gaps = |fault: Fault| {
            let hit = rounds.iter().filter(|round| round.fault == fault);
            let mut gaps: Vec<u64> = hit.clone().filter_map(|round| gap(round, lives)).collect();
            gaps.sort_unstable();
            (fault, hit.count(), gaps)
        };
        let faults = Fault::ALL.into_iter().map(gaps).filter(|(_, hit, _)| *hit > 0).collect();
        Self { place, faults }
    }
}

/// From the last line of who led before to the first of the next; none, if that went on.
fn gap(round: &Round, lives: &[Life]) -> Option<u64> {
    let life = lives.iter().find(|life| life.family == round.before && round.before != round.after)?;
    let later = lives.iter().filter(|other| other.first > life.last);
    Some(later.map(|other| other.first).min()? - life.last)
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fault, hit, gaps) in &self.faults {
            let ms = |at: usize| gaps.get(at).map_or("-".to_owned(), |gap| (gap / 1_000_000).to_string());
            let (median, worst) = (ms(gaps.len() / 2), ms(gaps.len().wrapping_sub(1)));
            let (place, words, ended) = (self.place, fault.words(), gaps.len());
            writeln!(f, "| {place} | {words} | {hit} | {ended} | {median} | {worst} |")?;
        }
        Ok(())
    }
}

/// The rows, as a page shows them.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn add(&mut self, row: Row) {
        self.0.push(row);
        self.0.sort_by_key(|row| row.place);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "| store | what happened | rounds | the command ended | nobody runs: median, ms | worst, ms |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- |")?;
        self.0.iter().try_for_each(|row| write!(f, "{row}"))
    }
}
