//! What `doctor` finds.

use serde::Serialize;
use tenure::store::Limits;
use utoipa::ToSchema;

/// How a store is, and what it promises with given settings.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Diagnosis {
    pub(crate) cluster: String,
    /// What kind of store it is.
    pub(crate) store: String,
    /// The version of this program.
    pub(crate) version: String,
    /// Whether nothing must be changed.
    pub(crate) healthy: bool,
    pub(crate) checks: Vec<Finding>,
    pub(crate) measured: Measured,
    pub(crate) limits: StoreLimits,
    pub(crate) settings: Assumed,
    pub(crate) promises: Vec<Promise>,
    pub(crate) costs: Costs,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) check: String,
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
    /// What to do, if there is something.
    pub(crate) advice: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Good,
    /// It works, and could be better.
    Doubtful,
    /// It must be changed.
    Bad,
}

/// What was measured just now, from here.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct Measured {
    pub(crate) connect_ms: f64,
    pub(crate) read: Latency,
    pub(crate) commit: Latency,
    /// From the beginning of a commit until another connection was woken by it.
    pub(crate) waking: Latency,
    /// How many commits a second many at once make.
    pub(crate) commits_per_second: f64,
}

/// How long something took.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Latency {
    pub(crate) samples: u64,
    pub(crate) median_ms: f64,
    pub(crate) worst_ms: f64,
}

/// How large things may be in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct StoreLimits {
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) commit_operations: u64,
    pub(crate) commit_bytes: u64,
}

impl From<Limits> for StoreLimits {
    fn from(limits: Limits) -> Self {
        Self {
            key_bytes: limits.key_bytes as u64,
            value_bytes: limits.value_bytes as u64,
            commit_operations: limits.commit_operations as u64,
            commit_bytes: limits.commit_bytes as u64,
        }
    }
}

/// The settings that the promises are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Assumed {
    pub(crate) ttl_ms: u64,
    pub(crate) heartbeat_ms: u64,
    pub(crate) nodes: u64,
}

/// How long nobody leads when something happens to the leader.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Promise {
    /// What happens.
    pub(crate) case: String,
    /// Nobody leads for as long as this at least.
    pub(crate) from_ms: f64,
    /// And about this at most.
    pub(crate) to_ms: f64,
    /// Why.
    pub(crate) text: String,
}

/// What a fleet costs while nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Costs {
    /// Renewals of sessions: one a node and heartbeat, however many offices it holds.
    pub(crate) commits_per_second: f64,
    /// Which part that is of what was measured.
    pub(crate) share: f64,
}
