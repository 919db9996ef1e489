//! What is told: one set of shapes for `--json`, for the daemon's answers and for its page.
//!
//! They are a promise: `docs/operate/openapi.json` has their schemas, and a member is added, never changed or removed.

mod doctor;
mod done;
mod elections;
mod events;
mod members;
mod registries;
mod servers;
mod why;

use std::time::Duration;

use serde::Serialize;
use tenure::{
    cluster::{MemberState, Onlooker},
    registry::RegistryView,
    server::Survey as _,
    store::StoreError,
};
use utoipa::ToSchema;

pub(crate) use doctor::{
    Assumed, Costs, Diagnosis, Finding, Latency, Measured, Promise, StoreLimits, Verdict,
};
pub(crate) use done::{Change, Operated, Reply, StoreSchema};
pub(crate) use elections::{Candidate, Election, ElectionDetail, Leader, PastTerm, SESSION_ENDED};
pub(crate) use events::Event;
pub(crate) use members::{Member, State};
pub(crate) use registries::{Entry, Registry};
pub(crate) use servers::{Attempt, BUSY_MAX, DeadLetter, Kind, Server};
pub(crate) use why::{Explained, Why};

/// Some of many.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Items<T> {
    pub(crate) items: Vec<T>,
    /// Where the next page begins, to be given as `after`; null if there is none.
    pub(crate) next: Option<String>,
}

impl<T> Items<T> {
    /// All of them.
    pub(crate) fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// A page, of `found` that may have one more than `limit`.
    pub(crate) fn page(mut items: Vec<T>, limit: usize, name: impl Fn(&T) -> String) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(name);
        Self { items, next }
    }
}

/// How many kinds of servers are counted at a glance.
const KINDS_MAX: usize = 1000;

/// A cluster at a glance.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Status {
    pub(crate) cluster: String,
    /// What kind of store it is in.
    pub(crate) store: String,
    /// The version of this program.
    pub(crate) version: String,
    pub(crate) members: MemberCounts,
    pub(crate) elections: ElectionCounts,
    pub(crate) servers: ServerCounts,
    pub(crate) registries: u64,
}

impl Status {
    /// Reads it; `store` is what kind of store it is in.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn read(look: &Onlooker, store: &str) -> Result<Self, StoreError> {
        let (mut members, mut elections) = (MemberCounts::default(), ElectionCounts::default());
        for listed in look.members().list().await? {
            match listed.member.state {
                MemberState::Live => members.live += 1,
                MemberState::Suspect => members.suspect += 1,
                _ => members.gone += 1,
            }
        }
        for seen in look.elections(None, usize::MAX).await? {
            if seen.leader.is_some() { elections.led += 1 } else { elections.vacant += 1 }
        }
        let kinds = look.kinds(None, KINDS_MAX).await?;
        Ok(Self {
            cluster: look.cluster().to_string(),
            store: store.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            members,
            elections,
            servers: ServerCounts {
                kinds: kinds.len() as u64,
                busy: kinds.iter().map(|kind| kind.busy).sum(),
                dead_letters: kinds.iter().map(|kind| kind.dead_letters).sum(),
            },
            registries: RegistryView::all(look).await?.len() as u64,
        })
    }
}

impl Status {
    /// Whether there is nothing, as where nobody has ever been.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { members, elections, servers, registries, .. } = self;
        members.live
            + members.suspect
            + members.gone
            + elections.led
            + elections.vacant
            + servers.kinds
            + registries
            == 0
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct MemberCounts {
    pub(crate) live: u64,
    pub(crate) suspect: u64,
    pub(crate) gone: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ElectionCounts {
    pub(crate) led: u64,
    pub(crate) vacant: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ServerCounts {
    /// Kinds of servers, counted no further than 1,000.
    pub(crate) kinds: u64,
    /// Servers that have messages or effects; counted no further than a page for each kind.
    pub(crate) busy: u64,
    pub(crate) dead_letters: u64,
}

/// Milliseconds, as JSON has them.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
