//! Properties, one a file. Each compares what was acknowledged with what is there; none compares replicas with each other.

mod chronicle;
mod claims;
mod conserved;
mod converged;
mod exactly_once;
mod journal;
mod offices;
mod one_leader;
mod one_owner;
mod settled;
mod spared;

pub use chronicle::{Chronicle, Counts};
pub use claims::Claims;
pub use conserved::Conserved;
pub(crate) use conserved::balance;
pub use converged::Converged;
pub use exactly_once::{ExactlyOnce, Outcome};
pub use journal::{Journal, Order};
pub use offices::{Offices, WORK, work};
pub use one_leader::OneLeader;
pub use one_owner::OneOwner;
pub use settled::Settled;
pub use spared::Spared;
