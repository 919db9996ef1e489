//! Planted bugs, each of which a few hundred seeds must find: the scenarios are not blind.

use tenure_cluster::Flaws;
use tenure_sim::{
    Node,
    scenario::{Following, Runner, elections, followers, lanes, promises, registry, servers, suspension},
    simulate, simulate_quietly,
};
use tenure_store::{Check, Commit, CommitError, Key, LaneError, Store, StoreExt as _, Version};

const SEEDS: u64 = 300;

fn found_in_lanes<R: Runner>() -> Option<String> {
    (0..SEEDS).find_map(|seed| simulate(seed, |world| async { lanes::<R>(world).await.err() }).0)
}

fn without_lane(commit: Result<(), CommitError>) -> Result<(), LaneError> {
    commit.map_err(|error| match error {
        CommitError::Conflict(conflict) => LaneError::Conflict(conflict),
        CommitError::OutcomeUnknown(reason) => LaneError::OutcomeUnknown(reason),
        CommitError::Failed(error) => LaneError::Failed(error),
        _ => unreachable!("there are no other errors"),
    })
}

/// Sends again whenever the answer is lost, as many client libraries do.
struct BlindRetry(Node);

impl Runner for BlindRetry {
    async fn open(node: &Node, _: Key) -> Result<Self, LaneError> {
        Ok(Self(node.clone()))
    }

    async fn commit(&mut self, commit: Commit) -> Result<(), LaneError> {
        loop {
            match self.0.commit(commit.clone()).await {
                Err(CommitError::OutcomeUnknown(_)) => {}
                other => return without_lane(other.map(|_| ())),
            }
        }
    }
}

#[test]
fn sending_again_blindly_is_found() {
    let flaw = found_in_lanes::<BlindRetry>().expect("it is found");
    assert!(flaw.contains("is there 2 times"), "{flaw}");
}

/// Takes a lost answer for a failure.
struct UnknownIsFailed(Node);

impl Runner for UnknownIsFailed {
    async fn open(node: &Node, _: Key) -> Result<Self, LaneError> {
        Ok(Self(node.clone()))
    }

    async fn commit(&mut self, commit: Commit) -> Result<(), LaneError> {
        match self.0.commit(commit).await {
            Err(CommitError::OutcomeUnknown(reason)) => {
                Err(LaneError::Failed(tenure_store::StoreError::Unavailable(reason)))
            }
            other => without_lane(other.map(|_| ())),
        }
    }
}

#[test]
fn taking_unknown_for_failed_is_found() {
    let flaw = found_in_lanes::<UnknownIsFailed>().expect("it is found");
    assert!(flaw.contains("Refused and is there 1 times"), "{flaw}");
}

/// A lane that takes the refusal of one copy for the refusal of all: the step that declares a number void is left out.
struct NoVoid {
    node: Node,
    key: Key,
    owner: u64,
    number: u64,
    version: Option<Version>,
}

impl Runner for NoVoid {
    async fn open(node: &Node, key: Key) -> Result<Self, LaneError> {
        let version = node.get(&key).await?.map(|found| found.version);
        Ok(Self { node: node.clone(), key, owner: node.env.random_u64(), number: 0, version })
    }

    async fn commit(&mut self, commit: Commit) -> Result<(), LaneError> {
        self.number += 1;
        let check = match self.version {
            Some(version) => Check::Version(self.key.clone(), version),
            None => Check::Absent(self.key.clone()),
        };
        let mark = format!("{} {}", self.owner, self.number);
        let marked = Commit::new().check(check).and(commit).set(self.key.clone(), mark.clone().into_bytes());
        loop {
            match self.node.commit(marked.clone()).await {
                Ok(receipt) => {
                    self.version = Some(receipt.version);
                    return Ok(());
                }
                Err(CommitError::OutcomeUnknown(_) | CommitError::Failed(_)) => {}
                Err(CommitError::Conflict(conflict)) => match self.node.get(&self.key).await? {
                    Some(found) if found.value == mark.as_bytes() => {
                        self.version = Some(found.version);
                        return Ok(());
                    }
                    found => {
                        self.version = found.map(|found| found.version);
                        return Err(LaneError::Conflict(conflict));
                    }
                },
                Err(_) => unreachable!("there are no other errors"),
            }
        }
    }
}

#[test]
fn a_refusal_without_a_void_is_found() {
    let flaw = found_in_lanes::<NoVoid>().expect("it is found");
    assert!(flaw.contains("Refused and is there 1 times"), "{flaw}");
}

#[test]
fn reading_before_watching_is_found() {
    let found = (0..SEEDS).find_map(|seed| {
        simulate(seed, |world| async { followers(world, Following::ReadThenWatch).await.err() }).0
    });
    assert!(found.expect("it is found").contains("never saw the last change"));
}

fn found_in_elections(flaw: impl Fn(&mut Flaws)) -> String {
    let mut flaws = Flaws::default();
    flaw(&mut flaws);
    (0..1000).find_map(|seed| simulate(seed, |world| elections(world, flaws)).0.err()).expect("it is found")
}

