//! Unique names for live mailboxes, across a fleet of processes, on any store of Tenure.
//!
//! # What it promises
//! - A registration that was acknowledged is **unique**, and lasts until its owner takes it back or the owner's session ends: through the crash of every other member, the leader included.
//! - Three outcomes are told apart: registered, taken (and by whom), unknown.
//! - **A name is never live twice.** Its mailbox is closed before its owner's session can have ended, and only then is the name free. Nobody is killed to repair a conflict: there is none.
//! - Look-ups read memory. One that must not miss anything asks the leader, which proves that it still leads.
//!
//! # What is durable, what is local
//! Durable: who takes part and who leads (the [`Elector`], a durable server), and all names with their owners, as a log and pages. Local: every member's copy of all names, and the mailboxes.
//!
//! # Walk-through
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tenure_cluster::{Cluster, Settings};
//! use tenure_registry::{Registries, mailbox};
//! use tenure_store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::join(Arc::new(MemoryStore::new()), Settings::new("shop", "node-1")?).await?;
//! let users = cluster.registry("users").await?;
//!
//! let (mailbox, mut inbox) = mailbox::<String, usize>(16);
//! let alice = users.register("alice", &mailbox).await?;
//! tokio::spawn(async move {
//!     while let Some(letter) = inbox.recv().await {
//!         let length = letter.message.len();
//!         let _ = letter.reply(&length);
//!     }
//! });
//!
//! // From any node of the cluster:
//! let length: usize = users.call("alice", &"hello".to_owned(), Duration::from_secs(1)).await?;
//! assert_eq!(length, 5);
//! assert_eq!(users.whereis("alice").map(|entry| entry.number()), Some(alice.number()));
//! # Ok(())
//! # }
//! ```
//!
//! # How a name is registered
//! 1. The owner's node brings the request to the leader: in memory, by a link, or through the store.
//! 2. The leader decides all requests that wait, one after another, and commits them as one batch. The commit checks that it still leads, that the log has nothing at this position yet, and that the
//!    owners' sessions exist.
//! 3. It applies the batch, tells all followers, and answers. Followers apply contiguous batches only, and read the log in the store if something is missing.
//! 4. The owner's node applies the batch before its caller is told.
//!
//! A request may be sent more than once, and a copy may come late. It is known for one by the owner's floor, the least number of a request that it still waits for, which goes with each and is stored: see `outbox.rs` and `order.rs`.
//!
//! # Nodes without an address
//! They look up, register and follow like all others, through the store: their requests take two commits instead of one. Messages can't be sent to them or from them: that is refused with
//! [`Undelivered::NoWay`].
//!
//! # When the network parts
//! Whoever reaches the store can register, though it reaches no other node. Whoever does not gets [`RegistryError::Unavailable`] or [`RegistryError::OutcomeUnknown`], and may try again; its own names are
//! closed when its session lapses.
//!
//! # Where to look
//! | for | see |
//! | --- | --- |
//! | registering, looking up, sending | [`Registry`], [`Registration`] |
//! | looking without taking part | [`RegistryView`] |
//! | who leads, and how that changes | [`Elector`] |
//! | how a leader commits | `leader.rs`, and `pages.rs` for how the log is kept short |
//! | this node's copy of all names | `names.rs` |
//! | every key that is written | `keys.rs` |
//!
//! | metric | kind | labels | what it counts |
//! | --- | --- | --- | --- |
//! | `tenure_registry_reigns_total` | counter | `registry` | how often this node began to lead |
//! | `tenure_registry_commit_seconds` | histogram | `registry` | how long a batch took to be committed |
//! | `tenure_registry_batch_changes` | histogram | `registry` | changes in a batch |
//! | `tenure_registry_names` | gauge | `registry` | names that this node knows |
//! | `tenure_registry_lag_batches` | gauge | `registry` | batches that this node knows of and has still to apply |
//! | `tenure_registry_requests_total` | counter | `registry`, `outcome` | requests of this node: `done`, `taken`, `lost`, `unavailable`, `unknown` |
//! | `tenure_registry_messages_total` | counter | `registry`, `outcome` | messages that this node sent to names: `delivered`, `answered`, `refused` (not delivered, or nobody has the name), `unanswered`, `timed_out` |
//! | `tenure_registry_gaps_total` | counter | `registry` | how often a follower had to read the store because something was missing |
//!
//! They are found when a registry is opened: install the recorder before.
//!
//! Events are `registry.leads` and `registry.leads_no_longer` at info level; `registry.not_transferred`, `registry.not_assumed`, `registry.not_read`, `registry.not_gathered`, `registry.not_ushered` at debug level for
//! what is tried again or found out otherwise; `registry.not_understood` at warn level for what another release may have said; `registry.not_committed` at error level.

mod elector;
mod entry;
mod error;
mod mailbox;
mod open;
mod query;
mod registration;
mod registry;
mod status;
mod subscription;
mod view;
mod wire;

mod calls;
mod leader;
mod mailroom;
mod member;
mod order;
mod outbox;
mod postman;
mod receiver;
mod request;
mod scout;
mod streams;
mod usher;

mod batch;
mod flaws;
mod keys;
mod log;
mod message;
mod meters;
mod names;
mod pages;
#[cfg(feature = "flaws")]
mod records;

pub use elector::{Answered, Council, Elector, Handover, Inquiry, Joined, Led, MemberId, Membership, Token};
pub use entry::{Entry, Metadata, Owner};
pub use error::{RegistryError, Undelivered};
#[cfg(feature = "flaws")]
pub use flaws::Flaws;
pub use mailbox::{Inbox, Letter, Mailbox, Post, mailbox};
#[cfg(feature = "flaws")]
pub use open::plant;
pub use open::{REGISTRY_NAME_BYTES_MAX, Registries};
pub use query::Query;
#[cfg(feature = "flaws")]
pub use records::{Record, Recorded, Records};
pub use registration::{Registration, Spawned};
pub use registry::{Leaders, Page, Registry, TIMEOUT};
pub use status::{Explanation, Status};
pub use subscription::{Event, Subscription};
pub use view::RegistryView;
pub use wire::{Incoming, Undelivered as NotSent, Wire};
