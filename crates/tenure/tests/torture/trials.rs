//! That the checks find what they are for: each is fed histories that are wrong in one way.

use std::time::Duration;

use libtest_mimic::Trial;
use tenure::store::Tuple;

use crate::{
    check::{self, Book},
    journal::{History, Sent},
    leftover::{Stage, flaws},
    log::{Entry, Id, Sort, Work},
};

pub(crate) fn all() -> Vec<Trial> {
    let trial = |name: &str, body: fn()| {
        Trial::test(format!("check::{name}"), move || {
            body();
            Ok(())
        })
    };
    vec![
        trial("what_is_right_passes", what_is_right_passes),
        trial("what_is_lost_is_found", what_is_lost_is_found),
        trial("what_is_doubled_is_found", what_is_doubled_is_found),
        trial("what_was_refused_or_never_sent_is_found", what_was_refused_or_never_sent_is_found),
        trial("a_wrong_order_is_found", a_wrong_order_is_found),
        trial("what_has_no_order_is_let_pass", what_has_no_order_is_let_pass),
        trial("a_wrong_answer_is_found", a_wrong_answer_is_found),
        trial("work_that_is_not_folded_once_is_found", work_that_is_not_folded_once_is_found),
        trial("what_is_not_sent_on_once_is_found", what_is_not_sent_on_once_is_found),
        trial("an_effect_that_is_not_done_is_found", an_effect_that_is_not_done_is_found),
        trial("a_key_that_is_left_over_is_found", a_key_that_is_left_over_is_found),
        trial("a_journal_is_read_as_it_was_written", a_journal_is_read_as_it_was_written),
    ]
}

/// A history and what the servers hold; the first of them, mostly.
#[derive(Clone)]
struct World {
    history: History,
    books: [Book; 3],
}

/// The message of this number, of one task.
fn id(number: u64) -> Id {
    Id { process: 1, task: 0, number }
}

impl World {
    fn new() -> Self {
        Self { history: History::default(), books: Default::default() }
    }

    /// Sent to the first server from one millisecond to another, acknowledged, and written down at the end.
    fn with(mut self, number: u64, sort: Sort, begin: u64, end: u64) -> Self {
        let mut sent = Sent::new(0, sort, Duration::from_millis(begin));
        sent.acknowledged = Some(Duration::from_millis(end));
        self.history.sent.insert(id(number), sent);
        self.write(0, Entry { id: id(number), sort, attempt: 0, by: 0, at_ms: 0 });
        self
    }

    fn write(&mut self, server: usize, entry: Entry) {
        let book = &mut self.books[server];
        book.entries.insert(book.next, entry);
        book.next += 1;
    }

    /// Exchanges what is at two places of the first server.
    fn swap(mut self, a: u64, b: u64) -> Self {
        let entries = &mut self.books[0].entries;
        let (first, second) = (entries[&a], entries[&b]);
        entries.insert(a, second);
        entries.insert(b, first);
        self
    }

    fn sent(&mut self, number: u64) -> &mut Sent {
        self.history.sent.get_mut(&id(number)).unwrap()
    }

    fn found(&self) -> Vec<String> {
        check::all(&self.history, &self.books)
    }

    fn assert_found(&self, count: usize, words: &str) {
        let found = self.found();
        assert_eq!(found.iter().filter(|flaw| flaw.contains(words)).count(), count, "{words:?} in {found:?}");
    }
}

/// Two messages, one behind the other.
fn two() -> World {
    World::new().with(1, Sort::Call, 0, 10).with(2, Sort::Cast, 20, 30)
}

fn what_is_right_passes() {
    let mut world = two().with(3, Sort::Lock, 40, 50).with(4, Sort::Forward, 60, 70);
    world = world.with(5, Sort::Effect, 80, 90).with(6, Sort::Nowait, 95, 95).with(7, Sort::Call, 96, 99);
    world.books[0].work.insert(id(3), Work { place: 2, folded: 1 });
    world.write(1, Entry { id: id(4), sort: Sort::Copy, attempt: 0, by: 0, at_ms: 0 });
    world.history.did.insert(id(5));
    world.sent(6).acknowledged = None;
    world.sent(1).answers = vec![0];
    world.sent(7).answers = vec![6, 6];
    assert_eq!(world.found(), [""; 0]);
}

fn what_is_lost_is_found() {
    let mut world = two();
    world.books[0].entries.remove(&1);
    world.books[0].next = 1;
    world.assert_found(1, "message 1.0.2 is at []");
    world.sent(2).acknowledged = None;
    assert_eq!(world.found(), [""; 0], "it was never acknowledged");
    world.books[0].next = 2;
    world.assert_found(1, "the next place is 2");
}

fn what_is_doubled_is_found() {
    let mut world = two();
    world.write(0, Entry { id: id(2), sort: Sort::Cast, attempt: 0, by: 0, at_ms: 0 });
    world.assert_found(1, "message 1.0.2 is at [(0, 1), (0, 2)]");
    world.sent(2).acknowledged = None;
    world.assert_found(1, "message 1.0.2 is at [(0, 1), (0, 2)]");
    let mut elsewhere = two();
    elsewhere.sent(2).server = 1;
    elsewhere.assert_found(1, "message 1.0.2 is at [(0, 1)]");
}

fn what_was_refused_or_never_sent_is_found() {
    let mut world = two();
    (world.sent(2).acknowledged, world.sent(2).refused) = (None, 1);
    world.assert_found(1, "message 1.0.2 is at [(0, 1)]");
    world.sent(2).times = 2;
    assert_eq!(world.found(), [""; 0], "the second time may have done it");
    world.history.sent.remove(&id(2));
    world.assert_found(1, "nobody sent message 1.0.2");
}