#[test]
fn a_deadline_that_counts_from_the_answer_is_found() {
    let flaw = found_in_elections(|flaws| flaws.deadline_from_answer = true);
    assert!(flaw.contains("believe that they lead"), "{flaw}");
}

#[test]
fn a_guard_without_its_session_is_found() {
    let flaw = found_in_elections(|flaws| flaws.guard_without_session = true);
    assert!(flaw.contains("has ended"), "{flaw}");
}

#[test]
fn a_warden_that_counts_on_after_a_pause_is_found() {
    let mut flaws = Flaws::default();
    flaws.warden_counts_on = true;
    let found = (0..1000).find_map(|seed| simulate(seed, |world| suspension(world, flaws)).0.err());
    assert!(found.expect("it is found").contains("robbed of its session"));
}

fn found_in_servers(flaw: impl Fn(&mut tenure_server::Flaws)) -> String {
    let mut flaws = tenure_server::Flaws::default();
    flaw(&mut flaws);
    (0..1000).find_map(|seed| simulate(seed, |world| servers(world, flaws)).0.err()).expect("it is found")
}

#[test]
fn messages_sent_without_a_lane_are_found() {
    let flaw = found_in_servers(|flaws| flaws.send_without_lane = true);
    assert!(flaw.contains("is there twice") || flaw.contains("was refused and is there"), "{flaw}");
}

#[test]
fn a_message_removed_when_its_locked_work_begins_is_found() {
    let flaw = found_in_servers(|flaws| flaws.removed_at_lock = true);
    assert!(flaw.contains("was acknowledged and is not there"), "{flaw}");
}

#[test]
fn calls_that_pass_by_the_queue_are_found() {
    let flaw = found_in_servers(|flaws| flaws.inline_without_proof = true);
    assert!(flaw.contains("is before it"), "{flaw}");
}

/// The first thing that one of a thousand seeds finds, and that says one of these.
fn found_in_promises(flaw: impl Fn(&mut tenure_server::Flaws), words: &[&str]) {
    let mut flaws = tenure_server::Flaws::default();
    flaw(&mut flaws);
    let all = (0..1000).filter_map(|seed| simulate_quietly(seed, |world| promises(world, flaws)).err());
    let found: Vec<String> = all.take(30).collect();
    let says = |flaw: &String| words.iter().any(|words| flaw.contains(words));
    assert!(found.iter().any(says), "{words:?} is not found, only {found:?}");
}

#[test]
fn effects_recorded_outside_the_commit_are_found() {
    found_in_promises(|flaws| flaws.effects_apart = true, &["was recorded and never done"]);
}

#[test]
fn messages_sent_outside_the_commit_are_found() {
    found_in_promises(|flaws| flaws.sent_apart = true, &["which took"]);
}

#[test]
fn a_timer_that_is_not_removed_with_its_message_is_found() {
    found_in_promises(|flaws| flaws.timer_removed_after = true, &["is there twice", "came 2 times"]);
}

#[test]
fn a_deletion_that_keeps_idempotency_answers_is_found() {
    found_in_promises(|flaws| flaws.answers_outlive_server = true, &["which was over"]);
}

/// Each of these is found many times in so many seeds.
const REGISTRY_SEEDS: u64 = 300;

fn found_in_registry(flaw: impl Fn(&mut tenure_registry::Flaws)) -> String {
    let mut flaws = tenure_registry::Flaws::default();
    flaw(&mut flaws);
    (0..REGISTRY_SEEDS)
        .find_map(|seed| simulate_quietly(seed, |world| registry(world, flaws)).err())
        .expect("it is found")
}

#[test]
fn a_snapshot_out_of_order_is_found() {
    let flaw = found_in_registry(|flaws| flaws.snapshot_out_of_order = true);
    assert!(flaw.contains("has other names") || flaw.contains("its owner sees None"), "{flaw}");
}

#[test]
fn a_leader_whose_guard_has_no_epoch_is_found() {
    let flaw = found_in_registry(|flaws| flaws.guard_without_epoch = true);
    assert!(flaw.contains("is committed while"), "{flaw}");
}

#[test]
fn a_copy_that_counts_though_its_owner_waits_no_longer_is_found() {
    let flaw = found_in_registry(|flaws| flaws.without_floors = true);
    assert!(flaw.contains("by a copy of request"), "{flaw}");
}

#[test]
fn a_refusal_by_what_was_so_before_is_found() {
    let flaw = found_in_registry(|flaws| flaws.refuse_by_hearsay = true);
    assert!(flaw.contains("which had it at no time since"), "{flaw}");
}

#[test]
fn a_departure_that_counts_for_a_later_arrival_is_found() {
    let flaw = found_in_registry(|flaws| flaws.down_without_token = true);
    assert!(flaw.contains("is deposed, though it is there"), "{flaw}");
}
