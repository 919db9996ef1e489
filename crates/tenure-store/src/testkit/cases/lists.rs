//! Lists: order, removal, paging, and what an empty one is. Obligation 7.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;

use crate::{
    Check, Commit, EntryId, Key, Range, Read, Store, StoreExt as _, Write,
    testkit::{HANDLES, Handles, tools::*},
};

/// How many entries each producer appends.
const ENTRIES: u64 = 40;

/// How many entries a consumer takes at once.
const TAKEN_AT_ONCE: usize = 16;

fn appends(list: &Key, values: impl IntoIterator<Item = u64>) -> Vec<Write> {
    values.into_iter().map(|value| Write::Append(list.clone(), number(value))).collect()
}

async fn numbers(store: &Arc<dyn Store>, of: &Key) -> Vec<u64> {
    list(store, of).await.iter().map(|value| to_number(value)).collect()
}

/// Entries of one commit keep their order.
pub(in crate::testkit) async fn entries_of_one_commit_keep_their_order(handles: Handles) {
    let (store, first, second) = (handles.one(), key("first"), key("second"));
    let mut change = Commit::new();
    for value in 0..50 {
        change = change.append(first.clone(), number(value)).append(second.clone(), number(100 - value));
    }
    commit(store, change).await;
    assert_eq!(numbers(store, &first).await, (0..50).collect::<Vec<_>>());
    assert_eq!(numbers(store, &second).await, (51..=100).rev().collect::<Vec<_>>());
}

/// An entry sorts behind all that were acknowledged before it was submitted, through whatever handle.
pub(in crate::testkit) async fn an_entry_sorts_behind_those_acknowledged_before(handles: Handles) {
    let queue = key("queue");
    for value in 0..40 {
        let store = handles.nth(usize::try_from(value).unwrap());
        commit(store, Commit::new().append(queue.clone(), number(value))).await;
    }
    assert_eq!(numbers(handles.one(), &queue).await, (0..40).collect::<Vec<_>>());
}

/// Concurrent producers and a consumer at the head: nothing is skipped, nothing doubled, each producer's order kept.
pub(in crate::testkit) async fn a_consumer_at_the_head_takes_every_entry_once(handles: Handles) {
    let queue = key("queue");
    let end = number(u64::MAX);
    let consumer = tokio::spawn(take_until(Arc::clone(handles.one()), queue.clone(), end.clone()));
    let producers: Vec<_> = (0..HANDLES)
        .map(|producer| produce(Arc::clone(handles.nth(producer)), queue.clone(), producer as u64))
        .collect();
    all(producers).await;
    // It sorts behind everything that was acknowledged, so whoever takes it has taken the rest.
    commit(handles.nth(1), Commit::new().append(queue.clone(), end)).await;

    let mut taken: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for value in consumer.await.unwrap() {
        let value = to_number(&value);
        taken.entry(value / 1000).or_default().push(value % 1000);
    }
    assert_eq!(taken.len(), HANDLES);
    for (producer, values) in taken {
        assert_eq!(values, (0..ENTRIES).collect::<Vec<_>>(), "of producer {producer}");
    }
    assert_eq!(list(handles.nth(2), &queue).await, Vec::<Bytes>::new());
}

async fn produce(store: Arc<dyn Store>, queue: Key, producer: u64) {
    for value in 0..ENTRIES {
        commit(&store, Commit::new().append(queue.clone(), number(producer * 1000 + value))).await;
    }
}

/// Takes from the head until `end` comes; returns what came before it.
async fn take_until(store: Arc<dyn Store>, queue: Key, end: Bytes) -> Vec<Bytes> {
    let mut watch = store.watch(Range::Key(queue.clone()));
    let mut taken = Vec::new();
    while taken.last() != Some(&end) {
        let head = store.entries(&queue, TAKEN_AT_ONCE).await.unwrap().items;
        if head.is_empty() {
            woken(&mut watch).await;
        } else {
            let ids = head.iter().map(|entry| Write::Remove(queue.clone(), entry.id.clone()));
            fill(&store, ids).await;
            taken.extend(head.into_iter().map(|entry| entry.value));
            assert!(
                taken.len() as u64 <= HANDLES as u64 * ENTRIES + 1,
                "more was taken than was ever appended"
            );
        }
    }
    taken.pop();
    taken
}

