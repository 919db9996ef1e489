//! The suite is not empty talk: stores with a planted flaw each fail the cases that are about it.

use std::{
    collections::BTreeMap,
    fmt, panic,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_store::{
    Answer, Check, Commit, CommitError, Conflict, Key, Limits, MemoryStore, Range, Read, Receipt, Snapshot,
    Store, StoreError, StoreExt as _, Version, Watch, Write,
    testkit::{self, CASES, Case, Handles},
};
use tokio::task::yield_now;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// Nothing: shows that failures come from the flaws and not from what plants them.
    None,
    IgnoresVersion,
    IgnoresAbsent,
    IgnoresPresent,
    IgnoresEmpty,
    /// `Empty` also wants no key of that name, `Absent` no list.
    MixesKeysAndLists,
    /// `Absent` and `Empty` see what the commit itself writes.
    ChecksAfterWriting,
    /// Any failed check is said to be the first.
    NamesTheFirstCheck,
    /// What a refused commit writes is written nevertheless.
    WritesThoughRefused,
    /// A commit is applied in two halves.
    HalvesCommits,
    /// The questions of a read are answered one after another.
    HalvesReads,
    /// Checks are made, then, a little later, the writes.
    ChecksThenWrites,
    /// As many databases do when asked for snapshots: only what is also written is protected.
    IsolatesSnapshots,
    /// A concurrent commit to anything fails the checks of another.
    ConflictsFreely,
    /// Reads show the state before the last commit.
    ReadsLate,
    /// Versions start anew when a key is made again.
    ReusesVersions,
    /// To write the value that is there already is no write.
    SkipsSameValues,
    /// `Present` is a check of the version that was read before.
    PresentAsVersion,
    ReversesAppends,
    DeleteRangeForgetsLists,
    IgnoresLimits,
}

/// Each flaw, and the cases that must notice it.
const FLAWS: &[(Flaw, &[&str])] = &[
    (
        Flaw::IgnoresVersion,
        &[
            "commits::version_fails_for_any_other_version",
            "commits::version_fails_after_the_deletion",
            "versions::a_stale_version_is_refused_after_a_new_start",
            "versions::one_of_many_writers_of_a_version_wins",
            "serializable::no_increment_is_lost",
        ],
    ),
    (
        Flaw::IgnoresAbsent,
        &[
            "commits::absent_holds_only_without_the_key",
            "commits::a_commit_of_checks_alone_changes_nothing",
            "serializable::one_of_many_creators_wins",
            "serializable::absent_is_not_skewed",
        ],
    ),
    (
        Flaw::IgnoresPresent,
        &[
            "present::present_holds_only_with_the_key",
            "present::a_guarded_commit_may_write_its_guard",
            "present::present_fails_after_the_deletion",
            "present::present_holds_after_a_new_start",
            "present::nothing_guarded_follows_the_deletion",
            "serializable::present_is_not_skewed",
        ],
    ),
    (
        Flaw::IgnoresEmpty,
        &[
            "commits::empty_holds_only_without_entries",
            "commits::the_failed_check_is_named",
            "serializable::empty_is_not_skewed",
            "serializable::a_deleted_range_is_not_skewed",
            "serializable::what_is_acknowledged_is_checked_everywhere",
        ],
    ),
    (Flaw::MixesKeysAndLists, &["commits::a_key_and_a_list_of_one_name_do_not_meet"]),
    (Flaw::ChecksAfterWriting, &["commits::checks_see_the_state_before_the_commit"]),
    (
        Flaw::NamesTheFirstCheck,
        &[
            "commits::the_failed_check_is_named",
            "commits::one_of_several_failed_checks_is_named",
            "commits::a_commit_may_have_a_thousand_checks",
        ],
    ),
    (
        Flaw::WritesThoughRefused,
        &[
            "commits::a_refused_commit_writes_nothing",
            "versions::a_refused_write_leaves_the_version_alone",
            "serializable::no_increment_is_lost",
        ],
    ),
    (
        Flaw::HalvesCommits,
        &["serializable::a_snapshot_never_shows_half_a_commit", "serializable::transfers_keep_the_sum"],
    ),
    (
        Flaw::HalvesReads,
        &["serializable::a_snapshot_never_shows_half_a_commit", "serializable::transfers_keep_the_sum"],
    ),
    (
        Flaw::ChecksThenWrites,
        &[
            "serializable::no_increment_is_lost",
            "serializable::one_of_many_creators_wins",
            "versions::one_of_many_writers_of_a_version_wins",
            "present::nothing_guarded_follows_the_deletion",
        ],
    ),
    (
        Flaw::IsolatesSnapshots,
        &[
            "serializable::absent_is_not_skewed",
            "serializable::version_is_not_skewed",
            "serializable::empty_is_not_skewed",
            "serializable::present_is_not_skewed",
            "serializable::a_deleted_range_is_not_skewed",
        ],
    ),
    (
        Flaw::ConflictsFreely,
        &["serializable::different_keys_never_conflict", "present::many_guards_hold_at_once"],
    ),
    (
        Flaw::ReadsLate,
        &[
            "commits::a_value_is_read_as_it_was_written",
            "serializable::what_is_acknowledged_is_seen_everywhere",
            "serializable::appends_keep_the_order_of_time",
        ],
    ),
    (
        Flaw::ReusesVersions,
        &[
            "versions::no_version_is_reused_after_a_delete",
            "versions::no_version_is_reused_after_a_deleted_range",
            "versions::no_version_is_reused_after_everything_was_deleted",
            "versions::a_stale_version_is_refused_after_a_new_start",
        ],
    ),
    (Flaw::SkipsSameValues, &["versions::a_version_grows_though_the_value_stays"]),
    (Flaw::PresentAsVersion, &["present::present_bears_concurrent_overwrites"]),
    (Flaw::ReversesAppends, &["lists::entries_of_one_commit_keep_their_order"]),
    (
        Flaw::DeleteRangeForgetsLists,
        &[
            "commits::empty_holds_only_without_entries",
            "commits::writes_of_every_kind_are_made_together",
            "ranges::deleting_everything_leaves_nothing",
        ],
    ),
    (
        Flaw::IgnoresLimits,
        &["limits::a_key_that_is_too_long_is_refused", "limits::a_commit_of_too_many_operations_is_refused"],
    ),
];

