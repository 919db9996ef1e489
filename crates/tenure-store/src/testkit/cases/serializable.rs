//! Commits are strictly serializable, and a read is one instant. Obligations 1, 2, 3 and 7.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{sync::Barrier, task::yield_now};

use crate::{
    Check, Commit, Key, Range, Read, Snapshot, Store, StoreExt as _, Write,
    testkit::{Handles, tools::*},
};

/// How often two commits are raced against each other.
const RACES: usize = 40;

/// A key or list that only this round uses.
fn nth(text: &str, round: usize) -> Key {
    key(&format!("{text}{round}"))
}

/// Makes both commits at once, on two handles; returns which were made.
async fn race(handles: &Handles, round: usize, commits: [Commit; 2]) -> [bool; 2] {
    let start = Arc::new(Barrier::new(2));
    let racers = commits.into_iter().enumerate().map(|(index, work)| {
        let (store, start) = (Arc::clone(handles.nth(round + index)), Arc::clone(&start));
        async move {
            start.wait().await;
            attempt(&store, work).await
        }
    });
    all(racers).await.try_into().expect("two raced")
}

/// Races two commits of which each makes the other's check fail: in any order of the two, just the first is made.
async fn never_both(handles: &Handles, round: usize, mut commits: [Commit; 2]) {
    // Each gets its turn to start first, which is to win on stores that never wait.
    commits.rotate_left(round % 2);
    let made = race(handles, round, commits.clone()).await;
    assert!(made[0] != made[1], "round {round}: made were {made:?} of {commits:?}");
}

/// The number in a key, 0 if it does not exist.
fn number_in(snapshot: &Snapshot, index: usize) -> u64 {
    snapshot.key(index).map_or(0, |found| to_number(&found.value))
}

const COUNTERS: usize = 8;
const INCREMENTS: usize = 25;

/// Adds 1 to the number in `k`. Only another increment that came between may refuse it, so that others run out in the end.
async fn increment(store: &Arc<dyn Store>) {
    for _ in 0..COUNTERS * INCREMENTS {
        let (check, next) = match store.get(&key("k")).await.unwrap() {
            None => (Check::Absent(key("k")), 1),
            Some(found) => (Check::Version(key("k"), found.version), to_number(&found.value) + 1),
        };
        // Lets others in between on stores that never wait.
        yield_now().await;
        if attempt(store, Commit::new().check(check).set(key("k"), number(next))).await {
            return;
        }
    }
    panic!("{store} refused an increment more often than there were others");
}

/// No increment of a counter is lost, though many tasks on many handles make them at once.
pub(in crate::testkit) async fn no_increment_is_lost(handles: Handles) {
    let tasks = (0..COUNTERS).map(|task| {
        let store = Arc::clone(handles.nth(task));
        async move {
            for _ in 0..INCREMENTS {
                increment(&store).await;
            }
        }
    });
    all(tasks).await;
    let counted = to_number(&value(handles.one(), &key("k")).await.unwrap());
    assert_eq!(
        counted,
        (COUNTERS * INCREMENTS) as u64,
        "the counter against the increments that were acknowledged"
    );
}

const ACCOUNTS: usize = 6;
const CLERKS: usize = 4;
const TRANSFERS: usize = 25;

fn accounts() -> Vec<Read> {
    (0..ACCOUNTS).map(|account| Read::Key(nth("account", account))).collect()
}

/// Moves 1 from one account to another. Only another transfer that came between may refuse it.
async fn transfer(store: &Arc<dyn Store>, from: usize, to: usize) {
    for _ in 0..CLERKS * TRANSFERS {
        let seen = store.read(accounts()).await.unwrap();
        yield_now().await;
        let mut work = Commit::new();
        for (account, change) in [(from, -1), (to, 1)] {
            let found = seen.key(account).expect("no account is ever deleted");
            let next = to_number(&found.value).checked_add_signed(change).expect("accounts start rich");
            work = work.check(Check::Version(nth("account", account), found.version));
            work = work.set(nth("account", account), number(next));
        }
        if attempt(store, work).await {
            return;
        }
    }
    panic!("{store} refused a transfer more often than there were others");
}

