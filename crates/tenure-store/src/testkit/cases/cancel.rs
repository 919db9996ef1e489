//! Dropped futures: a commit happens whole or not at all, and the store goes on. The cancel safety of every request.

use std::{future::poll_fn, sync::Arc, task::Poll};

use crate::{
    Check, Commit, CommitError, Conflict, Range, Read, Receipt, Store, StoreExt as _,
    testkit::{Handles, tools::*},
};

/// After how many polls a future is dropped, at most. Few stores need more for a whole commit.
const POLLS: usize = 16;

/// Drops `future` after this many polls, each made when it asked for it, if it has not ended by then.
async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A commit in three places.
fn whole(name: &str) -> Commit {
    Commit::new()
        .set(key(&format!("{name}/first")), name.to_owned())
        .append(key(&format!("{name}/list")), name.to_owned())
        .set(key(&format!("{name}/second")), name.to_owned())
}

/// Whether the commit of this name happened; that it did not happen in part.
async fn happened(store: &Arc<dyn Store>, name: &str) -> bool {
    let list = Read::List { list: key(&format!("{name}/list")), after: None, limit: 2 };
    let reads =
        vec![Read::Key(key(&format!("{name}/first"))), list, Read::Key(key(&format!("{name}/second")))];
    let found = store.read(reads).await.unwrap();
    let counts =
        [usize::from(found.key(0).is_some()), found.list(1).items.len(), usize::from(found.key(2).is_some())];
    assert!(counts == [0; 3] || counts == [1; 3], "{name} happened in part: {counts:?}");
    counts == [1; 3]
}

/// What an answer says about the commit, if there was one and it says anything.
fn told(answer: Option<Result<Receipt, CommitError>>) -> Option<bool> {
    match answer {
        None => None,
        Some(Ok(_)) => Some(true),
        Some(Err(CommitError::Conflict(Conflict::Contention))) => Some(false),
        Some(Err(error)) => panic!("{error}"),
    }
}

/// A commit dropped at any point happens whole or not at all.
pub(in crate::testkit) async fn a_dropped_commit_is_whole_or_absent(handles: Handles) {
    let store = handles.one();
    for round in 0..4 {
        for polls in 0..POLLS {
            let name = format!("{round}-{polls}");
            let answer = told(dropped_after(polls, store.commit(whole(&name))).await);
            let happened = happened(handles.nth(round), &name).await;
            assert!(answer.is_none_or(|told| told == happened), "{name}: told {answer:?}, found {happened}");
        }
    }
    commit(store, whole("afterwards")).await;
    for round in 0..4 {
        for polls in 0..POLLS {
            happened(handles.nth(1), &format!("{round}-{polls}")).await;
        }
    }
    assert!(happened(handles.nth(1), "afterwards").await);
}

/// A dropped commit that happened happened once.
pub(in crate::testkit) async fn a_dropped_commit_happens_at_most_once(handles: Handles) {
    let store = handles.one();
    for polls in 0..POLLS {
        dropped_after(polls, store.commit(Commit::new().append(key("list"), number(polls as u64)))).await;
    }
    commit(store, Commit::new().append(key("list"), number(u64::MAX))).await;
    let mut values = list(handles.nth(1), &key("list")).await;
    let count = values.len();
    values.sort();
    values.dedup();
    assert_eq!(values.len(), count, "an entry was appended twice");
}

/// A dropped commit does not happen if its check fails.
pub(in crate::testkit) async fn a_dropped_commit_keeps_its_checks(handles: Handles) {
    let store = handles.one();
    commit(store, Commit::new().set(key("taken"), "v")).await;
    for polls in 0..POLLS {
        let never = whole("never").check(Check::Absent(key("taken")));
        let answer = dropped_after(polls, store.commit(never)).await;
        assert!(!matches!(answer, Some(Ok(_))), "after {polls} polls: {answer:?}");
        assert!(!happened(handles.nth(polls), "never").await, "after {polls} polls");
    }
    commit(store, whole("afterwards")).await;
    assert!(!happened(store, "never").await);
}

/// A read dropped at any point harms nobody.
pub(in crate::testkit) async fn a_dropped_read_harms_nobody(handles: Handles) {
    commit(handles.one(), whole("before")).await;
    for polls in 0..POLLS {
        let store = handles.nth(polls);
        let reads = vec![Read::Range { range: Range::all(), limit: 10 }, Read::Key(key("before/first"))];
        if let Some(found) = dropped_after(polls, store.read(reads)).await {
            assert_eq!(found.unwrap().range(0).items.len(), 2);
        }
        assert!(happened(store, "before").await);
    }
    commit(handles.one(), whole("afterwards")).await;
    assert!(happened(handles.nth(1), "afterwards").await);
}

/// Commits dropped all around do no harm to those that are waited for.
pub(in crate::testkit) async fn neighbours_of_dropped_commits_are_made(handles: Handles) {
    let names: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
    let storm = names.iter().cloned().enumerate().map(|(at, name)| {
        let store = Arc::clone(handles.nth(at));
        async move {
            match at % 4 {
                0 => drop(commit(&store, whole(&name)).await),
                1 => drop(dropped_after(at / 4 % 3, store.scan(&Range::all(), 10)).await),
                _ => drop(dropped_after(at / 4 % 3, store.commit(whole(&name))).await),
            }
        }
    });
    all(storm.collect::<Vec<_>>()).await;
    commit(handles.one(), whole("afterwards")).await;
    for (at, name) in names.iter().enumerate() {
        let happened = happened(handles.nth(at + 1), name).await;
        assert!(happened || at % 4 != 0, "{name} was acknowledged, and is not there");
    }
    assert!(happened(handles.nth(1), "afterwards").await);
}

/// Tasks that are ended from outside, in the middle of their requests, leave nothing half done.
pub(in crate::testkit) async fn tasks_ended_from_outside_leave_nothing_half_done(handles: Handles) {
    let names: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
    let tasks: Vec<_> = names
        .iter()
        .cloned()
        .enumerate()
        .map(|(at, name)| {
            let store = Arc::clone(handles.nth(at));
            tokio::spawn(async move {
                let _ = store.scan(&Range::all(), 10).await;
                let _ = store.commit(whole(&name)).await;
                let _ = store.scan(&Range::all(), 10).await;
            })
        })
        .collect();
    // Not to order anything: so that the tasks are ended at many different points.
    commit(handles.one(), Commit::new().set(key("k"), "v")).await;
    for task in tasks {
        task.abort();
    }
    commit(handles.one(), whole("afterwards")).await;
    for name in &names {
        happened(handles.nth(1), name).await;
    }
    assert!(happened(handles.nth(2), "afterwards").await);
}
