//! Noticing at once that a process of this machine has ended.
//!
//! # What it promises
//! [`exited`] is done when there is [proof](Owner::proof) of an owner's death, and never before. For neighbours that is within a millisecond
//! or so of their death, by a descriptor of the process (`pidfd_open`, Linux 5.3) that the runtime waits for together with its sockets: no
//! thread, no polling. Where the kernel gives none, or we have too many open files, it is looked for ten times a second.
//!
//! # What decides
//! The descriptor only says when to look; [`Owner::proof`] decides. So a descriptor of the wrong process can delay a proof, and never make a
//! false one. That it is the right one is checked by looking once more *after* it was opened: an owner that is alive then, and had
//! this process id before, has had it all the time in between.
//!
//! # What it never does
//! It never ends for owners of whom there can't be proof, and costs nothing for them: those of another machine, boot or pid namespace, and
//! ourselves. Simulated nodes are such owners.

use std::{future::pending, os::fd::OwnedFd, time::Duration};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tenure_store::Env;
use tokio::io::{Interest, unix::AsyncFd};

use crate::owner::{Owner, Proof};

/// How often to look where the kernel does not tell. Soon enough to be well ahead of the shortest ttl, a second; two system calls each.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until `me`, which is this process, has proof of the death of `owner`.
///
/// # Cancel safety
/// Dropping the future ends the wait.
///
/// # Panics
/// On a runtime without I/O, if `owner` is alive and a neighbour.
pub(crate) async fn exited(owner: &Owner, me: &Owner, env: &Env) -> Proof {
    watched(owner, me, env, LOOK_INTERVAL, descriptor).await
}

async fn watched(
    owner: &Owner,
    me: &Owner,
    env: &Env,
    look_interval: Duration,
    open: impl FnOnce(&Owner) -> Option<AsyncFd<OwnedFd>>,
) -> Proof {
    if let Some(proof) = owner.proof(me) {
        return proof;
    }
    if owner == me || !owner.is_neighbour(me) {
        return pending().await;
    }
    let descriptor = open(owner);
    if let Some(proof) = owner.proof(me) {
        return proof;
    }
    if let Some(descriptor) = descriptor {
        // A failure means a runtime that shuts down, which drops us too.
        let _ = descriptor.readable().await;
    }
    // Without a descriptor from the start; with one, for a zombie that we may not look at, until its parent has reaped it.
    loop {
        if let Some(proof) = owner.proof(me) {
            return proof;
        }
        env.sleep(look_interval).await;
    }
}

/// A descriptor that can be read when the process has ended with all its threads.
fn descriptor(owner: &Owner) -> Option<AsyncFd<OwnedFd>> {
    let process = Pid::from_raw(i32::try_from(owner.process_id()?).ok()?)?;
    let opened = pidfd_open(process, PidfdFlags::empty()).map_err(std::io::Error::from);
    #[allow(
        deprecated,
        reason = "its successor is not for safe code; an owned descriptor is what it asks for"
    )]
    let registered = opened.and_then(|descriptor| AsyncFd::with_interest(descriptor, Interest::READABLE));
    registered
        .inspect_err(
            |error| tracing::debug!(%owner, %error, "no descriptor of this process: looking for it instead"),
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// How long something must take that must happen: far longer than it does, on a machine that is busy.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// How long something is watched that must not happen.
    const A_WHILE: Duration = Duration::from_millis(300);

    struct Victim(Child);

    impl Victim {
        fn new() -> Self {
            Self(Command::new("sleep").arg("1000").spawn().unwrap())
        }

        fn owner(&self) -> Owner {
            Owner::of_neighbour(self.0.id()).unwrap()
        }

        fn reap(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    impl Drop for Victim {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn me() -> Owner {
        Owner::this_process(None)
    }

    #[tokio::test]
    async fn a_death_is_noticed_by_the_descriptor() {
        let (env, me, mut child) = (Env::system(), me(), Victim::new());
        let owner = child.owner();
        let opened = descriptor(&owner).expect("this kernel has descriptors of processes");
        let mut wait = Box::pin(watched(&owner, &me, &env, PATIENCE * 2, |_| Some(opened)));
        assert!(env.timeout(A_WHILE, &mut wait).await.is_err(), "it lives");
        child.0.kill().unwrap();
        let proof =
            env.timeout(PATIENCE, wait).await.expect("the descriptor tells, long before the next look");
        assert_eq!(proof, Proof::Ended, "nobody has reaped it");
        child.reap();
        assert_eq!(env.timeout(PATIENCE, exited(&owner, &me, &env)).await, Ok(Proof::Gone));
    }

    #[tokio::test]
    async fn a_death_is_noticed_without_a_descriptor() {
        let (env, me, mut child) = (Env::system(), me(), Victim::new());
        let owner = child.owner();
        let mut wait = Box::pin(watched(&owner, &me, &env, LOOK_INTERVAL, |_| None));
        assert!(env.timeout(A_WHILE, &mut wait).await.is_err(), "it lives");
        child.reap();
        assert_eq!(env.timeout(PATIENCE, wait).await.unwrap(), Proof::Gone);
    }

    #[tokio::test]
    async fn a_death_while_the_descriptor_is_opened_is_noticed() {
        let (env, me, mut child, stranger) = (Env::system(), me(), Victim::new(), Victim::new());
        let owner = child.owner();
        // As if the process id had passed to another between the first look and the opening.
        let wrong = |_: &Owner| {
            child.reap();
            descriptor(&stranger.owner())
        };
        let wait = watched(&owner, &me, &env, LOOK_INTERVAL, wrong);
        assert_eq!(env.timeout(PATIENCE, wait).await.unwrap(), Proof::Gone);
    }

    #[tokio::test]
    async fn the_end_of_another_process_is_no_proof() {
        let (env, me, mut child, mut stranger) = (Env::system(), me(), Victim::new(), Victim::new());
        let owner = child.owner();
        let wrong = descriptor(&stranger.owner());
        let mut wait = Box::pin(watched(&owner, &me, &env, LOOK_INTERVAL, |_| wrong));
        assert!(env.timeout(A_WHILE, &mut wait).await.is_err());
        stranger.reap();
        assert!(env.timeout(A_WHILE, &mut wait).await.is_err(), "the owner lives");
        child.reap();
        assert_eq!(env.timeout(PATIENCE, wait).await.unwrap(), Proof::Gone);
    }

    #[tokio::test(start_paused = true)]
    async fn others_than_neighbours_are_waited_for_without_looking() {
        let env = Env::simulated(1);
        let me = me();
        let elsewhere = Owner::this_process(Some("elsewhere"));
        for owner in [&elsewhere, &me, &Owner::unknown()] {
            let wait = watched(owner, &me, &env, LOOK_INTERVAL, |_| panic!("no descriptor is needed"));
            assert!(env.timeout(Duration::from_secs(3600), wait).await.is_err());
        }
    }
}