fn a_wrong_order_is_found() {
    let world = two().swap(0, 1);
    world.assert_found(1, "was sent behind");
    world.assert_found(1, "was acknowledged 10ms before");
    // At the same time, but in one task.
    let burst = World::new().with(1, Sort::Burst, 0, 10).with(2, Sort::Burst, 1, 9);
    assert_eq!(burst.found(), [""; 0]);
    burst.swap(0, 1).assert_found(1, "was sent behind");
    // Not only neighbours, and not only of one sender.
    let mut many =
        World::new().with(1, Sort::Call, 50, 60).with(2, Sort::Call, 5, 70).with(3, Sort::Call, 0, 40);
    many.assert_found(1, "1.0.3 at 2 was acknowledged 10ms before 1.0.1 at 0");
    many.sent(3).acknowledged = Some(Duration::from_millis(50));
    many.assert_found(0, "was acknowledged");
}

fn what_has_no_order_is_let_pass() {
    for sort in [Sort::Urgent, Sort::UrgentCast, Sort::Later, Sort::Fail] {
        let world = World::new().with(1, Sort::Call, 0, 10).with(2, sort, 20, 30).swap(0, 1);
        assert_eq!(world.found(), [""; 0], "{sort:?}");
    }
    let mut failed = two().swap(0, 1);
    failed.books[0].entries.get_mut(&1).unwrap().attempt = 1;
    assert_eq!(failed.found(), [""; 0]);
}

fn a_wrong_answer_is_found() {
    for answers in [vec![1], vec![0, 1]] {
        let mut world = two();
        world.sent(1).answers = answers;
        world.assert_found(1, "message 1.0.1 got a wrong answer");
    }
}

fn work_that_is_not_folded_once_is_found() {
    let world = World::new().with(1, Sort::Lock, 0, 10);
    world.assert_found(1, "the work of 1.0.1");
    for (work, count) in [((0, 0), 1), ((0, 1), 0), ((0, 2), 1), ((1, 1), 1)] {
        let mut world = world.clone();
        world.books[0].work.insert(id(1), Work { place: work.0, folded: work.1 });
        world.assert_found(count, "the work of 1.0.1");
    }
    let mut unasked = two();
    unasked.books[0].work.insert(id(1), Work { place: 0, folded: 1 });
    unasked.assert_found(1, "the work of 1.0.1");
}

fn what_is_not_sent_on_once_is_found() {
    let mut world = World::new().with(1, Sort::Forward, 0, 10);
    world.assert_found(1, "came 0 times");
    let copy = Entry { id: id(1), sort: Sort::Copy, attempt: 0, by: 0, at_ms: 0 };
    world.write(1, copy);
    assert_eq!(world.found(), [""; 0]);
    world.write(1, copy);
    world.assert_found(1, "came 2 times");
    world.write(2, copy);
    world.assert_found(1, "was not sent on by server 1, but came");
}

fn an_effect_that_is_not_done_is_found() {
    let mut world = World::new().with(1, Sort::Effect, 0, 10);
    world.assert_found(1, "the effect of 1.0.1 was not done");
    world.history.did.extend([id(1), id(2)]);
    world.assert_found(1, "an effect of 1.0.2 was done that is not recorded");
}

fn a_key_that_is_left_over_is_found() {
    let area = |word: &str| Tuple::new().text("tenure").text("c").text(word);
    let due = |timer: u64| area("due").text("log").int(3_u64).int(99_u64).text("north").int(timer).key();
    for word in ["head", "state", "once", "consumers", "member"] {
        assert_eq!(flaws(&[area(word).text("log").key()], Stage::Gone), [""; 0]);
    }
    for word in ["session", "beat", "local", "own"] {
        let keys = [area(word).text("x").key()];
        assert_eq!(flaws(&keys, Stage::Idle), [""; 0]);
        assert_eq!(flaws(&keys, Stage::Gone).len(), 1, "{word}");
    }
    for word in ["queue", "urgent", "piece", "full", "effect", "timer", "dead", "work", "else"] {
        let keys = [area(word).text("log").key()];
        assert_eq!(flaws(&keys, Stage::Idle).len(), 1, "{word}");
        assert_eq!(flaws(&keys, Stage::Gone).len(), 1, "{word}");
    }
    assert_eq!(flaws(&[due(0)], Stage::Gone), [""; 0]);
    assert_eq!(flaws(&[due(7)], Stage::Gone).len(), 1);
}

fn a_journal_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let lines =
        "begin 5 1.0.1 2 Call\nok 9 1.0.1 17\ndid 1.0.4\nbegin 20 1.0.2 0 Once\nrefused 30 1.0.2 no way\n";
    std::fs::write(&path, format!("{lines}begin 40 1.0.2 0 Once\nunknown 50 1.0.2 ?\nok 60 1.0.2")).unwrap();
    let mut history = History::default();
    history.add(&path);
    let first = &history.sent[&id(1)];
    let nanos = Duration::from_nanos;
    assert_eq!((first.server, first.sort, first.begin), (2, Sort::Call, nanos(5)));
    assert_eq!((first.acknowledged, &first.answers[..]), (Some(nanos(9)), &[17][..]));
    let second = &history.sent[&id(2)];
    assert_eq!((second.times, second.refused, second.unknown), (2, 1, 1), "its last line is cut off");
    assert_eq!(second.acknowledged, None);
    assert!(history.did.contains(&id(4)));
}
