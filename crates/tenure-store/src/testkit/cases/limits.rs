//! Limits: each can be reached, one more is refused, and nothing of it happens. Obligation 10.

use std::sync::Arc;

use crate::{
    Check, Commit, CommitError, EntryId, Key, Limits, Range, Read, Store, StoreError, StoreExt as _, Version,
    Weigh, Write,
    testkit::{Handles, tools::*},
};

fn long(length: usize) -> Key {
    Key::new(vec![b'k'; length])
}

fn id() -> EntryId {
    EntryId::new("id")
}

/// What every request does with a key.
fn commits_with(name: &Key) -> Vec<Commit> {
    let name = || name.clone();
    vec![
        Commit::new().set(name(), "v"),
        Commit::new().append(name(), "v"),
        Commit::new().check(Check::Absent(name())),
        Commit::new().delete(name()),
        Commit::new().remove(name(), id()),
        Commit::new().delete_range(Range::Key(name())),
        Commit::new().check(Check::Version(name(), Version(1))),
        Commit::new().check(Check::Present(name())),
        Commit::new().check(Check::Empty(name())),
    ]
}

fn reads_with(name: &Key) -> [Read; 3] {
    [
        Read::Key(name.clone()),
        Read::List { list: name.clone(), after: None, limit: 1 },
        Read::Range { range: Range::Key(name.clone()), limit: 1 },
    ]
}

/// Makes a commit that must be refused for what it is, and looks whether it left anything behind.
async fn refused(store: &Arc<dyn Store>, commit: Commit) -> StoreError {
    let with_witness = commit.clone().set(key("witness"), "v").append(key("witness"), "v");
    let mut errors = Vec::new();
    for commit in [commit, with_witness] {
        match store.commit(commit).await {
            Err(CommitError::Failed(error)) => errors.push(error),
            other => panic!("{store} should have refused a commit, but: {other:?}"),
        }
    }
    assert_eq!(value(store, &key("witness")).await, None, "a refused commit wrote a key");
    assert!(list(store, &key("witness")).await.is_empty(), "a refused commit wrote an entry");
    errors.remove(0)
}

async fn refused_read(store: &Arc<dyn Store>, reads: Vec<Read>) -> StoreError {
    store.read(reads).await.expect_err("a read that breaks a limit")
}

fn is_invalid(error: &StoreError) {
    assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
}

fn is_too_large(error: &StoreError, value: usize, limit: usize) {
    let text = error.to_string();
    assert!(matches!(error, StoreError::TooLarge(_)), "{error:?}");
    assert!(text.contains(&value.to_string()), "{text:?} does not name the value {value}");
    assert!(text.contains(&limit.to_string()), "{text:?} does not name the limit {limit}");
}

/// The longest key does for everything that takes a key.
pub(in crate::testkit) async fn the_longest_key_is_taken_everywhere(handles: Handles) {
    let store = handles.one();
    let longest = long(store.limits().key_bytes);
    let [set, append, absent, .., present, empty] = <[Commit; 9]>::try_from(commits_with(&longest)).unwrap();
    commit(store, absent.and(empty).and(set).and(append)).await;
    assert_eq!(value(store, &longest).await.unwrap(), "v");
    assert_eq!(list(store, &longest).await, ["v"]);
    for range in [Range::Key(longest.clone()), Range::Prefix(longest.clone())] {
        assert_eq!(keys(store, &range).await, std::slice::from_ref(&longest));
    }
    let id = ids(store, &longest).await.remove(0);
    commit(store, present.remove(longest.clone(), id).delete(longest.clone())).await;
    commit(store, Commit::new().delete_range(Range::Prefix(longest.clone()))).await;
    commit(store, Commit::new().check(Check::Absent(longest.clone())).check(Check::Empty(longest))).await;
}

