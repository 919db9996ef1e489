//! Sessions, members, elections and peer links of a fleet of processes, on any store of Tenure.
//!
//! ```
//! use std::sync::Arc;
//! use tenure_cluster::{Cluster, ClusterError, Settings};
//! use tenure_store::{Commit, Key, MemoryStore, Store};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let cluster = Cluster::join(Arc::clone(&store), Settings::new("orders", "worker-1")?).await?;
//!
//! let leadership = cluster.election("nightly")?.campaign().await?;
//! // Applied only while this term lasts, however late it arrives.
//! store.commit(leadership.guarded(Commit::new().set(Key::from("report"), "done"))).await?;
//!
//! leadership.resign().await?;
//! cluster.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//! | for | see |
//! | --- | --- |
//! | taking part | [`Cluster`], [`Settings`] |
//! | how long anything can be trusted | [`Session`], [`Hold`] |
//! | who is there | [`Members`], [`Member`] |
//! | who leads | [`Election`], [`Leadership`], [`Observation`], [`Participant`] |
//! | looking without taking part | [`Onlooker`] |
//! | leases for programs that are no nodes | [`Leases`] |
//! | messages between nodes, and to all of them | [`peer`] |
//! | ending a session when its process dies | [`Owner`], [`will`] |
//! | building more on a node: keys that go with its session | [`Ground`] |
//! | every key that is written | `keys.rs` |

mod cluster;
mod onlooker;
mod settings;

mod election;
mod member;
mod roster;
mod session;

mod ask;
mod error;
mod exits;
mod flaws;
mod ground;
mod lease;
mod locals;
mod node;
mod owner;
pub mod peer;
pub mod sql;
mod sweeper;
mod testator;
mod view;
mod warden;
pub mod will;

mod keys;

pub use ask::Ask;
pub use cluster::{Cluster, Event};
pub use election::{
    Callbacks, Election, Holder, Leadership, Led, Observation, Participant, PastTerm, Role, Term, TermEnd,
};
pub use error::ClusterError;
#[cfg(feature = "flaws")]
pub use flaws::Flaws;
pub use ground::Ground;
pub use keys::Keys;
pub use lease::{Lease, LeaseAnswer, LeaseSession, Leases};
pub use member::{Cause, Member, MemberState};
pub use onlooker::{Onlooker, Seen, Waiting};
pub use owner::{Owner, Proof};
pub use roster::{ChangeKind, Listed, MemberChange, MemberChanges, Members};
pub use session::{Hold, Session, SessionId};
pub use settings::Settings;
