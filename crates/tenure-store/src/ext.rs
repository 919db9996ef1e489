//! [`StoreExt`]: conveniences over the contract.

use async_trait::async_trait;

use crate::{Answer, Entry, Item, Key, Page, Range, Read, Store, StoreError, Versioned};

/// What most readers want, in one call each. Every store has it.
#[async_trait]
pub trait StoreExt: Store {
    /// The value of one key, if it exists.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, StoreError> {
        match self.one(Read::Key(key.clone())).await? {
            Answer::Key(found) => Ok(found),
            other => Err(mismatch(&other)),
        }
    }

    /// The first keys in a range.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn scan(&self, range: &Range, limit: usize) -> Result<Page<Item>, StoreError> {
        match self.one(Read::Range { range: range.clone(), limit }).await? {
            Answer::Range(page) => Ok(page),
            other => Err(mismatch(&other)),
        }
    }

    /// The first entries of a list.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn entries(&self, list: &Key, limit: usize) -> Result<Page<Entry>, StoreError> {
        match self.one(Read::List { list: list.clone(), after: None, limit }).await? {
            Answer::List(page) => Ok(page),
            other => Err(mismatch(&other)),
        }
    }

    /// The answer to a single question.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn one(&self, read: Read) -> Result<Answer, StoreError> {
        let mut answers = self.read(vec![read]).await?.into_answers();
        answers.pop().ok_or_else(|| StoreError::corrupt("the store gave no answer to a question"))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

fn mismatch(answer: &Answer) -> StoreError {
    StoreError::corrupt(format!("the store answered another question than was asked: {answer:?}"))
}