/// Removal takes out that entry, and no other.
pub(in crate::testkit) async fn removal_takes_one_entry_and_no_other(handles: Handles) {
    let (store, queue) = (handles.one(), key("queue"));
    fill(store, appends(&queue, 0..6)).await;
    let ids = ids(store, &queue).await;
    for (taken, rest) in [(2, vec![0, 1, 3, 4, 5]), (0, vec![1, 3, 4, 5]), (5, vec![1, 3, 4])] {
        commit(store, Commit::new().remove(queue.clone(), ids[taken].clone())).await;
        assert_eq!(numbers(handles.nth(1), &queue).await, rest);
    }
    let rest =
        [1, 3, 4].into_iter().fold(Commit::new(), |all, at| all.remove(queue.clone(), ids[at].clone()));
    commit(store, rest).await;
    assert_eq!(numbers(store, &queue).await, Vec::<u64>::new());
}

/// Removing an entry that is not there is no error, and changes nothing.
pub(in crate::testkit) async fn removing_what_is_not_there_changes_nothing(handles: Handles) {
    let (store, queue, other) = (handles.one(), key("queue"), key("other"));
    fill(store, appends(&queue, 0..3)).await;
    fill(store, appends(&other, 0..3)).await;
    let own = ids(store, &queue).await;
    let foreign = ids(store, &other).await;
    commit(store, Commit::new().remove(queue.clone(), own[1].clone())).await;
    commit(store, Commit::new().remove(queue.clone(), own[1].clone())).await;
    commit(store, Commit::new().remove(key("nowhere"), own[0].clone())).await;
    if !own.contains(&foreign[0]) {
        commit(store, Commit::new().remove(queue.clone(), foreign[0].clone())).await;
    }
    assert_eq!(numbers(store, &queue).await, vec![0, 2]);
    assert_eq!(numbers(store, &other).await, vec![0, 1, 2]);
}

/// Bytes that no id of this store has name no entry: removing it is no error, and changes nothing.
pub(in crate::testkit) async fn an_id_of_a_strange_form_names_no_entry(handles: Handles) {
    let (store, queue) = (handles.one(), key("queue"));
    fill(store, appends(&queue, 0..3)).await;
    let own = ids(store, &queue).await[0].as_bytes().to_vec();
    let strange = [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 20, 24, 32, 33, EntryId::BYTES_MAX]
        .into_iter()
        .flat_map(|length| [vec![0xFF; length], vec![b'\''; length]])
        .chain([own[..own.len() - 1].to_vec(), [own.as_slice(), &[0]].concat()]);
    for id in strange.filter(|id| *id != own) {
        commit(store, Commit::new().remove(queue.clone(), EntryId::new(id))).await;
    }
    assert_eq!(numbers(store, &queue).await, vec![0, 1, 2]);
}

/// Ids are never used again, not even when the list was emptied or deleted.
pub(in crate::testkit) async fn ids_are_never_used_again(handles: Handles) {
    let queue = key("queue");
    let mut seen: Vec<EntryId> = Vec::new();
    for round in 0..12 {
        let store = handles.nth(round);
        fill(store, appends(&queue, 0..3)).await;
        let fresh = ids(store, &queue).await;
        assert_eq!(fresh.len(), 3, "the list was empty before round {round}");
        assert!(seen.last() < fresh.first(), "round {round}: {fresh:?} came after {seen:?}");
        let emptied = if round % 2 == 0 {
            Commit::new().delete_range(Range::Key(queue.clone()))
        } else {
            fresh.iter().fold(Commit::new(), |all, id| all.remove(queue.clone(), id.clone()))
        };
        commit(handles.nth(round + 1), emptied).await;
        seen.extend(fresh);
    }
}

/// Ids sort as the entries of the list do.
pub(in crate::testkit) async fn ids_sort_as_the_list_does(handles: Handles) {
    let queue = key("queue");
    for round in 0..10_u64 {
        let store = handles.nth(usize::try_from(round).unwrap());
        fill(store, appends(&queue, round * 30..(round + 1) * 30)).await;
    }
    let ids = ids(handles.one(), &queue).await;
    assert_eq!(ids.len(), 300);
    assert!(ids.is_sorted_by(|earlier, later| earlier < later), "{ids:?}");
}

/// Paging with `after` visits every entry once, also when the entry that it names is gone.
pub(in crate::testkit) async fn pages_of_a_list_visit_every_entry_once(handles: Handles) {
    let (store, queue) = (handles.one(), key("queue"));
    fill(store, appends(&queue, 0..25)).await;
    for limit in [1, 4, 5, 24, 25, 26] {
        let mut visited = Vec::new();
        let mut after = None;
        loop {
            let page = page(store, &queue, after.as_ref(), limit).await;
            assert!(page.items.len() <= limit, "{} entries in a page of {limit}", page.items.len());
            visited.extend(page.items.iter().map(|entry| to_number(&entry.value)));
            assert!(visited.len() <= 25, "in pages of {limit}: {visited:?}");
            after = page.items.last().map(|entry| entry.id.clone());
            if !page.more {
                break;
            }
        }
        assert_eq!(visited, (0..25).collect::<Vec<_>>(), "in pages of {limit}");
    }
    let ids = ids(store, &queue).await;
    commit(store, Commit::new().remove(queue.clone(), ids[9].clone())).await;
    let behind = page(store, &queue, Some(&ids[9]), 1).await;
    assert_eq!(behind.items[0].id, ids[10]);
    assert!(behind.more);
    assert_eq!(page(store, &queue, Some(&ids[24]), 1).await.items, vec![]);
}

