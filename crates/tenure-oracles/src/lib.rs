//! Oracles for [singletons](tenure_singleton) whose elections are shared with other systems, over tables that those
//! have already.
//!
//! | oracle | election | how | fencing token |
//! | --- | --- | --- | --- |
//! | [`CrownLease`] | Crown's `crown_lease_v1`, in PostgreSQL | competes with Elixir nodes | yes, if it may be kept |
//! | [`ObanPeer`] | Oban's `oban_peers`, in PostgreSQL | follows its leader, never writes | when its leader was elected |
//! | [`DistributeLock`] | SOFA's `distribute_lock`, in MySQL and MariaDB | competes with Java nodes | yes |
//! | [`HttpLease`] | a lease service over HTTP, such as `tenure serve` | competes with whoever else asks it | if the service has one |
//!
//! # What all of them promise
//! - They keep the [contract of an oracle](tenure_singleton::oracle). A grant counts from before the question was
//!   sent, by a clock that nobody can step, and ends before anybody else may be granted the same.
//! - What the database did not answer, or answered with an error, is unknown: never a yes, never a no, never a panic.
//! - Each value of an oracle is a candidate of its own, also beside another of the same node.
//! - Each has one connection. It is opened at the first question, and again after it was lost.
//! - Only the clock of the database decides, so nodes need no clocks that agree. It must not jump: a step ahead ends
//!   leases early.
//!
//! # Example
//! ```no_run
//! use tenure_oracles::{CrownLease, CrownSettings};
//! use tenure_singleton::{Mandate, SingletonBuilder};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure_store::StoreError> {
//! let settings = CrownSettings::from_url("crown+postgres://localhost/app?lock=nightly", "nightly", "worker-1")?;
//! let work = |mandate: Mandate| async move { mandate.cancelled().await };
//! let nightly = SingletonBuilder::with_oracle("nightly", CrownLease::new(settings)?, work).start()?;
//! nightly.leads().await;
//! # Ok(())
//! # }
//! ```

mod address;
mod candidate;
mod open;

#[cfg(feature = "postgres")]
pub mod crown;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
pub mod oban;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "mysql")]
pub mod sofa;

#[cfg(feature = "postgres")]
pub use crown::{CrownLease, CrownSettings};
#[cfg(feature = "http")]
pub use http::{HttpLease, HttpSettings};
#[cfg(feature = "postgres")]
pub use oban::{ObanPeer, ObanSettings};
pub use open::open;
#[cfg(feature = "mysql")]
pub use sofa::{DistributeLock, LockState, SofaSettings};
