//! [`Entry`]: a registered name, whose it is, and what is said about it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Name,
    record::{Decoder, Encoder, Flaw},
};

use crate::RegistryError;

/// The node that owns a name, in one incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its name.
    pub node: Name,
    /// Its session: the name is worth nothing without it.
    pub session: SessionId,
}

impl Owner {
    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        encoder.text(self.node.as_str()).array(self.session.to_bytes())
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        Ok(Self { node: decoder.name()?, session: SessionId::from_bytes(decoder.array()?) })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (session {})", self.node, self.session)
    }
}

/// What is said about a registration: labels, by which it can be found, and data, for whoever found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Searchable; see [`Query`](crate::Query).
    pub labels: BTreeMap<String, String>,
    /// Anything else.
    pub data: Bytes,
}

impl Metadata {
    /// The most bytes of all labels and the data together: a batch has room for many of them.
    pub const BYTES_MAX: usize = 16 * 1024;

    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also this label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// With this data.
    #[must_use]
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Refuses what is too large.
    pub(crate) fn admit(&self) -> Result<(), RegistryError> {
        let bytes = self.bytes();
        if bytes <= Self::BYTES_MAX {
            return Ok(());
        }
        Err(RegistryError::Invalid(format!(
            "metadata has {bytes} bytes, the most is {}: keep it elsewhere, and say here where it is",
            Self::BYTES_MAX
        )))
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.data.is_empty()
    }

    /// How many bytes its labels and data have.
    pub(crate) fn bytes(&self) -> usize {
        self.labels.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() + self.data.len()
    }

    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        encoder
            .many(self.labels.iter(), |encoder, (key, value)| encoder.text(key).text(value))
            .bytes(&self.data)
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        let labels = decoder.many(|decoder| Ok((decoder.text()?.to_owned(), decoder.text()?.to_owned())))?;
        if !labels.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Err(Flaw::new("labels out of order"));
        }
        Ok(Self { labels: labels.into_iter().collect(), data: Bytes::copy_from_slice(decoder.bytes()?) })
    }
}

/// A registered name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) number: u64,
    /// The number of the request by which it was last described.
    pub(crate) described: u64,
    pub(crate) metadata: Metadata,
    pub(crate) since_ms: u64,
    pub(crate) epoch: u64,
    pub(crate) position: u64,
}

impl Entry {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Tells this registration from others of the same owner. No number is used twice in a session.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What is said about it.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// When it was registered, by the wall clock of whoever led then, since 1970.
    #[must_use]
    pub fn since(&self) -> Duration {
        Duration::from_millis(self.since_ms)
    }

    /// The epoch in which it was registered.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The batch of the log that it was committed in.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// About how many bytes it takes in a page.
    pub(crate) fn weight(&self) -> usize {
        self.name.len() + self.owner.node.as_str().len() + self.metadata.bytes() + 88
    }

    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        let encoder = self.owner.encode(encoder.text(&self.name)).number(self.number).number(self.described);
        self.metadata.encode(encoder.number(self.since_ms).number(self.epoch).number(self.position))
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        let name = Arc::from(decoder.name()?.as_str());
        let owner = Arc::new(Owner::decode(decoder)?);
        let (number, described, since_ms) = (decoder.number()?, decoder.number()?, decoder.number()?);
        let (epoch, position) = (decoder.number()?, decoder.number()?);
        let metadata = Metadata::decode(decoder)?;
        Ok(Self { name, owner, number, described, metadata, since_ms, epoch, position })
    }
}
