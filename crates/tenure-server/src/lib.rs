//! Durable servers: state and a queue that outlive every process, on any store of Tenure.
//!
//! # What it promises
//! - A message that was acknowledged is applied to the state **exactly once**, through lost answers, crashes, conflicts and retries, in an order that agrees with each sender's own and with real time.
//! - What a message changes, its answer, and what it sends to other servers are one commit.
//! - Nothing stays locked because a process died.
//!
//! # What is durable and what is local
//! Durable: state, queue, answers that nobody has read, timers, effects, dead letters. Local: a cache of states, worth nothing without the check of every commit.
//!
//! # Walk-through
//! ```
//! use std::sync::Arc;
//! use tenure_cluster::{Cluster, Settings};
//! use tenure_server::{Context, Failure, Never, Serve, Server};
//! use tenure_store::MemoryStore;
//!
//! #[derive(Default)]
//! struct Counter;
//!
//! impl Server for Counter {
//!     const KIND: &'static str = "counter";
//!     type State = u64;
//!     type Call = u64;
//!     type Reply = u64;
//!     type Cast = u64;
//!     type Effect = Never;
//!
//!     fn handle_call(&self, total: &mut u64, add: &u64, _: &mut Context<'_, Self>) -> Result<Option<u64>, Failure> {
//!         *total += add;
//!         Ok(Some(*total))
//!     }
//!
//!     fn handle_cast(&self, total: &mut u64, add: &u64, _: &mut Context<'_, Self>) -> Result<(), Failure> {
//!         *total += add;
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::join(Arc::new(MemoryStore::new()), Settings::new("shop", "node-1")?).await?;
//! cluster.serve::<Counter>()?;
//! let visits = cluster.server::<Counter>("visits")?;
//! visits.cast(2).await?;
//! assert_eq!(visits.call(3).await?, 5);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//! | for | see |
//! | --- | --- |
//! | what a server does | [`Server`], [`Context`], [`Policy`] |
//! | sending to one | [`ServerRef`], [`CallOptions`] |
//! | serving a kind | [`Serve`] |
//! | servers whose code is elsewhere | [`AnyServer`], [`Survey`] |
//! | states in parts | [`state`] |
//! | how one server is run | `desk/` |
//! | every key that is written | `keys.rs` |
//!
//! | metric | kind | labels | what it counts |
//! | --- | --- | --- | --- |
//! | `tenure_server_messages_total` | counter | `kind` | messages handled |
//! | `tenure_server_commits_total` | counter | `kind` | commits that handled them |
//! | `tenure_server_batch_messages` | histogram | `kind` | messages in a commit |
//! | `tenure_server_conflicts_total` | counter | `kind` | commits that met another's |
//! | `tenure_server_loads_total` | counter | `kind` | states read from the store |
//! | `tenure_server_callback_seconds` | histogram | `kind` | time in a callback |
//! | `tenure_server_slow_callbacks_total` | counter | `kind`, `sort` | callbacks slower than the policy says, of calls, casts and folds; counted while they run |
//! | `tenure_server_slow_callbacks` | gauge | `kind`, `sort` | the same that run now |
//! | `tenure_server_call_seconds` | histogram | `kind` | from a call to its answer |
//! | `tenure_server_queue_messages` | histogram | `kind` | messages that waited when a desk looked, up to a page |
//! | `tenure_server_queue_seconds` | histogram | `kind` | how long the first of them had waited, by wall clocks |
//! | `tenure_server_dead_letters_total` | counter | `kind` | dead letters |
//! | `tenure_server_effects_failed_total` | counter | `kind` | tries of effects that failed, or took too long |
//! | `tenure_server_unsent_total` | counter | `kind` | messages that nobody waited for and that were not sent |
//! | `tenure_server_cached` | gauge | `kind` | servers in memory |
//! | `tenure_server_swept_total` | counter | `kind` | old answers, dead letters and answers that are owed to nobody any more, removed |
//!
//! Spans, at debug level: `server.call` and `server.cast` at the sender, `server.handle`, `server.locked` and `server.effect` where it is handled. The field `message` is the same in
//! all of them.

mod any;
mod context;
mod dead;
mod error;
mod handle;
mod json;
mod operate;
mod server;
mod servers;
pub mod state;
mod survey;

mod births;
mod consumer;
mod consuming;
mod courier;
mod desk;
mod effects;
mod farewell;
mod flaws;
mod kind;
mod lane;
mod mailroom;
mod watchdog;

mod head;
mod keys;
mod once;
mod owed;
mod parcel;
mod reply;

pub use any::AnyServer;
pub use context::{Context, ReplyTo, Timer};
pub use dead::DeadLetter;
pub use desk::{Locked, LockedRequest};
pub use error::ServerError;
#[cfg(feature = "flaws")]
pub use flaws::Flaws;
pub use handle::{CALL_TIMEOUT, CallOptions, ServerRef, message_bytes_max};
pub use json::Json;
pub use once::IDEMPOTENCY_KEY_BYTES_MAX;
pub use operate::Status;
pub use parcel::Attempt;
pub use server::{EffectId, Failure, Fold, Message, Never, Policy, Server};
#[cfg(feature = "flaws")]
pub use servers::plant;
pub use servers::{Serve, Serving};
pub use state::{List, Map, RawParts, State, StateError, Stored, Whole};
pub use survey::{Backlog, KindSeen, ServerSeen, Survey};
