//! [`Pages`]: how the leader keeps the log short.
//!
//! Now and then, all pages whose names have changed are written again, a few with each batch; then the log up to where that began is removed. A page may be as of a later
//! position than another: the log has what the earlier one lacks, since it is removed only up to the earliest.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Bound,
};

use crate::{
    log::{Base, Page},
    names::{Moved, Names},
};

/// How many bytes a page has, about. A change of one name writes its whole page some time later; reading all names reads all pages.
const PAGE_BYTES: usize = 32 * 1024;

/// The log is shortened when it has this many batches, and as many more as there are names, in part.
const BATCHES_MIN: u64 = 64;
const NAMES_A_BATCH: u64 = 8;
const BATCHES_MAX: u64 = 4096;

/// In a simulation that asks for it.
const SHORT_BATCHES_MIN: u64 = 6;
const SHORT_PAGE_BYTES: usize = 200;

/// Or when its batches have this many bytes, and as many more as all names: so a name is written to a page about as often as to the log.
const LOG_BYTES_MIN: usize = 1024 * 1024;

/// A page to write, or to delete where it has none.
#[derive(Debug, PartialEq)]
pub(crate) struct PageWrite {
    pub(crate) first: String,
    pub(crate) page: Option<Page>,
}

/// What is known of pages.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// The names that pages begin with. Unknown until they are first needed.
    firsts: Option<BTreeSet<String>>,
    /// Those whose names have changed since they were written.
    changed: BTreeSet<String>,
    round: Option<Round>,
    /// How many bytes were added to the log since it was last shortened, as far as this leader knows.
    log_bytes: usize,
    /// Whether everything is small.
    short: bool,
}

/// Pages that are being written.
#[derive(Debug)]
struct Round {
    /// Up to where the log can be removed afterwards.
    through: Base,
    /// Those that are not written yet.
    left: VecDeque<String>,
    /// Where the rest of the first of them ends, if a part of it was written.
    end: Option<String>,
}

impl Pages {
    /// Nothing is known yet.
    pub(crate) fn new(short: bool) -> Self {
        Self { short, ..Self::default() }
    }

    /// Whether it has to be known what pages there are.
    pub(crate) fn needs_firsts(&self, names: &Names, base: Base) -> bool {
        self.firsts.is_none() && self.is_due(names, base)
    }

    /// What pages there are. All of them may be outdated.
    pub(crate) fn set_firsts(&mut self, mut firsts: BTreeSet<String>) {
        // The first page has all names before the second.
        firsts.insert(String::new());
        self.changed.clone_from(&firsts);
        self.firsts = Some(firsts);
    }

    /// Whether something is to be written, though there be no batch.
    pub(crate) fn is_at_work(&self) -> bool {
        self.round.is_some()
    }

    fn is_due(&self, names: &Names, base: Base) -> bool {
        let (count, bytes) = names.size();
        let batches = names.position().saturating_sub(base.position);
        let least = if self.short { SHORT_BATCHES_MIN } else { BATCHES_MIN };
        let most = (least + count as u64 / NAMES_A_BATCH).min(BATCHES_MAX);
        batches > most || self.log_bytes > LOG_BYTES_MIN + bytes
    }

    /// Begins to write, if it is time to.
    pub(crate) fn begin(&mut self, names: &Names, base: Base) {
        if self.round.is_some() || self.firsts.is_none() || !self.is_due(names, base) {
            return;
        }
        let through = Base { position: names.position(), epoch: names.epoch() };
        let left = std::mem::take(&mut self.changed).into_iter().collect();
        self.round = Some(Round { through, left, end: None });
        self.log_bytes = 0;
    }

    /// Takes down what a batch has changed.
    pub(crate) fn note(&mut self, moved: &[Moved], bytes: usize) {
        self.log_bytes += bytes;
        let Some(firsts) = &self.firsts else { return };
        for moved in moved {
            let (Moved::Joined(entry) | Moved::Left(entry) | Moved::Changed(_, entry)) = moved;
            if let Some(first) = page_of(firsts, entry.name())
                && !self.changed.contains(first)
            {
                self.changed.insert(first.to_owned());
            }
        }
    }

    /// The same for a batch of which it is not known what it has changed.
    pub(crate) fn note_all(&mut self, bytes: usize) {
        self.log_bytes += bytes;
        if let Some(firsts) = &self.firsts {
            self.changed.clone_from(firsts);
        }
    }

    /// The next pages to write, of about so many bytes, and up to where the log can be removed if these are the last.
    pub(crate) fn take(
        &mut self,
        names: &Names,
        budget: usize,
        most: usize,
    ) -> (Vec<PageWrite>, Option<Base>) {
        let (Some(firsts), Some(round)) = (&mut self.firsts, &mut self.round) else {
            return (Vec::new(), None);
        };
        let page_bytes = if self.short { SHORT_PAGE_BYTES } else { PAGE_BYTES };
        let (mut writes, mut bytes) = (Vec::new(), 0);
        while let Some(first) = round.left.front().cloned() {
            if bytes >= budget || writes.len() >= most {
                return (writes, None);
            }
            let after: (Bound<&str>, Bound<&str>) = (Bound::Excluded(&first), Bound::Unbounded);
            let end = round.end.clone().or_else(|| firsts.range::<str, _>(after).next().cloned());
            let (page, whole) = names.last_page(&first, end.as_deref(), page_bytes);
            bytes += page.entries.iter().map(|entry| entry.weight()).sum::<usize>() + 1;
            if whole {
                round.left.pop_front();
                round.end = None;
                self.changed.remove(&first);
                let empty = page.entries.is_empty() && !first.is_empty();
                if empty {
                    firsts.remove(&first);
                }
                writes.push(PageWrite { first, page: (!empty).then_some(page) });
            } else if let Some(start) = page.entries.first().map(|entry| entry.name().to_owned()) {
                // From the end: until the first part is written, the page still has all names before this one.
                firsts.insert(start.clone());
                self.changed.remove(&start);
                round.end = Some(start.clone());
                writes.push(PageWrite { first: start, page: Some(page) });
            }
        }
        let through = round.through;
        self.round = None;
        (writes, Some(through))
    }
}

/// The page that a name belongs to.
fn page_of<'a>(firsts: &'a BTreeSet<String>, name: &str) -> Option<&'a str> {
    let through: (Bound<&str>, Bound<&str>) = (Bound::Unbounded, Bound::Included(name));
    firsts.range::<str, _>(through).next_back().map(String::as_str)
}