#[test]
fn every_flaw_is_noticed() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let wrong: Vec<String> = FLAWS.iter().flat_map(|(flaw, cases)| unnoticed(*flaw, cases)).collect();
    panic::set_hook(hook);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What speaks against the claim that these cases notice the flaw.
fn unnoticed(flaw: Flaw, cases: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for named in cases {
        let case = CASES.iter().find(|case| format!("{}::{}", case.group, case.name) == *named);
        match case {
            None => wrong.push(format!("there is no case {named}")),
            Some(case) if !passes(Flaw::None, case) => wrong.push(format!("{named} fails without a flaw")),
            Some(case) if passes(flaw, case) => wrong.push(format!("{named} does not notice {flaw:?}")),
            Some(_) => {}
        }
    }
    wrong
}

fn passes(flaw: Flaw, case: &Case) -> bool {
    panic::catch_unwind(|| testkit::run(case.group, case.name, |count| open(flaw, count))).is_ok()
}

async fn open(flaw: Flaw, count: usize) -> Handles {
    let store: Arc<dyn Store> = Arc::new(Broken::new(flaw));
    Handles::new(vec![store; count], ())
}

/// A good store with a flaw around it.
#[derive(Debug)]
struct Broken {
    flaw: Flaw,
    inner: MemoryStore,
    /// Commits so far: for [`Flaw::ConflictsFreely`].
    commits: AtomicU64,
    /// The store one commit ago, and that commit: for [`Flaw::ReadsLate`].
    late: MemoryStore,
    last: tokio::sync::Mutex<Commit>,
    /// What is taken off the versions of each key that exists: for [`Flaw::ReusesVersions`].
    offsets: Mutex<BTreeMap<Key, u64>>,
}

impl Broken {
    fn new(flaw: Flaw) -> Self {
        Self {
            flaw,
            inner: MemoryStore::new(),
            commits: AtomicU64::new(0),
            late: MemoryStore::new(),
            last: tokio::sync::Mutex::default(),
            offsets: Mutex::default(),
        }
    }

