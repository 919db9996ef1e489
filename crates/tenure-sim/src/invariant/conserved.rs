//! [`Conserved`]: a sum that no commit may change, at any instant.

use tenure_store::{Read, Snapshot};

/// Accounts whose sum stays what it was.
#[derive(Clone, Debug)]
pub struct Conserved {
    accounts: Vec<tenure_store::Key>,
    sum: u64,
}

impl Conserved {
    /// These accounts always hold this much together.
    #[must_use]
    pub fn new(accounts: Vec<tenure_store::Key>, sum: u64) -> Self {
        Self { accounts, sum }
    }

    /// What to read to check it.
    #[must_use]
    pub fn reads(&self) -> Vec<Read> {
        self.accounts.iter().cloned().map(Read::Key).collect()
    }

    /// Checks one instant.
    ///
    /// # Errors
    /// What the sum is instead.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let balance = |index| snapshot.key(index).map_or(0, |found| balance(&found.value));
        let sum: u64 = (0..self.accounts.len()).map(balance).sum();
        if sum == self.sum { Ok(()) } else { Err(format!("the sum is {sum} instead of {}", self.sum)) }
    }
}

/// The balance that a value stands for.
pub(crate) fn balance(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("a balance has eight bytes"))
}