/// Transfers between accounts leave their sum as it is, in every snapshot that is taken meanwhile.
pub(in crate::testkit) async fn transfers_keep_the_sum(handles: Handles) {
    let start =
        (0..ACCOUNTS).fold(Commit::new(), |all, account| all.set(nth("account", account), number(1000)));
    commit(handles.one(), start).await;
    let done = Arc::new(AtomicBool::new(false));
    let reading = {
        let (store, done) = (Arc::clone(handles.nth(3)), Arc::clone(&done));
        tokio::spawn(async move {
            while !done.load(Ordering::SeqCst) {
                let seen = store.read(accounts()).await.unwrap();
                let sum: u64 = (0..ACCOUNTS).map(|account| number_in(&seen, account)).sum();
                assert_eq!(sum, 1000 * ACCOUNTS as u64, "the sum in {seen:?}");
                yield_now().await;
            }
        })
    };
    let tasks = (0..CLERKS).map(|task| {
        let store = Arc::clone(handles.nth(task));
        async move {
            for step in 0..TRANSFERS {
                let from = (task + step) % ACCOUNTS;
                transfer(&store, from, (from + 1 + step % 5) % ACCOUNTS).await;
            }
        }
    });
    all(tasks).await;
    done.store(true, Ordering::SeqCst);
    reading.await.expect("every snapshot has the same sum");
    let seen = handles.one().read(accounts()).await.unwrap();
    let sum: u64 = (0..ACCOUNTS).map(|account| number_in(&seen, account)).sum();
    assert_eq!(sum, 1000 * ACCOUNTS as u64, "the sum at the end, in {seen:?}");
}

/// Two commits that each make a key where the other wants none are never both made.
pub(in crate::testkit) async fn absent_is_not_skewed(handles: Handles) {
    for round in 0..RACES {
        let (a, b) = (nth("a", round), nth("b", round));
        let first = Commit::new().check(Check::Absent(a.clone())).set(b.clone(), "v");
        let second = Commit::new().check(Check::Absent(b)).set(a, "v");
        never_both(&handles, round, [first, second]).await;
    }
}

/// Two commits that each overwrite the key whose version the other checks are never both made.
pub(in crate::testkit) async fn version_is_not_skewed(handles: Handles) {
    let pair = || Commit::new().set(key("a"), "v").set(key("b"), "v");
    for round in 0..RACES / 2 {
        let version = commit(handles.one(), pair()).await.version;
        let check = |name| Check::Version(key(name), version);
        let first = Commit::new().check(check("a")).set(key("b"), "w");
        let second = Commit::new().check(check("b")).set(key("a"), "w");
        never_both(&handles, round, [first, second]).await;
    }
}

/// Two commits that each append to the list that the other wants empty are never both made.
pub(in crate::testkit) async fn empty_is_not_skewed(handles: Handles) {
    for round in 0..RACES {
        let (a, b) = (nth("a", round), nth("b", round));
        let first = Commit::new().check(Check::Empty(a.clone())).append(b.clone(), "e");
        let second = Commit::new().check(Check::Empty(b)).append(a, "e");
        never_both(&handles, round, [first, second]).await;
    }
}

/// A commit that needs a key, and one that deletes it if the first was not made, are never both made.
pub(in crate::testkit) async fn present_is_not_skewed(handles: Handles) {
    for round in 0..RACES / 2 {
        let (guard, work) = (nth("k", round), nth("x", round));
        commit(handles.nth(round), Commit::new().set(guard.clone(), "v")).await;
        let first = Commit::new().check(Check::Present(guard.clone())).set(work.clone(), "v");
        let second = Commit::new().check(Check::Absent(work)).delete(guard);
        never_both(&handles, round, [first, second]).await;
    }
}

/// A commit that deletes a range, and one that needs a key in it, are never both made.
pub(in crate::testkit) async fn a_deleted_range_is_not_skewed(handles: Handles) {
    for round in 0..RACES / 2 {
        let (within, work) = (nth("r", round).join(b"/k"), nth("x", round));
        commit(handles.nth(round), Commit::new().set(within.clone(), "v")).await;
        let first = Commit::new().check(Check::Present(within)).append(work.clone(), "e");
        let second =
            Commit::new().check(Check::Empty(work)).delete_range(Range::Prefix(nth("r", round).join(b"/")));
        never_both(&handles, round, [first, second]).await;
    }
}