    /// Whether these checks hold now.
    async fn check(&self, checks: &[Check]) -> Result<(), CommitError> {
        self.inner.commit(Commit { checks: checks.to_vec(), writes: vec![] }).await.map(drop)
    }

    async fn without(&self, mut commit: Commit, ignored: fn(&Check) -> bool) -> Result<Receipt, CommitError> {
        commit.checks.retain(|check| !ignored(check));
        self.inner.commit(commit).await
    }

    async fn mixing_keys_and_lists(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        let mixed = commit.checks.iter().filter_map(|check| match check {
            Check::Absent(key) => Some(Check::Empty(key.clone())),
            Check::Empty(list) => Some(Check::Absent(list.clone())),
            Check::Version(..) | Check::Present(_) => None,
        });
        commit.checks.extend(mixed.collect::<Vec<_>>());
        self.inner.commit(commit).await
    }

    async fn checking_after_writing(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let spoilt = commit.checks.iter().position(|check| {
            commit.writes.iter().any(|write| match (check, write) {
                (Check::Absent(key), Write::Set(written, _)) => key == written,
                (Check::Empty(list), Write::Append(written, _)) => list == written,
                _ => false,
            })
        });
        if let Some(index) = spoilt {
            return Err(Conflict::Check { index, key: commit.checks[index].key().clone() }.into());
        }
        self.inner.commit(commit).await
    }

    async fn naming_the_first(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let first = commit.checks.first().map(|check| check.key().clone());
        self.inner.commit(commit).await.map_err(|error| match (error, first) {
            (CommitError::Conflict(Conflict::Check { .. }), Some(key)) => {
                Conflict::Check { index: 0, key }.into()
            }
            (other, _) => other,
        })
    }

    async fn writing_though_refused(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let writes = commit.writes.clone();
        let outcome = self.inner.commit(commit).await;
        if outcome.is_err() {
            self.inner.commit(Commit { checks: vec![], writes }).await?;
        }
        outcome
    }

    async fn halving(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        let rest = commit.writes.split_off(commit.writes.len() / 2);
        self.inner.commit(commit).await?;
        yield_now().await;
        self.inner.commit(Commit { checks: vec![], writes: rest }).await
    }

    async fn checking_then_writing(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        self.check(&commit.checks).await?;
        yield_now().await;
        commit.checks.clear();
        self.inner.commit(commit).await
    }

    async fn isolating_snapshots(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        self.check(&commit.checks).await?;
        yield_now().await;
        let written: Vec<Range> = commit.writes.iter().map(Write::range).collect();
        commit.checks.retain(|check| written.iter().any(|range| range.contains(check.key())));
        self.inner.commit(commit).await
    }