/// A key that is one byte too long is refused wherever it stands.
pub(in crate::testkit) async fn a_key_that_is_too_long_is_refused(handles: Handles) {
    let store = handles.one();
    let limit = store.limits().key_bytes;
    let name = long(limit + 1);
    let ranges = [Range::Key(name.clone()), Range::Prefix(name.clone())];
    let deletions = ranges.clone().map(|range| Commit::new().delete_range(range));
    for commit in commits_with(&name).into_iter().chain(deletions) {
        is_too_large(&refused(store, commit).await, limit + 1, limit);
    }
    let scans = ranges.map(|range| Read::Range { range, limit: 1 });
    for read in reads_with(&name).into_iter().chain(scans) {
        is_too_large(&refused_read(store, vec![Read::Key(key("k")), read]).await, limit + 1, limit);
    }
}

/// The bound of a range may be one byte longer than any key, and no more.
pub(in crate::testkit) async fn the_bound_of_a_range_has_a_limit(handles: Handles) {
    let store = handles.one();
    let limit = Limits::KEY_BYTES_MAX + 1;
    let (longest, longer) = (long(limit), long(limit + 1));
    commit(store, Commit::new().set(key("k"), "v").set(key("l"), "v")).await;
    assert_eq!(keys(store, &between(longest.clone(), "z")).await, [key("l")]);
    assert_eq!(keys(store, &between("a", longest.clone())).await, [key("k")]);
    commit(store, Commit::new().delete_range(between(longest.clone(), "z"))).await;
    assert_eq!(keys(store, &Range::all()).await, [key("k")]);
    for range in [between(longer.clone(), "z"), between("a", longer)] {
        is_too_large(&refused(store, Commit::new().delete_range(range.clone())).await, limit + 1, limit);
        is_too_large(&refused_read(store, vec![Read::Range { range, limit: 1 }]).await, limit + 1, limit);
    }
}

/// An entry's id that is longer than any store gives is refused.
pub(in crate::testkit) async fn an_entry_id_that_is_too_long_is_refused(handles: Handles) {
    let (store, limit) = (handles.one(), EntryId::BYTES_MAX);
    let id = EntryId::new(vec![1; limit + 1]);
    is_too_large(&refused(store, Commit::new().remove(key("l"), id.clone())).await, limit + 1, limit);
    let read = Read::List { list: key("l"), after: Some(id), limit: 1 };
    is_too_large(&refused_read(store, vec![read]).await, limit + 1, limit);
}

/// A value that is one byte too long is refused.
pub(in crate::testkit) async fn a_value_that_is_too_long_is_refused(handles: Handles) {
    let store = handles.one();
    let limit = store.limits().value_bytes;
    commit(store, Commit::new().set(key("k"), vec![7; limit])).await;
    commit(store, Commit::new().append(key("l"), vec![7; limit])).await;
    let over = vec![8; limit + 1];
    is_too_large(&refused(store, Commit::new().set(key("k"), over.clone())).await, limit + 1, limit);
    is_too_large(&refused(store, Commit::new().append(key("l"), over)).await, limit + 1, limit);
    assert!(value(store, &key("k")).await.unwrap() == vec![7; limit]);
    assert_eq!(list(store, &key("l")).await.len(), 1);
}

/// A commit has as many checks and writes, together, as the limit says, and no more.
pub(in crate::testkit) async fn a_commit_of_too_many_operations_is_refused(handles: Handles) {
    let store = handles.one();
    let limit = store.limits().commit_operations;
    let name = |at: usize| key(&format!("k{at:06}"));
    let writes = |count: usize| (0..count).fold(Commit::new(), |all, at| all.set(name(at), "v"));
    let checks = |count: usize| (0..count).fold(Commit::new(), |all, at| all.check(Check::Absent(name(at))));
    for over in [writes(limit + 1), checks(limit + 1), checks(limit / 2).and(writes(limit - limit / 2 + 1))] {
        let error = store.commit(over).await.expect_err("one operation too many");
        let CommitError::Failed(error) = error else { panic!("{error:?}") };
        is_too_large(&error, limit + 1, limit);
    }
    assert_eq!(keys(store, &Range::all()).await, Vec::<Key>::new());
    commit(store, checks(limit / 2).and(writes(limit - limit / 2))).await;
    assert_eq!(keys(store, &Range::all()).await.len(), limit - limit / 2);
    commit(store, Commit::new().delete_range(Range::all())).await;
    commit(store, writes(limit)).await;
    assert_eq!(keys(store, &Range::all()).await.len(), limit);
}

