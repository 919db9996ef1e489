//! [`Query`]: which registrations are meant.

use crate::Entry;

/// Which registrations are meant: all whose name begins so, and whose labels are all as said.
///
/// ```
/// use tenure_registry::Query;
///
/// let query = Query::all().named("user/").label("zone", "eu").label_prefix("release", "2.");
/// # let _ = query;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub(crate) prefix: String,
    pub(crate) labels: Vec<(String, Is)>,
}

/// What a label is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    /// This.
    Equal(String),
    /// Something that begins so.
    Prefix(String),
}

impl Is {
    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Equal(wanted) => value == wanted,
            Self::Prefix(prefix) => value.starts_with(&**prefix),
        }
    }
}

impl Query {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Those whose name begins so. The last one said counts.
    #[must_use]
    pub fn named(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Those that have this label with this value.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), Is::Equal(value.into())));
        self
    }

    /// Those that have this label with a value that begins so; with any, if `prefix` is empty.
    #[must_use]
    pub fn label_prefix(mut self, key: impl Into<String>, prefix: impl Into<String>) -> Self {
        self.labels.push((key.into(), Is::Prefix(prefix.into())));
        self
    }

    /// Whether this one is meant.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        entry.name.starts_with(&*self.prefix)
            && self
                .labels
                .iter()
                .all(|(key, is)| entry.metadata.labels.get(key).is_some_and(|value| is.matches(value)))
    }
}
