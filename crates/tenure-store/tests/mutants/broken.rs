//! [`Broken`]: the memory store with one flaw planted in it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_store::{
    Answer, Check, Commit, CommitError, Conflict, Key, Limits, MemoryStore, Range, Read, Receipt, Snapshot,
    Store, StoreError, StoreExt as _, Version, Watch, Write,
};
use tokio::task::yield_now;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
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
    /// The questions of a read are answered one after another, or the other way round.
    HalvesReads,
    /// A long page is read in two halves, one after the other.
    HalvesPages,
    /// Checks are made, then, a little later, the writes.
    ChecksThenWrites,
    /// As many databases do when asked for snapshots: only what is also written is protected.
    IsolatesSnapshots,
    /// A concurrent commit to anything fails the checks of another.
    ConflictsFreely,
    /// Reads show the state before the last commit.
    ReadsLate,
    /// Every other read does.
    ReadsLateAtTimes,
    /// Versions start anew when a key is made again.
    ReusesVersions,
    /// To write the value that is there already is no write.
    SkipsSameValues,
    /// `Present` is a check of the version that was read before.
    PresentAsVersion,
    ReversesAppends,
    DeleteRangeForgetsLists,
    /// What is in a range is looked up, then, a little later, deleted.
    LooksThenDeletes,
    IgnoresLimits,
    /// No check ever holds.
    RefusesChecks,
    /// The same check twice is an error.
    RefusesDoubleChecks,
    /// A commit that does nothing is an error.
    RefusesEmptyCommits,
    /// To delete a key that is not there is an error.
    RefusesVainDeletes,
    /// A key keeps its first value.
    ForgetsOverwrites,
    ForgetsDeletes,
    /// Only the first writes and checks of a large commit count.
    CutsCommits,
    /// Every key is shown in the version of the last commit to anything.
    SharesVersions,
    /// Ranges show other versions than keys.
    MisreadsVersionsInRanges,
}

/// A good store with a flaw around it.
#[derive(Debug)]
pub(crate) struct Broken {
    flaw: Flaw,
    inner: MemoryStore,
    /// Counts commits for [`Flaw::ConflictsFreely`], reads for flaws that show at times.
    count: AtomicU64,
    /// The store one commit ago, and that commit: for [`Flaw::ReadsLate`].
    late: MemoryStore,
    last: tokio::sync::Mutex<Commit>,
    /// What is taken off the versions of each key that exists: for [`Flaw::ReusesVersions`].
    offsets: Mutex<BTreeMap<Key, u64>>,
}

