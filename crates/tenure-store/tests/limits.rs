//! What breaks a limit is refused before it reaches the store behind a wrapper.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tenure_store::{
    Check, Commit, CommitError, EntryId, Env, Faults, Faulty, Key, Limited, Limits, Name, Prefixed, Range,
    Read, Receipt, Snapshot, Store, StoreError, Watch, Write,
};

/// A store that nothing may reach.
#[derive(Debug)]
struct Wall(Limits);

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wall")
    }
}

#[async_trait]
impl Store for Wall {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        panic!("a read of {} questions came through", reads.len());
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        panic!("a commit of {} checks and {} writes came through", commit.checks.len(), commit.writes.len());
    }

    fn watch(&self, _: Range) -> Watch {
        Watch::pair().1
    }

    fn limits(&self) -> Limits {
        self.0
    }
}

/// Limits so large that what breaks a smaller one does not break these.
const LARGE: Limits = Limits {
    key_bytes: 100_000,
    value_bytes: 100_000_000,
    commit_operations: 100_000,
    commit_bytes: 1_000_000_000,
    read_questions: 100_000,
    page_items: 100_000,
    page_bytes: 1 << 30,
};

fn key(text: &str) -> Key {
    Key::from(text)
}

fn id() -> EntryId {
    EntryId::new("id")
}

fn between(start: Key, end: Key) -> Range {
    Range::Between { start, end }
}

/// One commit for each thing that makes one too large.
fn large_commits(limits: Limits) -> Vec<(&'static str, Commit)> {
    let long = || Key::new(vec![b'k'; limits.key_bytes + 1]);
    let bound = || Key::new(vec![b'k'; Limits::KEY_BYTES_MAX + 2]);
    let many =
        (0..=limits.commit_operations).fold(Commit::new(), |all, at| all.set(key(&format!("k{at}")), "v"));
    let ranges = (0..=limits.commit_operations / 2)
        .fold(Commit::new(), |all, at| all.delete_range(Range::Key(key(&format!("k{at}")))));
    let half = vec![7; limits.value_bytes];
    let heavy = (0..=limits.commit_bytes / half.len())
        .fold(Commit::new(), |all, at| all.append(key(&format!("k{at}")), half.clone()));
    vec![
        ("a long key set", Commit::new().set(long(), "v")),
        ("a long key deleted", Commit::new().delete(long())),
        ("a long key checked", Commit::new().check(Check::Present(long()))),
        ("a long list checked", Commit::new().check(Check::Empty(long()))),
        ("a long list appended to", Commit::new().append(long(), "v")),
        ("a long list removed from", Commit::new().remove(long(), id())),
        ("a range of a long key", Commit::new().delete_range(Range::Key(long()))),
        ("a range of a long prefix", Commit::new().delete_range(Range::Prefix(long()))),
        ("a range with a long start", Commit::new().delete_range(between(bound(), key("z")))),
        ("a range with a long end", Commit::new().delete_range(between(key("a"), bound()))),
        ("a large value", Commit::new().set(key("k"), vec![7; limits.value_bytes + 1])),
        ("a large entry", Commit::new().append(key("k"), vec![7; limits.value_bytes + 1])),
        ("many operations", many),
        ("many ranges", ranges),
        ("many bytes", heavy),
    ]
}

fn senseless_commits() -> Vec<(&'static str, Commit)> {
    let name = || key("k");
    vec![
        ("an empty key", Commit::new().set(key(""), "v")),
        ("an empty list", Commit::new().append(key(""), "v")),
        ("a check of an empty key", Commit::new().check(Check::Absent(key("")))),
        ("a key twice", Commit::new().set(name(), "v").delete(name())),
        ("an entry twice", Commit::new().remove(name(), id()).remove(name(), id())),
        ("a key in a deleted range", Commit::new().set(name(), "v").delete_range(Range::all())),
        ("a list in a deleted range", Commit::new().append(name(), "v").delete_range(Range::Prefix(name()))),
        (
            "two ranges that overlap",
            Commit::new().delete_range(between(key("a"), key("c"))).delete_range(between(key("b"), key("d"))),
        ),
    ]
}

