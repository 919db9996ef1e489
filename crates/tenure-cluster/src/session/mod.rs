//! [`Session`]: one incarnation of a node, and how long it can be trusted.
//!
//! # What it promises
//! While [`Session::remaining`] is above zero, nobody else has ended this session, or can before it is zero. When it gets there without a
//! renewal, everything that hangs on the session is told, and only then could another take over.
//!
//! # What is durable and what is local
//! Durable: the session's key, which says that it exists, and its beat, which counts its renewals. Local: the deadline.
//!
//! # Life cycle
//! 1. **Joining** writes the keys, under the condition that no other live process has the node's name.
//! 2. **Renewing** overwrites the beat, under the condition that the session exists. The deadline is the ttl after the moment *before* the renewal was
//!    sent, less a margin for clocks that run at different speeds.
//! 3. **Lapsing**: the deadline passes without a renewal. All that hangs on the session is lost locally. A renewal that
//!    succeeds later shows that nobody had ended it, and the same session goes on.
//! 4. **Ending** deletes the keys, by one commit: the owner's goodbye, proof of its death, its last will, or a warden that saw the beat
//!    unchanged for the whole ttl. An ended session never comes back; the node joins again with another.
//!
//! # Safety and liveness
//! No two clocks are compared. The owner measures from before it sent a renewal; a warden from after it saw that renewal. A session is ended only if its
//! beat is still the one that the warden saw.
//!
//! # What it never does
//! It never revives a session, never trusts a wall clock, and never counts an answer that was lost as a renewal.

mod end;
mod id;
mod join;
mod keeper;
mod record;
mod standing;

pub use id::SessionId;
pub use standing::{Hold, Session};

pub(crate) use end::{Evidence, end};
pub(crate) use join::join;
pub(crate) use keeper::{Keeper, Keeping};
pub(crate) use record::{Beat, Identity};
