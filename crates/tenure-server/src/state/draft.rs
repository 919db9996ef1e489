//! [`Draft`]: the difference between a state and what is stored of it.

use std::collections::{BTreeMap, BTreeSet};

use tenure_store::{Bytes, Key, Range, Write};

use super::{
    book::{Book, Line, remove_range},
    chunks::split,
    error::StateError,
    place::{Place, admit_key, chunk},
};

/// What has to be written so that the store holds what the state is, and what the book says once that is done.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// By key: the new value, or `None` for what is to be deleted.
    writes: BTreeMap<Key, Option<Bytes>>,
    /// Places below which nothing may stay but what is written here.
    replaced: Vec<Key>,
    lines: Vec<Line>,
}

/// A part that is different from what is stored.
pub(super) struct Changed<'a> {
    /// Where it lies.
    pub(super) key: Key,
    /// What it is now; `None` when it is gone.
    pub(super) new: Option<&'a [u8]>,
    /// How long it was; `None` when it was not there.
    pub(super) old: Option<usize>,
    /// How many chunks of it may be there.
    pub(super) chunks: u32,
    /// The place of the collection that it is in, or of the struct.
    pub(super) within: &'a Place,
}

impl Draft {
    pub(super) fn note(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Leaves nothing below a place but what is written from now on.
    pub(super) fn replace(&mut self, place: &Key) {
        self.replaced.push(place.clone());
    }

    pub(super) fn change(&mut self, part: Changed<'_>, chunk_bytes: usize) -> Result<(), StateError> {
        let Changed { key, new, old, chunks, within } = part;
        admit_key(&key, within)?;
        let pieces = new.map(|body| split(&key, body, chunk_bytes)).unwrap_or_default();
        let now = u32::try_from(pieces.len().saturating_sub(1)).expect("chunks are counted in 32 bits");
        let weigh = |length: usize| key.len() + length;
        self.note(Line::Weight {
            within: Some(within.prefix().clone()),
            more: new.map_or(0, |body| weigh(body.len())),
            less: old.map_or(0, weigh),
        });
        if chunks != now {
            self.note(Line::Chunks(key.clone(), now));
        }
        self.writes.extend((now..chunks).map(|number| (chunk(&key, number), None)));
        if new.is_none() {
            self.writes.insert(key, None);
        }
        self.writes.extend(pieces.into_iter().map(|(key, value)| (key, Some(value))));
        Ok(())
    }

    /// All writes, and those of `owed` that these do not make needless.
    pub(super) fn writes(&self, owed: &BTreeMap<Key, Option<Bytes>>) -> Vec<Write> {
        let mut all = owed.clone();
        let gaps: Vec<Range> = self.replaced.iter().flat_map(|place| self.gaps(place)).collect();
        for gap in &gaps {
            remove_range(&mut all, gap);
        }
        all.extend(self.writes.iter().map(|(key, value)| (key.clone(), value.clone())));
        let single = all.into_iter().map(|(key, value)| match value {
            Some(value) => Write::Set(key, value),
            None => Write::Delete(key),
        });
        gaps.iter().cloned().map(Write::DeleteRange).chain(single).collect()
    }

    /// What was written, for a store that has nothing yet.
    pub(super) fn owed(&self) -> BTreeMap<Key, Option<Bytes>> {
        self.writes.clone()
    }

    pub(super) fn enter(self, book: &mut Book) {
        for line in self.lines {
            book.enter(line);
        }
    }

    /// All keys below a place but those that are written there: no write may lie in a range that the same commit deletes.
    fn gaps(&self, place: &Key) -> Vec<Range> {
        let all = Range::Prefix(place.clone());
        let written: BTreeSet<&Key> = self
            .writes
            .range(place.clone()..)
            .map(|(key, _)| key)
            .take_while(|key| all.contains(key))
            .collect();
        if written.is_empty() {
            return vec![all];
        }
        let mut gaps = Vec::with_capacity(written.len() + 1);
        let mut start = place.clone();
        for key in written {
            gaps.push(Range::Between { start, end: key.clone() });
            start = key.join(&[0]);
        }
        let end = all.end().expect("an encoded tuple is never 0xFF throughout");
        gaps.push(Range::Between { start, end });
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }
}