    async fn conflicting_freely(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let before = self.commits.load(Ordering::SeqCst);
        yield_now().await;
        if let Some(check) = commit.checks.first()
            && self.commits.load(Ordering::SeqCst) != before
        {
            return Err(Conflict::Check { index: 0, key: check.key().clone() }.into());
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.inner.commit(commit).await
    }

    async fn leaving_reads_behind(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let mut last = self.last.lock().await;
        let receipt = self.inner.commit(commit.clone()).await?;
        self.late.commit(std::mem::replace(&mut *last, commit)).await?;
        Ok(receipt)
    }

    async fn reusing_versions(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        for check in &mut commit.checks {
            if let Check::Version(key, version) = check {
                version.0 = version.0.saturating_add(self.offset(key));
            }
        }
        let writes = commit.writes.clone();
        let Receipt { version } = self.inner.commit(commit).await?;
        let mut shown = version;
        for write in writes {
            let mut offsets = self.offsets.lock();
            match write {
                Write::Set(key, _) => {
                    shown = Version(version.0 - *offsets.entry(key).or_insert(version.0 - 1));
                }
                Write::Delete(key) => drop(offsets.remove(&key)),
                Write::DeleteRange(range) => offsets.retain(|key, _| !range.contains(key)),
                Write::Append(..) | Write::Remove(..) => {}
            }
        }
        Ok(Receipt { version: shown })
    }

    fn offset(&self, key: &Key) -> u64 {
        self.offsets.lock().get(key).copied().unwrap_or(0)
    }

    async fn skipping_same_values(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        let mut changes = Vec::new();
        for write in commit.writes {
            let same = match &write {
                Write::Set(key, value) => {
                    self.inner.get(key).await?.is_some_and(|found| found.value == *value)
                }
                _ => false,
            };
            changes.extend((!same).then_some(write));
        }
        commit.writes = changes;
        self.inner.commit(commit).await
    }

    async fn taking_present_for_a_version(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        for check in &mut commit.checks {
            if let Check::Present(key) = check
                && let Some(found) = self.inner.get(key).await?
            {
                *check = Check::Version(key.clone(), found.version);
            }
        }
        yield_now().await;
        self.inner.commit(commit).await
    }

    async fn forgetting_lists(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        let mut writes = Vec::new();
        for write in commit.writes {
            let Write::DeleteRange(range) = write else {
                writes.push(write);
                continue;
            };
            let keys = self.inner.scan(&range, self.limits().page_items).await?.items;
            writes.extend(keys.into_iter().map(|item| Write::Delete(item.key)));
        }
        commit.writes = writes;
        self.inner.commit(commit).await
    }

    async fn ignoring_limits(&self, commit: Commit) -> Result<Receipt, CommitError> {
        match self.inner.commit(commit).await {
            Err(CommitError::Failed(StoreError::TooLarge(_))) => Ok(Receipt { version: Version(0) }),
            other => other,
        }
    }
}

#[async_trait]
impl Store for Broken {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        match self.flaw {
            Flaw::ReadsLate => self.late.read(reads).await,
            Flaw::HalvesReads => {
                let mut answers = Vec::new();
                for read in reads {
                    answers.push(self.inner.one(read).await?);
                    yield_now().await;
                }
                Ok(Snapshot::new(answers))
            }
            Flaw::ReusesVersions => {
                let mut answers = self.inner.read(reads.clone()).await?.into_answers();
                for (read, answer) in reads.iter().zip(&mut answers) {
                    if let (Read::Key(key), Answer::Key(Some(found))) = (read, answer) {
                        found.version.0 -= self.offset(key);
                    }
                }
                Ok(Snapshot::new(answers))
            }
            _ => self.inner.read(reads).await,
        }
    }

    async fn commit(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        match self.flaw {
            Flaw::None | Flaw::HalvesReads => self.inner.commit(commit).await,
            Flaw::IgnoresVersion => self.without(commit, |check| matches!(check, Check::Version(..))).await,
            Flaw::IgnoresAbsent => self.without(commit, |check| matches!(check, Check::Absent(_))).await,
            Flaw::IgnoresPresent => self.without(commit, |check| matches!(check, Check::Present(_))).await,
            Flaw::IgnoresEmpty => self.without(commit, |check| matches!(check, Check::Empty(_))).await,
            Flaw::MixesKeysAndLists => self.mixing_keys_and_lists(commit).await,
            Flaw::ChecksAfterWriting => self.checking_after_writing(commit).await,
            Flaw::NamesTheFirstCheck => self.naming_the_first(commit).await,
            Flaw::WritesThoughRefused => self.writing_though_refused(commit).await,
            Flaw::HalvesCommits => self.halving(commit).await,
            Flaw::ChecksThenWrites => self.checking_then_writing(commit).await,
            Flaw::IsolatesSnapshots => self.isolating_snapshots(commit).await,
            Flaw::ConflictsFreely => self.conflicting_freely(commit).await,
            Flaw::ReadsLate => self.leaving_reads_behind(commit).await,
            Flaw::ReusesVersions => self.reusing_versions(commit).await,
            Flaw::SkipsSameValues => self.skipping_same_values(commit).await,
            Flaw::PresentAsVersion => self.taking_present_for_a_version(commit).await,
            Flaw::ReversesAppends => {
                commit.writes.reverse();
                self.inner.commit(commit).await
            }
            Flaw::DeleteRangeForgetsLists => self.forgetting_lists(commit).await,
            Flaw::IgnoresLimits => self.ignoring_limits(commit).await,
        }
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a store with the flaw {:?}", self.flaw)
    }
}
