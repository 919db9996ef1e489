//! What must be so afterwards, whatever happened to whom.
//!
//! Each check is a function of what the senders know and what the servers hold, and returns what it found, in words; nothing, if all is well. `trials` feeds them what they must
//! find.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    journal::{Fate, History, Sent},
    log::{Entry, Id, Sort, Work, next},
};

/// How many messages are shown on either side of one that is not as it should be.
const NEAR: u64 = 6;

/// What a server holds in the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    pub(crate) next: u64,
    pub(crate) entries: BTreeMap<u64, Entry>,
    pub(crate) work: BTreeMap<Id, Work>,
}

impl Book {
    /// Where it holds a message. If it holds it more than once, that is found by [`all_is_there_once`].
    fn places(&self) -> BTreeMap<Id, u64> {
        let own = self.entries.iter().filter(|(_, entry)| entry.sort != Sort::Copy);
        own.map(|(place, entry)| (entry.id, *place)).collect()
    }

    /// Messages that have kept their order, with their places.
    fn ordered<'a>(&'a self, history: &'a History) -> impl DoubleEndedIterator<Item = (u64, Id, &'a Sent)> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.sort.is_ordered() && entry.attempt == 0)
            .filter_map(|(place, entry)| Some((*place, entry.id, history.sent.get(&entry.id)?)))
    }
}

/// All checks.
pub(crate) fn all(history: &History, books: &[Book]) -> Vec<String> {
    let mut found = all_is_there_once(history, books);
    found.extend(what_is_sent_on_is_there_once(books));
    for (server, book) in books.iter().enumerate() {
        let flaws = [
            nothing_is_skipped(book),
            senders_order_is_kept(history, book),
            real_time_is_kept(history, book),
            work_is_folded_once(book),
        ];
        found.extend(flaws.into_iter().flatten().map(|words| format!("server {server}: {words}")));
    }
    found.extend(answers_are_right(history, books));
    found.extend(effects_are_done(history, books));
    found
}

/// What was acknowledged is there once, on its server; what was refused is not there; what is unknown is there at most once; and nothing else is there.
pub(crate) fn all_is_there_once(history: &History, books: &[Book]) -> Vec<String> {
    let mut there: BTreeMap<Id, Vec<(usize, u64)>> = BTreeMap::new();
    for (server, book) in books.iter().enumerate() {
        for (place, entry) in book.entries.iter().filter(|(_, entry)| entry.sort != Sort::Copy) {
            there.entry(entry.id).or_default().push((server, *place));
        }
    }
    let mut found = Vec::new();
    for (id, sent) in &history.sent {
        let places = there.remove(id).unwrap_or_default();
        let may_be = match sent.fate() {
            Fate::Done => 1..=1,
            Fate::NotDone => 0..=0,
            Fate::Unknown => 0..=1,
        };
        if !may_be.contains(&places.len()) || places.iter().any(|(server, _)| *server != sent.server) {
            let around =
                places.iter().map(|(server, place)| around(&books[*server], *place)).collect::<Vec<_>>();
            found.push(format!("message {id} is at {places:?} (server, place): {sent:?}{}", around.concat()));
        }
    }
    found
        .extend(there.iter().map(|(id, places)| format!("nobody sent message {id}, which is at {places:?}")));
    found
}

/// What stands around a place, for whoever wants to know why.
fn around(book: &Book, place: u64) -> String {
    let near = book.entries.range(place.saturating_sub(NEAR)..=place + NEAR);
    let near = near.map(|(place, Entry { id, sort, attempt, by, at_ms })| {
        format!("{place}: {id} {sort:?} {attempt} by {by} at {at_ms}")
    });
    format!("\n  near {place}: {}", near.collect::<Vec<_>>().join(", "))
}

/// What one server sends on is on the next one, once.
pub(crate) fn what_is_sent_on_is_there_once(books: &[Book]) -> Vec<String> {
    let count = |server: usize, sort: Sort| {
        let entries = books[server].entries.values().filter(move |entry| entry.sort == sort);
        entries.fold(BTreeMap::<Id, usize>::new(), |mut counts, entry| {
            *counts.entry(entry.id).or_default() += 1;
            counts
        })
    };
    let mut found = Vec::new();
    for server in 0..books.len() {
        let (sent, mut there) = (count(server, Sort::Forward), count(next(server), Sort::Copy));
        for id in sent.keys() {
            let times = there.remove(id).unwrap_or_default();
            if times != 1 {
                found.push(format!("message {id} was sent on by server {server}, and came {times} times"));
            }
        }
        found.extend(
            there.keys().map(|id| format!("message {id} was not sent on by server {server}, but came")),
        );
    }
    found
}

