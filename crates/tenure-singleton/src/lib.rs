//! Singletons: work that runs on exactly one node of a fleet, started and stopped for you.
//!
//! ```
//! use std::sync::Arc;
//! use tenure_cluster::{Cluster, Settings};
//! use tenure_singleton::{Mandate, Singletons as _};
//! use tenure_store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::join(Arc::new(MemoryStore::new()), Settings::new("orders", "worker-1")?).await?;
//! let nightly = cluster
//!     .singleton("nightly", |mandate: Mandate| async move {
//!         // Work, until it is to end.
//!         mandate.cancelled().await;
//!     })
//!     .start()?;
//! nightly.leads().await;
//! // The child is stopped first; then the leadership is given up, and a successor starts at once.
//! cluster.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//! - **Never two.** The child runs only while the oracle's grant is valid on this node's own clock. It is cancelled while the grace is left, aborted before the deadline,
//!   and has ended before leadership is given up.
//! - **Never none for long.** A child that fails is started again with growing pauses; one that keeps failing costs its node the leadership for a while, so that
//!   another gets its chance.
//! - A child that blocks its thread can't be aborted. Then that is [told](Event::ChildOverran), nothing is released early, and the mandate's
//!   [guard](Mandate::guard) still keeps its commits out.
//!
//! # What it never does
//! It trusts no clock but its own, starts nothing without a valid grant, and ends no process: an application that wants to can do so in a [hook](SingletonBuilder::on_event).
//!
//! # Where to look
//! | for | see |
//! | --- | --- |
//! | starting one | [`Singletons`], [`SingletonBuilder`], [`Policy`] |
//! | what the work holds | [`Mandate`] |
//! | what happens when | [`Phase`], [`Event`] |
//! | many singletons, spread over the nodes | [`placement`] |
//! | other oracles than our election | [`oracle`] |
//! | running something else than a future | [`Seat`] |
//!
//! | metric | kind | what it counts |
//! | --- | --- | --- |
//! | `tenure_singleton_leading` | gauge | 1 while this node leads |
//! | `tenure_singleton_elected_total` | counter | times that it began to |
//! | `tenure_singleton_refreshes_total` | counter | times that the oracle said that leadership goes on |
//! | `tenure_singleton_lost_total` | counter | leaderships that were lost, not given up |
//! | `tenure_singleton_restarts_total` | counter | children that were started again |
//! | `tenure_singleton_overruns_total` | counter | children that did not end in time |

mod child;
mod event;
mod mandate;
pub mod oracle;
pub mod placement;
mod policy;
mod runner;
mod seat;
mod singleton;
mod teller;

pub use child::{Outcome, Standby};
pub use event::{ChildEnd, ChildKind, Event, Phase, Status, StopReason};
pub use mandate::{Mandate, Terms};
pub use oracle::{Answer, Asked, ElectionOracle, Grant, Oracle, Signaller, SignalsOracle, Validity};
pub use placement::{Placed, Placement};
pub use policy::{Policy, Restart};
pub use seat::{Seat, Told};
pub use singleton::{Singleton, SingletonBuilder, Singletons};
