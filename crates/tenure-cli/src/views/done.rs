//! What commands that change something have done.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Election, Leader};

/// What came of asking a leader to go, or of taking its office.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Change {
    /// Who led.
    pub(crate) leader: Leader,
    /// In which term.
    pub(crate) term: u64,
    /// Whether it no longer leads in that term.
    pub(crate) done: bool,
    /// The election afterwards.
    pub(crate) now: Election,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Reply {
    #[schema(value_type = Value)]
    pub(crate) reply: Value,
}

/// What was done to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Operated {
    pub(crate) kind: String,
    pub(crate) id: String,
    /// `sent`, `replayed`, `dropped`, `unlocked` or `deleted`.
    pub(crate) done: String,
    /// Which dead letters.
    pub(crate) dead_letters: Vec<u64>,
}

/// What a store needs created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct StoreSchema {
    /// What kind of store it is.
    pub(crate) store: String,
    /// The statements; null if it needs none.
    pub(crate) sql: Option<String>,
    /// What to know about them.
    pub(crate) note: String,
}
