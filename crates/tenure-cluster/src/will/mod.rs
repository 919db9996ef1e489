//! The last will: a small process of its own that ends a node's session at the instant in which the node dies.
//!
//! # What it promises
//! After a crash of the node (kill -9, out of memory, abort, `exit` without a goodbye) its session is ended within milliseconds, though nobody else be there.
//! Never is it ended by this while the node lives: a pause, a partition or a stopped process is not a death.
//!
//! # What is durable and what is local
//! Nothing is durable. The executor holds the will in its memory, and nowhere else.
//!
//! # Life cycle
//! 1. [`LastWill::start`] starts the program and hands the will over through a pipe, of which the node keeps the writing end. The executor answers when it has it.
//! 2. [`LastWill::replace`] hands over another, when the node has another session. The latest counts.
//! 3. The executor waits, blocked in one read, with about the memory of an empty program.
//! 4. [`LastWill::revoke`], at a clean leave, lets it end without doing anything. Or the node dies, and it carries the will out: it tries for a minute
//!    at most, and ends. What could not be done by then, the ttl has done.
//!
//! # Why the end of the pipe proves the death
//! The node never closes its end: not even a [`LastWill`] that is dropped does, it is kept open for as long as the process lives. So it is closed by the kernel, when
//! the last thread that shares the node's descriptors is gone, and from then on no instruction of the node runs. Others can't hold
//! it: the pipe is made with `O_CLOEXEC`, so that no program that the node starts gets it. A child that was forked and starts no program does;
//! then the end comes when that one is gone too, which is later, and as true.
//!
//! Code that closes descriptors it does not own (`closefrom`), or a node that replaces its own program (`exec`), would end the pipe early. So the executor looks once more, and
//! carries the will out only when there is [proof](crate::Owner::proof) that the process is dead. Only where it can't look, because the node is no
//! [neighbour](crate::Owner::is_neighbour) of its own child or nothing is known of it, does the pipe alone decide.
//!
//! # Where it does not work
//! It is not carried out, and the session waits for the ttl, where the executor dies together with the node: with the machine; with process 1 of a container, which takes all others
//! along ([`LastWill::start`] refuses to be started there: run the node under an init); by a group kill of the out-of-memory killer; or when somebody kills both.
//! A supervisor that sends SIGTERM to what is left of a service does no harm: the executor does not listen to it, and is soon gone by itself.
//!
//! # What the caller must do
//! Give a program that calls [`executor()`] before anything else, and ends the session of the will that it is given: if it exists, and no other. Go on without a last
//! will, with a warning, when it can't be started or [is lost](LastWill::lost).
//!
//! # What it never does
//! It puts no secret into arguments or environment. It keeps none of the node's files, folders, terminals or groups busy. It leaves no zombie behind.

mod error;
mod last_will;
mod message;
mod process;
mod program;

mod executor;

use std::{fmt, sync::Arc};

use tenure_store::{CommitError, Env, Name, Store};

pub use self::{
    error::WillError,
    executor::{UNHEARD, executor},
    last_will::LastWill,
    program::WillProgram,
};
use crate::{
    Cause, Owner, SessionId, Settings,
    node::Node,
    session::{Evidence, end},
};

/// Ends the session of a will, if it exists: what a program that calls [`executor()`] does when the time has come.
///
/// # Errors
/// As [`Store::commit`]; it may be tried again, whatever the error.
pub async fn carry_out(will: &Will, store: Arc<dyn Store>) -> Result<(), CommitError> {
    let settings = Settings::of_cluster(will.cluster().clone());
    let node = Node::new(store, Env::system(), settings);
    end(&node, will.session(), Evidence::Certain, Cause::LastWill).await.map(|_| ())
}

/// What is to be done when a node dies: end this session, in this cluster, in this store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    url: SecretUrl,
    cluster: Name,
    session: SessionId,
    owner: Owner,
}

impl Will {
    /// Where the store is. This may contain a password: it is for opening the store, and for nobody to see.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url.0
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Name {
        &self.cluster
    }

    /// The session to be ended.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Whose death it is about.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

/// A URL that may contain a password. It can be used, but not printed.
#[derive(Clone, PartialEq, Eq)]
struct SecretUrl(String);

impl SecretUrl {
    /// The longest. A whole will fits [one write to a pipe](message::BYTES_MAX) with it.
    const BYTES_MAX: usize = 3072;
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}
