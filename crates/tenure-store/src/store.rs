//! [`Store`]: the contract.

use std::fmt;

use async_trait::async_trait;

use crate::{Commit, CommitError, Limits, Range, Read, Receipt, Snapshot, StoreError, Watch};

/// A transactional store of keys and lists: all that Tenure asks of a database.
///
/// A store holds **keys**, each with a value and a version, and **lists**, each with entries in order. Keys and lists
/// share their names without meeting: the key `a` and the list `a` are two things. A list that has no entry does not exist.
/// There is no clock in a store, and nothing in it passes by itself.
///
/// # Contract
/// To be correct, an implementation must keep all of these. The conformance suite (feature `testkit`) has at least one
/// case for each.
///
/// 1. **Commits are strictly serializable.** They take effect one after another, in an order that agrees with real time: what
///    was acknowledged before another request was made is seen by it. A check speaks of the state just before the commit.
/// 2. **A commit is all or nothing.** If a check fails nothing is written; if none does all is, at one instant, for every reader.
/// 3. **A read is one instant.** All answers of one `read` show the same state. A read that starts after a commit was
///    acknowledged sees it.
/// 4. **Acknowledged is durable.** A receipt is given only when the commit survives the crash of every process, ours and the
///    database's. (A store that lives in memory says so.)
/// 5. **Versions grow.** Each write of a key gives it a greater version; no version is used twice for one key, not even after the
///    key was deleted and made again. All keys written by a commit get the version in its receipt.
/// 6. **`Present` is patient.** No overwrite of the key, however recent or concurrent, makes it fail; only its deletion does.
///    (A store may still give way to a concurrent commit as always, with [`Conflict::Contention`](crate::Conflict).)
/// 7. **Lists keep order.** Entries of one commit keep their order. An entry acknowledged before another was submitted sorts
///    before it. An entry may become visible before one that sorts ahead of it; whoever takes from the head misses none.
/// 8. **A watch is a hint that is never lost for good.** Every change committed after [`watch`](Store::watch) returned wakes it: soon as
///    a rule, and within a bounded time even if a message got lost. It may wake for nothing and may fold many changes into one
///    waking. Where nobody watches, it costs commits nothing worth measuring.
/// 9. **Unknown is unknown.** [`CommitError::OutcomeUnknown`] is returned when, and only when, the commit may have happened or may yet
///    happen. Every other error means that it never will.
/// 10. **Limits come first.** What breaks [`limits`](Store::limits) is refused before any I/O, by [`Limits::admit_commit`] and
///     [`Limits::admit_reads`].
/// 11. **Bytes are bytes.** Keys and values hold any bytes; nothing in them ever becomes part of a statement.
///
/// # Display
/// A store prints as what it is and where, for logs and errors. It never prints a password.
///
/// # Wrappers
/// A wrapper is a store that changes what passes through it: [`Prefixed`](crate::Prefixed), [`Limited`](crate::Limited),
/// [`Measured`](crate::Measured), [`Faulty`](crate::Faulty). The trait has no default methods, so that none can be forgotten in
/// a wrapper; conveniences are in [`StoreExt`](crate::StoreExt).
#[async_trait]
pub trait Store: fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// Answers all questions as of one instant.
    ///
    /// # Errors
    /// Nothing was changed, of course. [`StoreError::Unavailable`] may pass.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer, and nothing else.
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError>;

    /// Makes all writes if all checks hold.
    ///
    /// # Errors
    /// See [`CommitError`]: nothing was written, unless it is [`CommitError::OutcomeUnknown`].
    ///
    /// # Cancel safety
    /// Dropping the future makes the outcome unknown: the commit may have happened, or may happen yet. It happens whole or
    /// not at all.
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError>;

    /// A watch over the keys and lists in `range`. It returns at once; a store that needs time to set it up wakes
    /// it when that is done.
    ///
    /// To miss nothing: make the watch, then read, then wait, then read again.
    fn watch(&self, range: Range) -> Watch;

    /// What this store takes.
    fn limits(&self) -> Limits;
}

/// A shared store is a store.
#[async_trait]
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        (**self).read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        (**self).commit(commit).await
    }

    fn watch(&self, range: Range) -> Watch {
        (**self).watch(range)
    }

    fn limits(&self) -> Limits {
        (**self).limits()
    }
}