/// Every place up to the next has a message.
pub(crate) fn nothing_is_skipped(book: &Book) -> Vec<String> {
    if book.entries.keys().copied().eq(0..book.next) {
        return Vec::new();
    }
    vec![format!("there are {} messages, and the next place is {}", book.entries.len(), book.next)]
}

/// What one task sent is there in the order in which it was sent, whether it waited for each acknowledgement or not, and whether it got one or not.
pub(crate) fn senders_order_is_kept(history: &History, book: &Book) -> Vec<String> {
    let mut last: BTreeMap<(u64, u64), (u64, Id)> = BTreeMap::new();
    let mut found = Vec::new();
    for (place, id, sent) in book.ordered(history) {
        if let Some((earlier, before)) = last.insert((id.process, id.task), (place, id))
            && before.number > id.number
        {
            let sent = (&history.sent[&before], sent);
            found.push(format!("{before} at {earlier} was sent behind {id} at {place}: {sent:?}"));
        }
    }
    found
}

/// What was acknowledged before something else was begun is there before it.
pub(crate) fn real_time_is_kept(history: &History, book: &Book) -> Vec<String> {
    let mut found = Vec::new();
    // The one that was acknowledged first, of all those behind.
    let mut first: Option<(Duration, u64, Id)> = None;
    for (place, id, sent) in book.ordered(history).rev() {
        if let Some((acknowledged, behind, earlier)) = first
            && acknowledged < sent.begin
        {
            let ahead = sent.begin - acknowledged;
            let sent = (&history.sent[&earlier], sent);
            found.push(format!(
                "{earlier} at {behind} was acknowledged {ahead:?} before {id} at {place} was begun: {sent:?}"
            ));
        }
        if let Some(time) = sent.acknowledged
            && first.is_none_or(|(earliest, ..)| time < earliest)
        {
            first = Some((time, place, id));
        }
    }
    found
}

/// Every answer is the place where the message is.
pub(crate) fn answers_are_right(history: &History, books: &[Book]) -> Vec<String> {
    let places: Vec<BTreeMap<Id, u64>> = books.iter().map(Book::places).collect();
    let wrong = |(id, sent): &(&Id, &Sent)| {
        let place = places.get(sent.server).and_then(|places| places.get(id));
        sent.answers.iter().any(|answer| Some(answer) != place)
    };
    let flaws = history.sent.iter().filter(wrong);
    flaws.map(|(id, sent)| format!("message {id} got a wrong answer: {sent:?}")).collect()
}

/// Every message that asked for locked work had its result folded in once, and no other.
pub(crate) fn work_is_folded_once(book: &Book) -> Vec<String> {
    let asked = book.entries.iter().filter(|(_, entry)| entry.sort == Sort::Lock);
    let wanted: BTreeMap<Id, Work> =
        asked.map(|(place, entry)| (entry.id, Work { place: *place, folded: 1 })).collect();
    let ids = wanted.keys().chain(book.work.keys().filter(|id| !wanted.contains_key(id)));
    ids.filter(|id| wanted.get(id) != book.work.get(id))
        .map(|id| format!("the work of {id} should be {:?}, and is {:?}", wanted.get(id), book.work.get(id)))
        .collect()
}

/// Every effect that was recorded was done, and no other.
pub(crate) fn effects_are_done(history: &History, books: &[Book]) -> Vec<String> {
    let entries = books.iter().flat_map(|book| book.entries.values());
    let mut wanted: Vec<Id> =
        entries.filter(|entry| entry.sort == Sort::Effect).map(|entry| entry.id).collect();
    wanted.sort();
    wanted.dedup();
    let undone = wanted.iter().filter(|id| !history.did.contains(id));
    let extra = history.did.iter().filter(|id| wanted.binary_search(id).is_err());
    let undone = undone.map(|id| format!("the effect of {id} was not done"));
    undone.chain(extra.map(|id| format!("an effect of {id} was done that is not recorded"))).collect()
}
