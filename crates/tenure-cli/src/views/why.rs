//! Why somebody leads, and why a name is whose it is.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Candidate, Election, Entry, Leader, PastTerm, State};

/// Who leads, and how that came about.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Why {
    #[serde(flatten)]
    pub(crate) election: Election,
    /// Whoever led in this term, if its session has ended and nobody has taken the office since.
    pub(crate) ended: Option<Leader>,
    /// The term before.
    pub(crate) before: Option<PastTerm>,
    /// For how long nobody led between the two, by the wall clocks of whoever wrote them.
    pub(crate) gap_ms: Option<u64>,
    /// Who waits, the first first.
    pub(crate) candidates: Vec<Candidate>,
    /// All this in sentences.
    pub(crate) reasons: Vec<String>,
}

/// All that is known of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Explained {
    pub(crate) registry: String,
    pub(crate) name: String,
    /// The registration; null if the name is free.
    pub(crate) entry: Option<Entry>,
    /// How its owner is; null if nothing is known of it.
    pub(crate) owner: Option<State>,
    /// The node that leads the registry.
    pub(crate) leader: Option<String>,
    pub(crate) epoch: u64,
    /// Up to which batch this is known.
    pub(crate) position: u64,
    /// All this in sentences.
    pub(crate) reasons: Vec<String>,
}
