//! [`EtcdStore`]: the store itself.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use tenure_store::{
    Commit, CommitError, Env, Limits, Range, Read, Reason, Receipt, Snapshot, Store, StoreError, Watch,
    WatchHub, Write,
};

use crate::{
    Settings,
    cluster::Cluster,
    commit::{self, LIMITS},
    error::{Failure, Meaning},
    layout::{Layout, entry_id},
    members::Repeat,
    messages::{Operation, RangeRequest, RequestOp, TxnRequest, revision},
    notice::Notice,
    read,
    rounds::Rounds,
};

/// The oldest version that this store works with: the first whose watches come in pieces and whose members tell their alarms.
const OLDEST: (u32, u32) = (3, 4);

/// A store in an etcd cluster: see the crate.
#[derive(Debug)]
pub struct EtcdStore {
    settings: Settings,
    layout: Layout,
    cluster: Arc<Cluster>,
    /// The revision of the cluster, asked for by all who need it at once.
    revisions: Arc<Rounds<i64>>,
    /// Part of the id of every entry that is appended here: no other process has it.
    process: u64,
    /// How many entries were appended here.
    appended: AtomicU64,
    /// Whether the cluster had no room when it was last asked for some.
    full: AtomicBool,
    hub: WatchHub,
    notice: Notice,
}

impl EtcdStore {
    /// Opens the store that a URL names: `etcd://user:password@host:port,host:port/prefix`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a URL or settings that can't work, a refused login, missing rights, or an etcd that is too old;
    /// [`StoreError::Unavailable`] when no member can be reached.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(Settings::from_url(url)?).await
    }

    /// Opens a store with these settings.
    ///
    /// # Errors
    /// As [`EtcdStore::open`].
    pub async fn open_with(settings: Settings) -> Result<Self, StoreError> {
        settings.validate()?;
        let env = Env::system();
        let cluster = Arc::new(Cluster::new(&settings, env.clone())?);
        let layout = Layout::new(&settings.prefix);
        let greeting = async {
            cluster.log_in().await?;
            Ok(cluster.status().await?)
        };
        let status = greeting.await.map_err(|error| suspect_tls(error, &settings))?;
        admit_version(&status.version)?;
        admit_rights(&cluster, &layout).await?;

        let revisions = Arc::new(follow_revisions(&cluster, &layout));
        let hub = WatchHub::new();
        let notice = Notice::start(&cluster, &revisions, &layout, &hub, &env, settings.reread);
        Ok(Self {
            settings,
            layout,
            cluster,
            revisions,
            process: env.random_u64(),
            appended: AtomicU64::new(0),
            full: AtomicBool::new(false),
            hub,
            notice,
        })
    }

    /// The transaction of a commit, with ids for its entries.
    ///
    /// An id begins with a revision that the cluster had after the commit was submitted. So it is greater than that of any entry acknowledged
    /// before: that one's revision was asked for before it was committed, and each commit has a greater revision than all before it.
    async fn prepare(&self, commit: &Commit) -> Result<TxnRequest, StoreError> {
        let entries = commit.writes.iter().filter(|write| matches!(write, Write::Append(..))).count() as u64;
        if entries == 0 {
            return Ok(commit::to_txn(commit, &self.layout, []));
        }
        // Drawn before the wait, so that entries of one process sort as they were submitted.
        let first = self.appended.fetch_add(entries, Ordering::Relaxed);
        let revision = self.revisions.join().await?;
        let ids = (first..).map(|count| entry_id(revision, self.process, count));
        Ok(commit::to_txn(commit, &self.layout, ids))
    }

    /// Refuses to fill a cluster that is known to have no room. Only so can the refusal be told from [`Meaning::NoSpace`].
    async fn admit_growth(&self, commit: &Commit) -> Result<(), StoreError> {
        let grows = |write: &Write| matches!(write, Write::Set(..) | Write::Append(..));
        if !self.full.load(Ordering::Relaxed) || !commit.writes.iter().any(grows) {
            return Ok(());
        }
        let status = self.cluster.status().await?;
        if status.errors.iter().any(|alarm| alarm.contains("NOSPACE")) {
            return Err(StoreError::Full(
                "the cluster has raised the alarm NOSPACE: compact and defragment, or raise --quota-backend-bytes, then disarm it"
                    .into(),
            ));
        }
        self.full.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn commit_error(&self, failure: Failure) -> CommitError {
        match failure.meaning {
            Meaning::Lost => CommitError::OutcomeUnknown(failure.reason),
            Meaning::NoSpace => {
                self.full.store(true, Ordering::Relaxed);
                CommitError::OutcomeUnknown(failure.reason)
            }
            _ => CommitError::Failed(failure.into()),
        }
    }

    /// Which check failed, as of the revision of the refusal: for transactions that were too large to ask it themselves.
    async fn explain(&self, commit: &Commit, revision: i64) -> CommitError {
        let looks = commit::looks(&commit.checks, &self.layout, revision);
        let txn = TxnRequest { success: looks, ..TxnRequest::default() };
        match self.cluster.ask("look why a commit was refused", &txn, Repeat::Safe).await {
            Ok(answer) => commit::refusal(&commit.checks, &answer.responses).into(),
            // It was refused, that much is known.
            Err(_) => tenure_store::Conflict::Contention.into(),
        }
    }
}