/// A commit has as many bytes as the limit says, and no more.
pub(in crate::testkit) async fn a_commit_of_too_many_bytes_is_refused(handles: Handles) {
    let store = handles.one();
    let limits = store.limits();
    let limit = limits.commit_bytes;
    let error = store.commit(of_bytes(limits, limit + 1)).await.expect_err("one byte too many");
    let CommitError::Failed(error) = error else { panic!("{error:?}") };
    is_too_large(&error, limit + 1, limit);
    assert_eq!(keys(store, &Range::Prefix(key("k"))).await, Vec::<Key>::new());
    let full = of_bytes(limits, limit);
    let count = full.writes.len();
    commit(store, full).await;
    assert_eq!(keys(store, &Range::Prefix(key("k"))).await.len(), count);
}

/// A commit of just so many bytes of keys and values.
fn of_bytes(limits: Limits, bytes: usize) -> Commit {
    let count = bytes.div_ceil(limits.value_bytes / 2);
    assert!(count <= limits.commit_operations, "no commit can reach {bytes} bytes within {limits:?}");
    (0..count).fold(Commit::new(), |all, at| {
        let name = key(&format!("k{at:06}"));
        let share = bytes / count + usize::from(at < bytes % count);
        let value = vec![b'v'; share - name.len()];
        all.set(name, value)
    })
}

/// A read has as many questions as the limit says, and no more.
pub(in crate::testkit) async fn a_read_of_too_many_questions_is_refused(handles: Handles) {
    let store = handles.one();
    let limit = store.limits().read_questions;
    commit(store, Commit::new().set(key("k"), "v").append(key("k"), "v")).await;
    let questions = |count: usize| reads_with(&key("k")).into_iter().cycle().take(count).collect::<Vec<_>>();
    let answers = store.read(questions(limit)).await.unwrap().into_answers();
    assert_eq!(answers.len(), limit);
    is_too_large(&refused_read(store, questions(limit + 1)).await, limit + 1, limit);
}

/// A page of a range has as many items as the limit says, and no more.
pub(in crate::testkit) async fn a_page_of_too_many_items_is_refused(handles: Handles) {
    let store = handles.one();
    let limit = store.limits().page_items;
    fill(store, (0..=limit).map(|at| Write::Set(key(&format!("k{at:06}")), "".into()))).await;
    let page = store.scan(&Range::all(), limit).await.unwrap();
    assert_eq!((page.items.len(), page.more), (limit, true));
    let over = Read::Range { range: Range::all(), limit: limit + 1 };
    is_too_large(&refused_read(store, vec![over]).await, limit + 1, limit);
}

/// A page of a list has as many entries as the limit says, and no more.
pub(in crate::testkit) async fn a_page_of_too_many_entries_is_refused(handles: Handles) {
    let store = handles.one();
    let limit = store.limits().page_items;
    fill(store, (0..=limit).map(|_| Write::Append(key("l"), "".into()))).await;
    let page = store.entries(&key("l"), limit).await.unwrap();
    assert_eq!((page.items.len(), page.more), (limit, true));
    let over = Read::List { list: key("l"), after: None, limit: limit + 1 };
    is_too_large(&refused_read(store, vec![over]).await, limit + 1, limit);
}