/// A deleted range takes along all that was there before: what was seen without the deletion is never seen with it.
pub(in crate::testkit) async fn a_deleted_range_spares_nothing_seen_before(handles: Handles) {
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
    for task in 0..2 {
        let (store, done) = (Arc::clone(handles.nth(task)), Arc::clone(&done));
        tasks.push(Box::pin(async move {
            for count in 0.. {
                if done.load(Ordering::SeqCst) {
                    break;
                }
                let made = key(&format!("r/{task}/{count}"));
                commit(&store, Commit::new().set(made, "v").append(key("r/l"), "e")).await;
                yield_now().await;
            }
        }));
    }
    let (store, over) = (Arc::clone(handles.nth(2)), Arc::clone(&done));
    tasks.push(Box::pin(async move {
        for round in 0..RACES {
            let deletion = Commit::new().delete_range(Range::Prefix(key("r/")));
            commit(&store, deletion.set(key("deletions"), number(round as u64 + 1))).await;
            yield_now().await;
        }
        over.store(true, Ordering::SeqCst);
    }));
    let store = Arc::clone(handles.nth(3));
    tasks.push(Box::pin(async move {
        let mut seen_after: HashMap<Vec<u8>, u64> = HashMap::new();
        while !done.load(Ordering::SeqCst) {
            let limit = store.limits().page_items.min(500);
            let questions = vec![
                Read::Key(key("deletions")),
                Read::Range { range: Range::Prefix(key("r/")), limit },
                Read::List { list: key("r/l"), after: None, limit },
            ];
            let snapshot = store.read(questions).await.unwrap();
            let deletions = number_in(&snapshot, 0);
            let keys = snapshot.range(1).items.iter().map(|item| item.key.as_bytes().to_vec());
            let entries = snapshot.list(2).items.iter().map(|entry| entry.id.as_bytes().to_vec());
            for thing in keys.chain(entries) {
                let before = *seen_after.entry(thing.clone()).or_insert(deletions);
                assert_eq!(
                    before, deletions,
                    "{thing:?} was seen after {before} deletions, and after more again"
                );
            }
            yield_now().await;
        }
    }));
    all(tasks).await;
}