impl fmt::Display for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        LIMITS.admit_reads(&reads)?;
        read::admit_ids(&reads)?;
        read::read(&self.cluster, &self.layout, reads).await
    }

    /// The caller's own future sends the transaction: it is one message, and a part of it, all that a future dropped in mid-way can have sent,
    /// is nothing to etcd.
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        LIMITS.admit_commit(&commit)?;
        self.admit_growth(&commit).await?;
        let txn = self.prepare(&commit).await?;
        let answer = self.cluster.ask("commit", &txn, Repeat::Never).await;
        let answer = answer.map_err(|failure| self.commit_error(failure))?;
        match commit::outcome(&commit.checks, &answer) {
            Some(outcome) => outcome,
            None => Err(self.explain(&commit, revision(answer.header.as_ref())).await),
        }
    }

    fn watch(&self, range: Range) -> Watch {
        let watch = self.hub.watch(range);
        self.notice.attend();
        watch
    }

    fn limits(&self) -> Limits {
        LIMITS
    }
}

/// Asks for the revision of the cluster as of now, with a read that passes by the leader.
fn follow_revisions(cluster: &Arc<Cluster>, layout: &Layout) -> Rounds<i64> {
    let (cluster, key) = (Arc::clone(cluster), layout.never());
    // A revision that was once seen is never gone back behind, whatever a member may say.
    let newest = Arc::new(AtomicU64::new(0));
    Rounds::start(move || {
        let (cluster, newest) = (Arc::clone(&cluster), Arc::clone(&newest));
        let request = RangeRequest { key: key.clone(), limit: 1, keys_only: true, ..RangeRequest::default() };
        async move {
            let answer = cluster.ask("ask for the revision", &request, Repeat::Safe).await?;
            let revision = revision(answer.header.as_ref()).unsigned_abs();
            let newest = newest.fetch_max(revision, Ordering::Relaxed).max(revision);
            Ok(newest.cast_signed())
        }
    })
}

/// A member hangs up on whoever speaks without TLS where it is expected, or with it where it is not, in one way or another, and says
/// nothing of etcd's.
fn suspect_tls(error: StoreError, settings: &Settings) -> StoreError {
    let words = error.to_string();
    let says = |part: &str| words.contains(part);
    let StoreError::Unavailable(reason) = error else { return error };
    let advice = if settings.tls && says("connect to ") && !says("refused") && !says("certificate") {
        "if the members do not use TLS, leave tls and its certificates out"
    } else if !settings.tls && !says("connect to ") && !says("etcdserver: ") {
        "if the members expect TLS, write tls=true"
    } else {
        return StoreError::Unavailable(reason);
    };
    let words = format!("{reason}: {advice}");
    StoreError::Unavailable(Reason::caused(words, reason))
}

fn admit_version(version: &str) -> Result<(), StoreError> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        _ => Err(StoreError::invalid(format!(
            "the cluster runs etcd {version:?}: this store needs {}.{} or newer",
            OLDEST.0, OLDEST.1
        ))),
    }
}

/// Makes the largest transaction that changes nothing: it tells whether we may read and write here, whether there is a leader, and
/// whether transactions of this size are taken.
async fn admit_rights(cluster: &Cluster, layout: &Layout) -> Result<(), StoreError> {
    let looks = layout.ends().map(|(key, range_end)| {
        let look = RangeRequest { key, range_end, limit: 1, keys_only: true, ..RangeRequest::default() };
        RequestOp::from(Operation::Range(look))
    });
    let mut success: Vec<RequestOp> = looks.into_iter().cycle().take(LIMITS.commit_operations - 1).collect();
    let nothing = commit::to_txn(&Commit::new(), layout, []);
    success.extend(nothing.success);
    let txn = TxnRequest { success, ..TxnRequest::default() };
    match cluster.ask("open the store", &txn, Repeat::Safe).await {
        // Where there is no room there may still be something to read, or to delete.
        Err(failure) if failure.meaning != Meaning::NoSpace => Err(failure.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_too_old_are_refused_by_name() {
        for version in ["3.4.0", "3.4.23", "3.5.16", "3.6.0-rc.1", "4.0.0", "10.1"] {
            admit_version(version).unwrap();
        }
        for version in ["3.3.27", "2.3.8", "", "3", "new"] {
            let error = admit_version(version).unwrap_err().to_string();
            assert!(error.contains(&format!("{version:?}")) && error.contains("3.4"), "{error}");
        }
    }
}
