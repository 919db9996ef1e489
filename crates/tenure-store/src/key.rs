//! [`Key`] and [`Range`]: names in a store, as bytes, and stretches of them.

use std::fmt;

use bytes::Bytes;

/// The name of a value or of a list: any bytes, ordered byte by byte.
///
/// Keys that people chose the parts of are made with [`Tuple`](crate::Tuple), so that no choice of names can make two
/// different things meet at one key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// A key of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes of the key, shared and not copied.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// How many bytes the key has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the key has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This key with `tail` behind it.
    #[must_use]
    pub fn join(&self, tail: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.len() + tail.len());
        bytes.extend_from_slice(&self.0);
        bytes.extend_from_slice(tail);
        Self(bytes.into())
    }

    /// What stands behind `prefix` in this key, if the key starts with it.
    #[must_use]
    pub fn strip_prefix(&self, prefix: &Key) -> Option<Key> {
        self.0.starts_with(&prefix.0).then(|| Key(self.0.slice(prefix.len()..)))
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

/// Printable bytes as they are, the others escaped: safe for logs and terminals.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A stretch of keys: one key, all that start with a prefix, or all between two.
///
/// The three kinds are kept apart because watching one key or one prefix, which is what nearly everybody does, can be
/// looked up instead of searched for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range {
    /// Just this key.
    Key(Key),
    /// Every key that starts with these bytes; the empty key stands for every key there is.
    Prefix(Key),
    /// Every key from `start` up to, not including, `end`.
    Between {
        /// The first key of the range.
        start: Key,
        /// The first key behind the range.
        end: Key,
    },
}

impl Range {
    /// Every key there is.
    #[must_use]
    pub fn all() -> Self {
        Self::Prefix(Key::new(Bytes::new()))
    }

    /// The first key that may be in the range.
    #[must_use]
    pub fn start(&self) -> &Key {
        match self {
            Self::Key(key) | Self::Prefix(key) => key,
            Self::Between { start, .. } => start,
        }
    }

    /// The first key behind the range, or `None` where the range is open to the end.
    #[must_use]
    pub fn end(&self) -> Option<Key> {
        match self {
            Self::Key(key) => Some(key.join(&[0])),
            Self::Prefix(prefix) => after_prefix(prefix),
            Self::Between { end, .. } => Some(end.clone()),
        }
    }

    /// Whether `key` is in the range.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => key.0.starts_with(&prefix.0),
            Self::Between { start, end } => start <= key && key < end,
        }
    }

    /// Whether any key could be in both ranges.
    #[must_use]
    pub fn overlaps(&self, other: &Range) -> bool {
        let before = |a: &Range, b: &Range| a.end().is_some_and(|end| &end <= b.start());
        !self.is_empty() && !other.is_empty() && !before(self, other) && !before(other, self)
    }

    /// Whether no key can be in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Between { start, end } if start >= end)
    }

    /// The part of the range behind `key`: where the next page starts.
    #[must_use]
    pub fn after(&self, key: &Key) -> Self {
        let start = key.join(&[0]).max(self.start().clone());
        match self.end() {
            Some(end) => Self::Between { start, end },
            // Only a prefix without a successor (nothing, or all 0xFF) is open to the end. No key that the limits
            // admit lies at or above this many 0xFF.
            None => Self::Between { start, end: Key::new(vec![0xFF; crate::Limits::KEY_BYTES_MAX + 1]) },
        }
    }
}

/// The smallest key that is greater than every key starting with `prefix`.
fn after_prefix(prefix: &Key) -> Option<Key> {
    let bytes = prefix.as_bytes();
    let last = bytes.iter().rposition(|byte| *byte != 0xFF)?;
    let mut end = bytes[..=last].to_vec();
    end[last] += 1;
    Some(Key::from(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(start: &str, end: &str) -> Range {
        Range::Between { start: start.into(), end: end.into() }
    }

    #[test]
    fn a_prefix_ends_where_nothing_can_start_with_it() {
        assert_eq!(Range::Prefix("ab".into()).end(), Some("ac".into()));
        assert_eq!(Range::Prefix(Key::new(vec![1, 0xFF, 0xFF])).end(), Some(Key::new(vec![2])));
        assert_eq!(Range::Prefix(Key::new(vec![0xFF])).end(), None);
        assert_eq!(Range::all().end(), None);
    }

    #[test]
    fn overlap_is_symmetric_and_ignores_empty_ranges() {
        let cases = [
            (between("a", "c"), between("b", "d"), true),
            (between("a", "b"), between("b", "c"), false),
            (Range::all(), Range::Key("x".into()), true),
            (Range::Prefix("a".into()), Range::Key("ab".into()), true),
            (Range::Prefix("a".into()), Range::Key("b".into()), false),
            (between("b", "a"), Range::all(), false),
        ];
        for (left, right, expected) in cases {
            assert_eq!(left.overlaps(&right), expected, "{left:?} {right:?}");
            assert_eq!(right.overlaps(&left), expected, "{right:?} {left:?}");
        }
    }

    #[test]
    fn the_next_page_starts_behind_the_last_key() {
        let rest = Range::all().after(&"m".into());
        assert!(!rest.contains(&"m".into()) && rest.contains(&Key::new(b"m\0".to_vec())));
        assert!(rest.contains(&Key::new(vec![0xFF; 40])));
    }
}
