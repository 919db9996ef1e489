//! Properties, one a file. Each compares what was acknowledged with what is there; none compares replicas with each other.

mod conserved;
mod converged;
mod exactly_once;

pub use conserved::Conserved;
pub(crate) use conserved::balance;
pub use converged::Converged;
pub use exactly_once::{ExactlyOnce, Outcome};