impl Broken {
    pub(crate) fn new(flaw: Flaw) -> Self {
        Self {
            flaw,
            inner: MemoryStore::new(),
            count: AtomicU64::new(0),
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
        let before = self.count.load(Ordering::SeqCst);
        yield_now().await;
        if let Some(check) = commit.checks.first()
            && self.count.load(Ordering::SeqCst) != before
        {
            return Err(Conflict::Check { index: 0, key: check.key().clone() }.into());
        }
        self.count.fetch_add(1, Ordering::SeqCst);
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

    async fn looking_then_deleting(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        let mut writes = Vec::new();
        for write in commit.writes {
            match write {
                Write::DeleteRange(range) => {
                    let found = self.inner.scan(&range, self.limits().page_items).await?;
                    writes.extend(found.items.into_iter().map(|item| Write::Delete(item.key)));
                }
                other => writes.push(other),
            }
        }
        yield_now().await;
        commit.writes = writes;
        self.inner.commit(commit).await
    }

    async fn cutting(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        const KEPT: usize = 100;
        commit.writes.truncate(KEPT);
        commit.checks.truncate(KEPT);
        self.inner.commit(commit).await
    }

    async fn forgetting_overwrites(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        let mut writes = Vec::new();
        for write in commit.writes {
            let known = matches!(&write, Write::Set(key, _) if self.inner.get(key).await?.is_some());
            writes.extend((!known).then_some(write));
        }
        commit.writes = writes;
        self.inner.commit(commit).await
    }

    /// Makes the commit if it has nothing that this flaw refuses.
    async fn refusing(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let Commit { checks, writes } = &commit;
        if self.flaw == Flaw::RefusesChecks && !checks.is_empty() {
            return Err(Conflict::Check { index: 0, key: checks[0].key().clone() }.into());
        }
        let mut refused = self.flaw == Flaw::RefusesEmptyCommits && checks.is_empty() && writes.is_empty();
        if self.flaw == Flaw::RefusesDoubleChecks {
            refused |= checks.iter().enumerate().any(|(at, check)| checks[..at].contains(check));
        }
        for write in writes {
            if let (Flaw::RefusesVainDeletes, Write::Delete(key)) = (self.flaw, write) {
                refused |= self.inner.get(key).await?.is_none();
            }
        }
        if refused {
            return Err(StoreError::invalid("this store is picky").into());
        }
        self.inner.commit(commit).await
    }

    async fn reading_in_parts(&self, mut reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let backwards = self.count.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        if backwards {
            reads.reverse();
        }
        let mut answers = Vec::new();
        for read in reads {
            answers.push(self.inner.one(read).await?);
            yield_now().await;
        }
        if backwards {
            answers.reverse();
        }
        Ok(Snapshot::new(answers))
    }

    async fn halving_pages(&self, mut reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let [Read::Range { range, limit }] = &mut reads[..] else { return self.inner.read(reads).await };
        let half = self.inner.scan(range, limit.div_ceil(2)).await?;
        yield_now().await;
        let Some(last) = half.items.last().filter(|_| half.more && *limit > 1) else {
            return Ok(Snapshot::new(vec![Answer::Range(half)]));
        };
        let mut rest = self.inner.scan(&range.after(&last.key), *limit / 2).await?;
        rest.items.splice(0..0, half.items);
        Ok(Snapshot::new(vec![Answer::Range(rest)]))
    }

    /// Answers with versions that were tampered with.
    async fn reading_versions(
        &self,
        reads: Vec<Read>,
        of_keys: impl Fn(&Key, &mut Version) + Send,
        of_items: impl Fn(&Key, &mut Version) + Send,
    ) -> Result<Snapshot, StoreError> {
        let mut answers = self.inner.read(reads.clone()).await?.into_answers();
        for (read, answer) in reads.iter().zip(&mut answers) {
            match (read, answer) {
                (Read::Key(key), Answer::Key(Some(found))) => of_keys(key, &mut found.version),
                (_, Answer::Range(page)) => {
                    page.items.iter_mut().for_each(|item| of_items(&item.key, &mut item.version));
                }
                _ => {}
            }
        }
        Ok(Snapshot::new(answers))
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
            Flaw::ReadsLateAtTimes if self.count.fetch_add(1, Ordering::SeqCst) % 2 == 1 => {
                self.late.read(reads).await
            }
            Flaw::HalvesReads => self.reading_in_parts(reads).await,
            Flaw::HalvesPages => self.halving_pages(reads).await,
            Flaw::ReusesVersions => {
                let shift = |key: &Key, version: &mut Version| version.0 -= self.offset(key);
                self.reading_versions(reads, shift, shift).await
            }
            Flaw::SharesVersions => {
                let last = self.count.load(Ordering::SeqCst);
                let share = |_: &Key, version: &mut Version| version.0 = last;
                self.reading_versions(reads, share, share).await
            }
            Flaw::MisreadsVersionsInRanges => {
                self.reading_versions(reads, |_, _| {}, |_, version| version.0 += 1).await
            }
            _ => self.inner.read(reads).await,
        }
    }

    async fn commit(&self, mut commit: Commit) -> Result<Receipt, CommitError> {
        match self.flaw {
            Flaw::None | Flaw::HalvesReads | Flaw::HalvesPages | Flaw::MisreadsVersionsInRanges => {
                self.inner.commit(commit).await
            }
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
            Flaw::ReadsLate | Flaw::ReadsLateAtTimes => self.leaving_reads_behind(commit).await,
            Flaw::ReusesVersions => self.reusing_versions(commit).await,
            Flaw::SkipsSameValues => self.skipping_same_values(commit).await,
            Flaw::PresentAsVersion => self.taking_present_for_a_version(commit).await,
            Flaw::ReversesAppends => {
                commit.writes.reverse();
                self.inner.commit(commit).await
            }
            Flaw::DeleteRangeForgetsLists => self.forgetting_lists(commit).await,
            Flaw::LooksThenDeletes => self.looking_then_deleting(commit).await,
            Flaw::IgnoresLimits => self.ignoring_limits(commit).await,
            Flaw::RefusesChecks
            | Flaw::RefusesDoubleChecks
            | Flaw::RefusesEmptyCommits
            | Flaw::RefusesVainDeletes => self.refusing(commit).await,
            Flaw::ForgetsOverwrites => self.forgetting_overwrites(commit).await,
            Flaw::ForgetsDeletes => {
                commit.writes.retain(|write| !matches!(write, Write::Delete(_)));
                self.inner.commit(commit).await
            }
            Flaw::CutsCommits => self.cutting(commit).await,
            Flaw::SharesVersions => {
                let receipt = self.inner.commit(commit).await?;
                self.count.store(receipt.version.0, Ordering::SeqCst);
                Ok(receipt)
            }
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