/// A page is one instant however long it is, though a store may have to fetch it in parts.
pub(in crate::testkit) async fn a_long_page_is_one_instant(handles: Handles) {
    let limit = handles.one().limits().page_items.min(1000);
    let place = |at: usize| key(&format!("page/{at:04}"));
    let stamp = move |stamp: u64| {
        let places = (0..limit).step_by(limit / 8).chain([limit - 1]);
        places.fold(Commit::new(), |all, at| all.set(place(at), number(stamp)))
    };
    fill(handles.one(), (0..limit).map(|at| Write::Set(place(at), number(0)))).await;
    let done = Arc::new(AtomicBool::new(false));
    let (store, over) = (Arc::clone(handles.nth(1)), Arc::clone(&done));
    let stamping = tokio::spawn(async move {
        for count in 1.. {
            if over.load(Ordering::SeqCst) {
                break;
            }
            commit(&store, stamp(count)).await;
            yield_now().await;
        }
    });
    let (first, last) = (place(0), place(limit - 1));
    for _ in 0..RACES {
        let page = handles.nth(2).scan(&Range::Prefix(key("page/")), limit).await.unwrap();
        assert_eq!(page.items.len(), limit, "these items are small enough for one page");
        let stamp_of =
            |wanted: &Key| page.items.iter().find(|item| item.key == *wanted).map(|item| &item.value);
        assert_eq!(stamp_of(&first), stamp_of(&last), "one commit stamps both ends of the page");
        yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    stamping.await.unwrap();
}

/// Of many who want to make a key that is not there, one does, and its value is the one that stays.
pub(in crate::testkit) async fn one_of_many_creators_wins(handles: Handles) {
    for round in 0..20 {
        let tasks = (0..8).map(|task| {
            let store = Arc::clone(handles.nth(task));
            let work =
                Commit::new().check(Check::Absent(nth("k", round))).set(nth("k", round), number(task as u64));
            async move { attempt(&store, work).await }
        });
        let won: Vec<u64> =
            (0..).zip(all(tasks).await).filter_map(|(task, won)| won.then_some(task)).collect();
        assert_eq!(won.len(), 1, "round {round}: these tasks made the key: {won:?}");
        assert_eq!(
            value(handles.nth(round), &nth("k", round)).await.unwrap(),
            number(won[0]),
            "round {round}"
        );
    }
}

/// What one handle acknowledged is seen by a read that any other starts then, in keys, ranges and lists.
pub(in crate::testkit) async fn what_is_acknowledged_is_seen_everywhere(handles: Handles) {
    for round in 0..40 {
        let work = Commit::new().set(key("k"), number(round as u64)).append(key("l"), number(round as u64));
        commit(handles.nth(round), work).await;
        for other in 1..4 {
            let questions = vec![
                Read::Key(key("k")),
                Read::Range { range: Range::Prefix(key("k")), limit: 2 },
                Read::List { list: key("l"), after: None, limit: 100 },
            ];
            let seen = handles.nth(round + other).read(questions).await.unwrap();
            assert_eq!(number_in(&seen, 0), round as u64, "round {round}: the key is stale");
            assert_eq!(
                to_number(&seen.range(1).items[0].value),
                round as u64,
                "round {round}: the range is stale"
            );
            assert_eq!(seen.list(2).items.len(), round + 1, "round {round}: the list is stale");
        }
    }
}

/// What one handle acknowledged is seen by the checks of a commit that any other makes then.
pub(in crate::testkit) async fn what_is_acknowledged_is_checked_everywhere(handles: Handles) {
    for round in 0..20 {
        let (made, filled) = (nth("k", round), nth("l", round));
        let work = Commit::new().set(made.clone(), "v").append(filled.clone(), "e");
        let version = commit(handles.nth(round), work).await.version;
        let other = handles.nth(round + 1);
        conflict(other, Commit::new().check(Check::Absent(made.clone()))).await;
        conflict(other, Commit::new().check(Check::Empty(filled))).await;
        commit(other, Commit::new().check(Check::Version(made.clone(), version)).delete(made.clone())).await;
        conflict(handles.nth(round), Commit::new().check(Check::Present(made))).await;
    }
}

/// A snapshot never shows half a commit: its keys, ranges and lists agree.
pub(in crate::testkit) async fn a_snapshot_never_shows_half_a_commit(handles: Handles) {
    let done = Arc::new(AtomicBool::new(false));
    let step = |count| {
        let value = number(count);
        Commit::new().set(key("p/a"), value.clone()).set(key("p/b"), value.clone()).append(key("l"), value)
    };
    commit(handles.one(), step(1)).await;
    let readers = (1..3).map(|reader| {
        let (store, done) = (Arc::clone(handles.nth(reader)), Arc::clone(&done));
        async move {
            while !done.load(Ordering::SeqCst) {
                let questions = vec![
                    Read::Key(key("p/b")),
                    Read::List { list: key("l"), after: None, limit: 100 },
                    Read::Range { range: Range::Prefix(key("p/")), limit: 2 },
                    Read::Key(key("p/a")),
                ];
                let seen = store.read(questions).await.unwrap();
                let count = number_in(&seen, 0);
                assert_eq!(number_in(&seen, 3), count, "two keys differ in {seen:?}");
                assert_eq!(seen.list(1).items.len() as u64, count, "the list differs in {seen:?}");
                for item in &seen.range(2).items {
                    assert_eq!(to_number(&item.value), count, "the range differs in {seen:?}");
                    assert_eq!(item.version, seen.key(0).unwrap().version, "versions differ in {seen:?}");
                }
                yield_now().await;
            }
        }
    });
    let reading = tokio::spawn(all(readers.collect::<Vec<_>>()));
    for count in 2..=80 {
        commit(handles.one(), step(count)).await;
        yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    reading.await.expect("every snapshot is whole");
}

/// Reads never go back: none shows less than one that had finished before it began, on any handle.
pub(in crate::testkit) async fn reads_never_go_back(handles: Handles) {
    let (highest, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let readers = (0..4).map(|reader| {
        let store = Arc::clone(handles.nth(reader));
        let (highest, done) = (Arc::clone(&highest), Arc::clone(&done));
        async move {
            while !done.load(Ordering::SeqCst) {
                let floor = highest.load(Ordering::SeqCst);
                let seen = value(&store, &key("k")).await.map_or(0, |found| to_number(&found));
                assert!(seen >= floor, "{store} showed {seen} when {floor} had already been read");
                highest.fetch_max(seen, Ordering::SeqCst);
                yield_now().await;
            }
        }
    });
    let reading = tokio::spawn(all(readers.collect::<Vec<_>>()));
    for count in 1..=80 {
        commit(handles.nth(0), Commit::new().set(key("k"), number(count))).await;
        yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    reading.await.expect("reads only go forward");
}

/// Two readers agree on which of two independent writes came first.
pub(in crate::testkit) async fn readers_agree_on_the_order_of_writes(handles: Handles) {
    for round in 0..RACES {
        let names = [nth("x", round), nth("y", round)];
        let start = Arc::new(Barrier::new(4));
        let tasks = (0..4).map(|task| {
            let (store, start, names) = (Arc::clone(handles.nth(task)), Arc::clone(&start), names.clone());
            async move {
                start.wait().await;
                match names.get(task) {
                    Some(mine) => commit(&store, Commit::new().set(mine.clone(), "v")).await,
                    None => {
                        let seen = store.read(names.into_iter().map(Read::Key).collect()).await.unwrap();
                        return Some([seen.key(0).is_some(), seen.key(1).is_some()]);
                    }
                };
                None
            }
        });
        let seen: Vec<[bool; 2]> = all(tasks).await.into_iter().flatten().collect();
        let forked = seen.contains(&[true, false]) && seen.contains(&[false, true]);
        assert!(!forked, "round {round}: one reader saw only the first write, another only the second");
    }
}

/// Commits that have no key in common never fail each other's checks, neighbours though their keys are.
pub(in crate::testkit) async fn different_keys_never_conflict(handles: Handles) {
    let tasks = (0..8).map(|task| {
        let (store, mine) = (Arc::clone(handles.nth(task)), nth("k", task));
        async move {
            for _ in 0..6 {
                let make = Commit::new().check(Check::Absent(mine.clone())).check(Check::Empty(mine.clone()));
                let version =
                    commit(&store, make.set(mine.clone(), "v").append(mine.clone(), "e")).await.version;
                let change =
                    Commit::new().check(Check::Version(mine.clone(), version)).set(mine.clone(), "w");
                commit(&store, change).await;
                let unmake = Commit::new().check(Check::Present(mine.clone()));
                commit(&store, unmake.delete_range(Range::Key(mine.clone()))).await;
            }
        }
    });
    all(tasks).await;
}

/// An entry that was appended: what it is, and how many were acknowledged when it was submitted.
#[derive(Clone, Copy)]
struct Appended {
    list: usize,
    number: u64,
    acknowledged_before: usize,
}

fn numbers(snapshot: &Snapshot, list: usize) -> Vec<u64> {
    snapshot.list(list).items.iter().map(|entry| to_number(&entry.value)).collect()
}

/// Every acknowledged entry is in every later snapshot of its list, and sorts ahead of those submitted after it.
pub(in crate::testkit) async fn appends_keep_the_order_of_time(handles: Handles) {
    const LISTS: usize = 3;
    let questions: Vec<Read> =
        (0..LISTS).map(|list| Read::List { list: nth("l", list), after: None, limit: 100 }).collect();
    let acknowledged = Arc::new(Mutex::new(Vec::<Appended>::new()));
    let tasks = (0..6).map(|task: usize| {
        let (writer, reader) = (Arc::clone(handles.nth(task)), Arc::clone(handles.nth(task + 1)));
        let (acknowledged, questions) = (Arc::clone(&acknowledged), questions.clone());
        async move {
            for step in 0..16 {
                let (list, value) = ((task + step) % LISTS, (task * 100 + step) as u64);
                let acknowledged_before = acknowledged.lock().len();
                commit(&writer, Commit::new().append(nth("l", list), number(value))).await;
                acknowledged.lock().push(Appended { list, number: value, acknowledged_before });
                let expected = acknowledged.lock().clone();
                let seen = reader.read(questions.clone()).await.unwrap();
                for entry in expected {
                    let there = numbers(&seen, entry.list);
                    assert!(there.contains(&entry.number), "{reader} lacks {} in {there:?}", entry.number);
                }
            }
        }
    });
    all(tasks).await;
    let last = handles.one().read(questions).await.unwrap();
    let acknowledged = acknowledged.lock().clone();
    for list in 0..LISTS {
        let order = numbers(&last, list);
        let place: HashMap<u64, usize> = order.iter().enumerate().map(|(at, number)| (*number, at)).collect();
        for late in acknowledged.iter().filter(|entry| entry.list == list) {
            let earlier = acknowledged[..late.acknowledged_before].iter().filter(|entry| entry.list == list);
            for early in earlier {
                let sorted = place[&early.number] < place[&late.number];
                assert!(sorted, "{} was there before {} was sent, but: {order:?}", early.number, late.number);
            }
        }
    }
}