/// `more` is true just when there is more behind the page.
pub(in crate::testkit) async fn a_page_of_a_list_says_whether_there_is_more(handles: Handles) {
    let (store, queue) = (handles.one(), key("queue"));
    assert!(!page(store, &queue, None, 1).await.more, "there is no list");
    fill(store, appends(&queue, 0..4)).await;
    fill(store, appends(&key("queue2"), 0..4)).await;
    for (limit, count, more) in [(1, 1, true), (3, 3, true), (4, 4, false), (5, 4, false)] {
        let page = page(store, &queue, None, limit).await;
        assert_eq!((page.items.len(), page.more), (count, more), "in a page of {limit}");
    }
    let first = ids(store, &queue).await[0].clone();
    for (limit, more) in [(2, true), (3, false)] {
        let page = page(store, &queue, Some(&first), limit).await;
        assert_eq!((page.items.len(), page.more), (limit, more), "behind the first, in a page of {limit}");
    }
}

/// A key and a list of one name are two things: no write of one touches the other.
pub(in crate::testkit) async fn a_key_and_a_list_of_one_name_are_apart(handles: Handles) {
    let (store, name) = (handles.one(), key("name"));
    commit(store, Commit::new().set(name.clone(), "v").append(name.clone(), number(1))).await;
    let set = store.get(&name).await.unwrap().unwrap();
    commit(store, Commit::new().append(name.clone(), number(2))).await;
    let first = ids(store, &name).await[0].clone();
    commit(store, Commit::new().remove(name.clone(), first)).await;
    assert_eq!(store.get(&name).await.unwrap(), Some(set), "after changes of the list");
    commit(store, Commit::new().set(name.clone(), "w")).await;
    commit(store, Commit::new().delete(name.clone())).await;
    assert_eq!(numbers(store, &name).await, vec![2], "after changes of the key");
    assert_eq!(value(store, &name).await, None);
}

/// `Present` and `Absent` speak of the key of that name, `Empty` of the list.
pub(in crate::testkit) async fn checks_of_a_key_and_of_a_list_are_apart(handles: Handles) {
    let (store, a_key, a_list) = (handles.one(), key("key"), key("list"));
    commit(store, Commit::new().set(a_key.clone(), "v").append(a_list.clone(), number(1))).await;
    let hold = [Check::Present(a_key.clone()), Check::Empty(a_key.clone()), Check::Absent(a_list.clone())];
    commit(store, Commit { checks: hold.to_vec(), writes: Vec::new() }).await;
    for fails in [Check::Absent(a_key), Check::Present(a_list.clone()), Check::Empty(a_list)] {
        let failed = conflict(store, Commit::new().check(fails.clone()).set(key("no"), "v")).await;
        assert_eq!(failed, (0, fails.key().clone()), "{fails:?}");
    }
    assert_eq!(value(store, &key("no")).await, None);
}

/// `Empty` holds before the first append, fails while there is an entry, and holds again when the last is gone.
pub(in crate::testkit) async fn empty_holds_while_there_is_no_entry(handles: Handles) {
    let (store, queue) = (handles.one(), key("queue"));
    let if_empty =
        |value: &'static str| Commit::new().check(Check::Empty(queue.clone())).set(key("k"), value);
    commit(store, if_empty("before")).await;
    fill(store, appends(&queue, 0..2)).await;
    let ids = ids(store, &queue).await;
    for id in ids {
        assert_eq!(conflict(handles.nth(1), if_empty("during")).await, (0, queue.clone()));
        commit(store, Commit::new().remove(queue.clone(), id)).await;
    }
    assert_eq!(value(store, &key("k")).await.unwrap(), "before");
    commit(handles.nth(1), if_empty("after")).await;
    let append_if_empty = Commit::new().check(Check::Empty(queue.clone())).append(queue.clone(), number(1));
    commit(store, append_if_empty.clone()).await;
    conflict(store, append_if_empty).await;
    assert_eq!(value(store, &key("k")).await.unwrap(), "after");
}