fn large_reads(limits: Limits) -> Vec<(&'static str, Vec<Read>)> {
    let long = || Key::new(vec![b'k'; limits.key_bytes + 1]);
    let range = |range: Range| vec![Read::Range { range, limit: 1 }];
    let items = limits.page_items + 1;
    vec![
        ("a long key", vec![Read::Key(long())]),
        ("a long list", vec![Read::List { list: long(), after: None, limit: 1 }]),
        ("a range of a long key", range(Range::Key(long()))),
        ("a range of a long prefix", range(Range::Prefix(long()))),
        ("a range with a long end", range(between(key("a"), Key::new(vec![0; Limits::KEY_BYTES_MAX + 2])))),
        ("many questions", vec![Read::Key(key("k")); limits.read_questions + 1]),
        ("a large page", vec![Read::Range { range: Range::all(), limit: items }]),
        ("a large page of a list", vec![Read::List { list: key("l"), after: None, limit: items }]),
    ]
}

fn senseless_reads() -> Vec<(&'static str, Vec<Read>)> {
    vec![
        ("an empty key", vec![Read::Key(key("k")), Read::Key(key(""))]),
        ("a page of nothing", vec![Read::Range { range: Range::all(), limit: 0 }]),
        ("a page of nothing of a list", vec![Read::List { list: key("l"), after: None, limit: 0 }]),
    ]
}

async fn refuses_everything(store: &dyn Store) {
    let large = large_commits(store.limits()).into_iter().map(|case| (case, "too_large"));
    let senseless = senseless_commits().into_iter().map(|case| (case, "invalid"));
    for ((what, commit), kind) in large.chain(senseless) {
        let error = store.commit(commit).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{store}: {what}: {error}");
    }
    let large = large_reads(store.limits()).into_iter().map(|case| (case, "too_large"));
    let senseless = senseless_reads().into_iter().map(|case| (case, "invalid"));
    for ((what, reads), kind) in large.chain(senseless) {
        let error = store.read(reads).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{store}: {what}: {error}");
    }
}

fn name() -> Name {
    "cluster".parse().unwrap()
}

#[tokio::test]
async fn limited_refuses_before_its_store() {
    refuses_everything(&Limited::new(Wall(LARGE), Limits::PORTABLE)).await;
}

#[tokio::test]
async fn prefixed_refuses_before_its_store() {
    refuses_everything(&Prefixed::new(Wall(Limits::PORTABLE), &name())).await;
}

#[tokio::test]
async fn faulty_refuses_before_its_store_and_before_its_faults() {
    let faults = Faults { conflict: 0.5, unavailable: 0.5, ..Faults::NONE };
    refuses_everything(&Faulty::new(Arc::new(Wall(Limits::PORTABLE)), Env::system(), faults)).await;
}

#[tokio::test]
async fn wrappers_in_wrappers_refuse_before_their_store() {
    refuses_everything(&Prefixed::new(Limited::new(Wall(LARGE), Limits::PORTABLE), &name())).await;
    refuses_everything(&Limited::new(Prefixed::new(Wall(LARGE), &name()), Limits::PORTABLE)).await;
}

#[test]
fn a_deleted_range_counts_as_two_operations() {
    let limits = Limits { commit_operations: 4, ..LARGE };
    let commit = |checks: usize, sets: usize, ranges: usize| {
        let all = Commit {
            checks: vec![Check::Present(key("k")); checks],
            writes: (0..sets).map(|at| Write::Set(key(&format!("s{at}")), "v".into())).collect(),
        };
        (0..ranges).fold(all, |all, at| all.delete_range(Range::Key(key(&format!("r{at}")))))
    };
    for (checks, sets, ranges) in [(4, 0, 0), (0, 4, 0), (0, 0, 2), (1, 1, 1)] {
        limits.admit_commit(&commit(checks, sets, ranges)).unwrap();
    }
    for (checks, sets, ranges) in [(4, 1, 0), (0, 1, 2), (1, 0, 2), (2, 1, 1), (0, 0, 3)] {
        let error = limits.admit_commit(&commit(checks, sets, ranges)).unwrap_err();
        let words = error.to_string();
        assert_eq!(error.kind(), "too_large", "{checks} {sets} {ranges}: {words}");
        assert!(words.contains("a deleted range counts as two"), "{words}");
    }
}

#[test]
fn the_smaller_limit_counts_field_by_field() {
    let small = Limits { key_bytes: 1, value_bytes: 2, commit_operations: 3, ..LARGE };
    let other = Limits { commit_bytes: 4, read_questions: 5, page_items: 6, page_bytes: 7, ..LARGE };
    let both = Limits {
        key_bytes: 1,
        value_bytes: 2,
        commit_operations: 3,
        commit_bytes: 4,
        read_questions: 5,
        page_items: 6,
        page_bytes: 7,
    };
    assert_eq!(small.min(other), both);
    assert_eq!(Limited::new(Wall(small), other).limits(), both);
}
