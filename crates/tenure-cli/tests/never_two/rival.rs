//! The same rounds with `etcdctl lock` in the place of `tenure run`: it lets two commands run at a time, and that must be
//! found. A test that finds nothing anywhere proves nothing.

use crate::{
    fault::Fault,
    fleet::{Fleet, Outcome},
    node::Program,
    store::Place,
};

/// Each kind of fault that can happen to it, once.
const ROUNDS: usize = 8;

/// What certainly parts it from its lock, and not from its command.
const FATAL: [Fault; 3] = [Fault::KillRun, Fault::StopRun, Fault::Cut];

/// Goes through the rounds, and finds overlaps.
pub(crate) fn run(seed: u64) {
    let mut fleet = Fleet::start(Place::Etcd, Program::Etcdctl, seed);
    (0..ROUNDS).for_each(|_| fleet.round());
    let Outcome { flaws, overlapped, .. } = fleet.end();
    println!("`etcdctl lock` let two commands run at a time after {overlapped:?}");
    let words = flaws.join("\n");
    for fault in FATAL {
        assert!(overlapped.contains(&fault), "no overlap was found after {fault:?}:\n{words}");
    }
}