/// No check for `Empty` holds that was submitted after an append was acknowledged.
pub(in crate::testkit) async fn empty_fails_once_an_append_was_acknowledged(handles: Handles) {
    for round in 0..20 {
        let queue = key(&format!("queue{round}"));
        let acknowledged = Arc::new(AtomicBool::new(false));
        let producer = tokio::spawn({
            let (store, queue) = (Arc::clone(handles.nth(round)), queue.clone());
            let acknowledged = Arc::clone(&acknowledged);
            async move {
                commit(&store, Commit::new().append(queue, number(1))).await;
                acknowledged.store(true, Ordering::SeqCst);
            }
        });
        let inline = Commit::new().check(Check::Empty(queue)).set(key("state"), number(round as u64));
        loop {
            let late = acknowledged.load(Ordering::SeqCst);
            let made = attempt(handles.nth(round + 1), inline.clone()).await;
            assert!(!(late && made), "round {round}: a list with an acknowledged entry counted as empty");
            if late {
                break;
            }
            tokio::task::yield_now().await;
        }
        producer.await.unwrap();
    }
}

/// An entry can go from the head to the tail in one commit, and then has another id.
pub(in crate::testkit) async fn an_entry_moves_to_the_tail_in_one_commit(handles: Handles) {
    let (store, queue) = (handles.one(), key("queue"));
    fill(store, appends(&queue, 0..3)).await;
    for round in 0..6_u64 {
        let head = page(store, &queue, None, 1).await.items.remove(0);
        let requeue = Commit::new().append(queue.clone(), head.value).remove(queue.clone(), head.id.clone());
        commit(store, requeue).await;
        assert!(!ids(store, &queue).await.contains(&head.id), "round {round}: {:?} came back", head.id);
        let expected: Vec<u64> = (1..=3).map(|at| (round + at) % 3).collect();
        assert_eq!(numbers(handles.nth(1), &queue).await, expected, "round {round}");
    }
}

/// An entry that goes from one list to another in one commit is in one of them at every instant.
pub(in crate::testkit) async fn an_entry_that_changes_lists_is_always_in_one(handles: Handles) {
    let lists = [key("left"), key("right")];
    fill(handles.one(), appends(&lists[0], [7])).await;
    let mover = tokio::spawn({
        let (store, lists) = (Arc::clone(handles.nth(1)), lists.clone());
        async move {
            for round in 0..40 {
                let (from, to) = (&lists[round % 2], &lists[(round + 1) % 2]);
                let entry = page(&store, from, None, 1).await.items.remove(0);
                commit(&store, Commit::new().remove(from.clone(), entry.id).append(to.clone(), entry.value))
                    .await;
            }
        }
    });
    while !mover.is_finished() {
        let reads = lists.clone().map(|list| Read::List { list, after: None, limit: 2 });
        let snapshot = handles.nth(2).read(reads.to_vec()).await.unwrap();
        let counts = [snapshot.list(0).items.len(), snapshot.list(1).items.len()];
        assert_eq!(counts[0] + counts[1], 1, "{counts:?}");
        tokio::task::yield_now().await;
    }
    mover.await.unwrap();
}

/// Lists whose names begin one another do not mix.
pub(in crate::testkit) async fn lists_whose_names_begin_one_another_do_not_mix(handles: Handles) {
    let store = handles.one();
    let names: [&[u8]; 6] = [b"q", b"q\0", b"q\0\0", b"qq", b"q\xFF", b"Q"];
    let lists = names.map(|name| Key::new(name.to_vec()));
    let change = (0..3).flat_map(|_| lists.iter().enumerate());
    let change = change.map(|(value, list)| Write::Append(list.clone(), number(value as u64)));
    fill(store, change).await;
    for (value, list) in lists.iter().enumerate() {
        assert_eq!(numbers(store, list).await, vec![value as u64; 3], "{list}");
    }
    let first = ids(store, &lists[0]).await;
    fill(store, first.into_iter().map(|id| Write::Remove(lists[0].clone(), id))).await;
    commit(store, Commit::new().check(Check::Empty(lists[0].clone()))).await;
    for list in &lists[1..] {
        assert_eq!(numbers(store, list).await.len(), 3, "{list}");
        conflict(store, Commit::new().check(Check::Empty(list.clone()))).await;
    }
}

/// An entry holds any bytes, also none.
pub(in crate::testkit) async fn an_entry_holds_any_bytes(handles: Handles) {
    let (store, queue) = (handles.one(), key("queue"));
    let every: Vec<u8> = (0..=255).collect();
    let values = [vec![], vec![0], vec![0xFF; 3], every, b"'; DROP TABLE entries; --".to_vec(), vec![]];
    let values = values.map(Bytes::from).to_vec();
    fill(store, values.iter().map(|value| Write::Append(queue.clone(), value.clone()))).await;
    assert_eq!(list(handles.nth(1), &queue).await, values);
    conflict(store, Commit::new().check(Check::Empty(queue))).await;
}