/// A page that would have too many bytes ends before, says so, and the next goes on from there.
pub(in crate::testkit) async fn a_page_of_too_many_bytes_is_cut_short(handles: Handles) {
    let store = handles.one();
    let limits = store.limits();
    let value = vec![7; limits.value_bytes];
    let count = limits.page_bytes / value.len() + 2;
    for n in 0..count {
        commit(store, Commit::new().set(key(&format!("k{n:04}")), value.clone())).await;
        commit(store, Commit::new().append(key("l"), value.clone())).await;
    }
    let fits =
        |weight: usize, items: usize| assert!(items == 1 || weight <= limits.page_bytes, "{weight} bytes");
    let (mut range, mut seen, mut pages) = (Range::Prefix(key("k")), 0, 0);
    loop {
        let page = store.scan(&range, count).await.unwrap();
        fits(page.items.iter().map(Weigh::weigh).sum(), page.items.len());
        (seen, pages) = (seen + page.items.len(), pages + 1);
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        range = range.after(&last.key);
    }
    assert!(seen == count && pages > 1, "{seen} keys of {count} in {pages} pages");
    let (mut after, mut seen, mut pages) = (None, 0, 0);
    loop {
        let page = page(store, &key("l"), after.as_ref(), count).await;
        fits(page.items.iter().map(Weigh::weigh).sum(), page.items.len());
        (seen, pages) = (seen + page.items.len(), pages + 1);
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        after = Some(last.id.clone());
    }
    assert!(seen == count && pages > 1, "{seen} entries of {count} in {pages} pages");
}

/// A key without bytes is refused wherever it stands.
pub(in crate::testkit) async fn an_empty_key_is_refused(handles: Handles) {
    let store = handles.one();
    for commit in commits_with(&key("")) {
        is_invalid(&refused(store, commit).await);
    }
    for read in reads_with(&key("")) {
        is_invalid(&refused_read(store, vec![Read::Key(key("k")), read]).await);
    }
}

/// A page of no items is refused.
pub(in crate::testkit) async fn a_page_of_nothing_is_refused(handles: Handles) {
    let store = handles.one();
    let reads =
        [Read::Range { range: Range::all(), limit: 0 }, Read::List { list: key("l"), after: None, limit: 0 }];
    for read in reads {
        is_invalid(&refused_read(store, vec![read]).await);
    }
}

/// A commit whose writes meet is refused, since their order would matter.
pub(in crate::testkit) async fn writes_that_meet_are_refused(handles: Handles) {
    let store = handles.one();
    let name = || key("k");
    let ranges =
        [Range::Key(name()), Range::Prefix(key("k")), Range::all(), between("a", "z"), between("k", "k\0")];
    let mut meeting = vec![
        Commit::new().set(name(), "v").set(name(), "w"),
        Commit::new().set(name(), "v").delete(name()),
        Commit::new().delete(name()).delete(name()),
        Commit::new().remove(name(), id()).set(key("l"), "v").remove(name(), id()),
    ];
    for range in ranges {
        let deletion = || Commit::new().delete_range(range.clone());
        meeting.extend([
            deletion().set(name(), "v"),
            Commit::new().set(name(), "v").and(deletion()),
            deletion().delete(name()),
            deletion().append(name(), "v"),
            deletion().remove(name(), id()),
            deletion().and(deletion()),
            deletion().delete_range(Range::Prefix(name())),
            deletion().delete_range(between("a", "k\0")),
        ]);
    }
    for commit in meeting {
        is_invalid(&refused(store, commit).await);
    }
}

/// A commit whose writes come close and do not meet is made.
pub(in crate::testkit) async fn writes_that_do_not_meet_are_made(handles: Handles) {
    let store = handles.one();
    commit(store, Commit::new().set(key("d1"), "v").set(key("f"), "v").append(key("q"), "first")).await;
    let entry = ids(store, &key("q")).await.remove(0);
    let change = Commit::new()
        .check(Check::Absent(key("q")))
        .check(Check::Absent(key("q")))
        .set(key("q"), "v")
        .append(key("q"), "second")
        .append(key("q"), "third")
        .remove(key("q"), entry)
        .remove(key("q"), id())
        .delete_range(Range::Prefix(key("d")))
        .delete_range(between("e", "f"))
        .delete_range(between("f", "e"))
        .delete(key("f"));
    commit(store, change).await;
    assert_eq!(list(store, &key("q")).await, ["second", "third"]);
    assert_eq!(keys(store, &Range::all()).await, [key("q")]);
}
