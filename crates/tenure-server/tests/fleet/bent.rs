//! [`Bent`]: a store on which a test decides what becomes of single commits.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_store::{
    Commit, CommitError, Key, Limits, Range, Read, Receipt, Snapshot, Store, StoreError, Watch,
};
use tokio::sync::Semaphore;

/// What becomes of a commit.
pub(crate) enum Bend {
    Pass,
    /// It waits until it is let go.
    Wait,
    /// It happens, and its maker is told when it is let go that nobody knows.
    Landed,
    /// It is kept, to happen later or never, and its maker is told that nobody knows.
    Kept,
}

type Rule = Box<dyn FnMut(&Commit) -> Bend + Send>;

/// A store on which a test decides what becomes of single commits.
pub(crate) struct Bent {
    inner: Arc<dyn Store>,
    rule: Mutex<Option<Rule>>,
    kept: Mutex<Vec<Commit>>,
    /// A key that can't be read.
    hidden: Mutex<Option<Key>>,
    /// How many commits were bent.
    bent: AtomicU64,
    go: Semaphore,
}

impl Bent {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            rule: Mutex::default(),
            kept: Mutex::default(),
            hidden: Mutex::default(),
            bent: AtomicU64::new(0),
            go: Semaphore::new(0),
        }
    }

    /// From now on, this decides.
    pub(crate) fn bend(&self, rule: impl FnMut(&Commit) -> Bend + Send + 'static) {
        *self.rule.lock() = Some(Box::new(rule));
    }

    /// From now on, nothing is bent, and everything can be read.
    pub(crate) fn straighten(&self) {
        (*self.rule.lock(), *self.hidden.lock()) = (None, None);
    }

    /// From now on, this key can't be read.
    pub(crate) fn hide(&self, key: Key) {
        *self.hidden.lock() = Some(key);
    }

    pub(crate) fn bent(&self) -> u64 {
        self.bent.load(Ordering::SeqCst)
    }

    /// Lets one commit go that waits.
    pub(crate) fn let_go(&self) {
        self.go.add_permits(1);
    }

    /// Lets the first one happen that was kept.
    pub(crate) async fn land_kept(&self) -> Result<Receipt, CommitError> {
        let first = self.kept.lock().remove(0);
        self.inner.commit(first).await
    }

    async fn wait(&self) {
        self.go.acquire().await.unwrap().forget();
    }
}

impl fmt::Debug for Bent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bent").finish_non_exhaustive()
    }
}

impl fmt::Display for Bent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bent {}", self.inner)
    }
}

#[async_trait]
impl Store for Bent {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let is_hidden = {
            let hidden = self.hidden.lock();
            reads.iter().any(|read| matches!(read, Read::Key(key) if Some(key) == hidden.as_ref()))
        };
        if is_hidden {
            return Err(StoreError::unavailable("it is hidden"));
        }
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let bend = self.rule.lock().as_mut().map_or(Bend::Pass, |rule| rule(&commit));
        if !matches!(bend, Bend::Pass) {
            self.bent.fetch_add(1, Ordering::SeqCst);
        }
        match bend {
            Bend::Pass => self.inner.commit(commit).await,
            Bend::Wait => {
                self.wait().await;
                self.inner.commit(commit).await
            }
            Bend::Landed => {
                let _ = self.inner.commit(commit).await;
                self.wait().await;
                Err(CommitError::unknown("the answer was lost"))
            }
            Bend::Kept => {
                self.kept.lock().push(commit);
                Err(CommitError::unknown("it is under way"))
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
