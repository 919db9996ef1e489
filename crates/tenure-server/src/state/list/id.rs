//! [`ItemId`]: the name of an item in its list.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of an item in its list. It stays the same wherever the item moves, and is never given to another item of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemId(pub(super) u64);

impl ItemId {
    /// The id with this number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
