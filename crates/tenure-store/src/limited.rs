//! [`Limited`]: a store's limits made smaller.

use std::{convert::Infallible, fmt};

use async_trait::async_trait;

use crate::{
    Answer, Commit, CommitError, Limits, Page, Range, Read, Receipt, Snapshot, Store, StoreError, Watch,
    Weigh,
};

/// A store that takes less than it could: for programs that are to run on other stores too ([`Limits::PORTABLE`]), and
/// for tests of what happens at a limit.
#[derive(Debug)]
pub struct Limited<S> {
    inner: S,
    limits: Limits,
}

impl<S: Store> Limited<S> {
    /// `inner`, within `limits` as well as its own.
    pub fn new(inner: S, limits: Limits) -> Self {
        let limits = limits.min(inner.limits());
        Self { inner, limits }
    }
}

impl<S> Limited<S> {
    /// The answer without what is too much of it.
    fn cut(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Key(found) => Answer::Key(found),
            Answer::Range(page) => Answer::Range(self.cut_page(page)),
            Answer::List(page) => Answer::List(self.cut_page(page)),
        }
    }

    fn cut_page<T: Weigh>(&self, page: Page<T>) -> Page<T> {
        let Page { items, more } = page;
        let items = items.into_iter().map(Ok::<T, Infallible>);
        let Ok(mut cut) = Page::gather(items, usize::MAX, self.limits.page_bytes);
        cut.more |= more;
        cut
    }
}

impl<S: Store> fmt::Display for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl<S: Store> Store for Limited<S> {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        self.limits.admit_reads(&reads)?;
        let answers = self.inner.read(reads).await?.into_answers();
        Ok(Snapshot::new(answers.into_iter().map(|answer| self.cut(answer)).collect()))
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.limits.admit_commit(&commit)?;
        self.inner.commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        self.inner.watch(range)
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}
