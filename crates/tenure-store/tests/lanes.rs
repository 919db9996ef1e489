//! Lanes, one property at a time, and 100,000 commits over a store that loses its answers.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{sync::Arc, time::Duration};

use tenure_store::{
    Check, Commit, Conflict, Env, Faults, Faulty, Key, Lane, LaneError, MemoryStore, Read, Retry, Settled,
    Store, StoreError, StoreExt as _, Tally,
};

/// A store without faults, the faulty way to it, and an environment.
struct Fixture {
    memory: Arc<MemoryStore>,
    faulty: Arc<Faulty>,
    env: Env,
}

impl Fixture {
    fn new(faults: Faults) -> Self {
        Self::seeded(7, faults)
    }

    fn seeded(seed: u64, faults: Faults) -> Self {
        let (memory, env) = (Arc::new(MemoryStore::new()), Env::simulated(seed));
        let store = Arc::clone(&memory) as Arc<dyn Store>;
        Self { memory, faulty: Arc::new(Faulty::new(store, env.fork(), faults)), env }
    }

    async fn lane(&self) -> Lane {
        self.try_lane().await.unwrap()
    }

    async fn try_lane(&self) -> Result<Lane, LaneError> {
        let store = Arc::clone(&self.faulty) as Arc<dyn Store>;
        Lane::open(store, self.env.clone(), key("lane"), Retry::default()).await
    }

    fn set_faults(&self, faults: Faults) {
        self.faulty.set_faults(faults);
    }

    async fn is_there(&self, name: &str) -> bool {
        self.memory.get(&key(name)).await.unwrap().is_some()
    }
}

fn key(name: &str) -> Key {
    Key::from(name)
}

fn set(name: &str) -> Commit {
    Commit::new().set(key(name), "v")
}

const LOST: Faults = Faults { unknown_lost: 1.0, ..Faults::NONE };
const LANDED: Faults = Faults { unknown_landed: 1.0, ..Faults::NONE };
const LATE: Faults = Faults { unknown_late: 1.0, late: Duration::from_secs(60), ..Faults::NONE };

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_commits_over_lost_answers_happen_once_each() {
    const COMMITS: u64 = 100_000;
    // One answer in five is lost; half of those commits had landed, some of the others land late.
    let losing = Faults { unknown_landed: 0.1, unknown_lost: 0.06, unknown_late: 0.04, ..Faults::NONE };
    let fixture = Fixture::new(losing);
    let mut lane = fixture.lane().await;
    for number in 0..COMMITS {
        lane.commit(Commit::new().append(key("log"), number.to_be_bytes().to_vec())).await.unwrap();
    }
    fixture.env.sleep(Duration::from_secs(60)).await;

    let tally = fixture.faulty.tally();
    assert!(tally.unknown_landed > 8000 && tally.unknown_lost + tally.unknown_late > 8000, "{tally:?}");
    let mut expected = 0;
    let mut after = None;
    loop {
        let page =
            fixture.memory.read(vec![Read::List { list: key("log"), after, limit: 10_000 }]).await.unwrap();
        let page = page.list(0);
        for entry in &page.items {
            assert_eq!(entry.value[..], u64::to_be_bytes(expected), "in order, none missing, none twice");
            expected += 1;
        }
        after = page.items.last().map(|entry| entry.id.clone());
        if !page.more {
            break;
        }
    }
    assert_eq!(expected, COMMITS);
}

#[tokio::test(start_paused = true)]
async fn the_receipt_of_a_lost_answer_is_the_true_one() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    fixture.set_faults(LANDED);
    let receipt = lane.commit(set("k")).await.unwrap();
    assert_eq!(fixture.memory.get(&key("k")).await.unwrap().unwrap().version, receipt.version);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_callers_check() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    let commit = set("k").check(Check::Absent(key("a"))).check(Check::Present(key("b")));
    match lane.commit(commit).await {
        Err(LaneError::Conflict(Conflict::Check { index, key: at })) => {
            assert_eq!((index, at), (1, key("b")));
        }
        other => panic!("{other:?}"),
    }
    lane.commit(set("k")).await.expect("the lane goes on");
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_never_happens_however_late_a_copy_comes() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    fixture.set_faults(LATE);
    let guarded = set("k").check(Check::Absent(key("flag")));
    let flagging = tokio::spawn({
        let (memory, faulty, env) =
            (Arc::clone(&fixture.memory), Arc::clone(&fixture.faulty), fixture.env.clone());
        async move {
            env.sleep(Duration::from_millis(100)).await;
            memory.commit(set("flag")).await.unwrap();
            faulty.set_faults(Faults::NONE);
        }
    });
    let refusal = lane.commit(guarded).await.unwrap_err();
    assert!(matches!(refusal, LaneError::Conflict(Conflict::Check { index: 0, .. })), "{refusal}");
    flagging.await.unwrap();
    assert!(fixture.faulty.tally().unknown_late > 0, "copies are under way");
    fixture.memory.commit(Commit::new().delete(key("flag"))).await.unwrap();
    fixture.env.sleep(Duration::from_secs(120)).await;
    assert!(!fixture.is_there("k").await, "a copy landed after its refusal was told");
}

#[tokio::test(start_paused = true)]
async fn giving_up_leaves_the_outcome_open_and_the_next_use_settles_it() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    fixture.set_faults(LOST);
    let given_up = lane.commit(set("k")).await.unwrap_err();
    assert!(matches!(given_up, LaneError::OutcomeUnknown(_)), "{given_up}");
    fixture.set_faults(Faults::NONE);
    assert_eq!(lane.settle().await.unwrap(), Settled::Void);
    assert_eq!(lane.settle().await.unwrap(), Settled::Clear);
    lane.commit(set("l")).await.unwrap();
    assert!(!fixture.is_there("k").await && fixture.is_there("l").await);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_commit_is_settled_either_way() {
    let fixture = Fixture::new(Faults { delay: Duration::from_millis(100), ..Faults::NONE });
    let mut lane = fixture.lane().await;
    let (mut landed, mut void) = (0, 0);
    for round in 0..60 {
        let name = format!("k{round}");
        let cut = Duration::from_millis(round * 4);
        if fixture.env.timeout(cut, lane.commit(set(&name))).await.is_ok() {
            continue;
        }
        match lane.settle().await.unwrap() {
            Settled::Landed(_) => landed += 1,
            Settled::Void => void += 1,
            Settled::Clear => panic!("a commit that was begun is open"),
        }
        let settled = fixture.is_there(&name).await;
        fixture.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(fixture.is_there(&name).await, settled);
    }
    assert!(landed > 0 && void > 0, "{landed} landed, {void} did not");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_commit_does_not_stand_in_the_way_of_the_next() {
    let fixture = Fixture::new(Faults { delay: Duration::from_millis(100), ..Faults::NONE });
    let mut lane = fixture.lane().await;
    let mut landed = 0;
    for round in 0..40 {
        let dropped = format!("dropped {round}");
        let _ = fixture.env.timeout(Duration::from_millis(60), lane.commit(set(&dropped))).await;
        lane.commit(set("next")).await.unwrap();
        landed += u32::from(fixture.is_there(&dropped).await);
    }
    assert!((1..40).contains(&landed), "{landed}");
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_was_taken_over_is_lost_for_good() {
    let fixture = Fixture::new(Faults::NONE);
    let mut old = fixture.lane().await;
    old.commit(set("a")).await.unwrap();
    let mut new = fixture.lane().await;
    for _ in 0..2 {
        assert!(matches!(old.commit(set("b")).await, Err(LaneError::Lost { .. })));
    }
    new.commit(set("c")).await.unwrap();
    assert!(!fixture.is_there("b").await);
}

#[tokio::test(start_paused = true)]
async fn taking_over_ends_what_the_old_owner_had_under_way() {
    let fixture = Fixture::new(Faults::NONE);
    let mut old = fixture.lane().await;
    fixture.set_faults(LATE);
    // Its only copy is still on its way when its owner is gone.
    fixture.env.timeout(Duration::from_millis(1), old.commit(set("k"))).await.unwrap_err();
    assert!(fixture.faulty.tally().unknown_late > 0);
    fixture.set_faults(Faults::NONE);
    fixture.lane().await;
    fixture.env.sleep(Duration::from_secs(120)).await;
    assert!(!fixture.is_there("k").await, "it landed after the lane had passed on");
}

/// The old owner's commit reaches the store, or does not, and others take the lane over before the old owner can look.
async fn told_after_takeovers(fate: Faults, takeovers: usize) -> (Fixture, Lane, Result<(), LaneError>) {
    let fixture = Fixture::new(Faults::NONE);
    let store = Arc::clone(&fixture.memory) as Arc<dyn Store>;
    let mut old = fixture.lane().await;
    // The owner's look takes a while, as does everything on the way to the store.
    fixture.set_faults(Faults { delay: Duration::from_millis(20), ..fate });
    let taking_over = tokio::spawn({
        let (faulty, env) = (Arc::clone(&fixture.faulty), fixture.env.clone());
        async move {
            // The commit is sent; its owner can't look until the lane has passed on.
            while faulty.tally() == Tally::default() {
                env.sleep(Duration::from_micros(10)).await;
            }
            faulty.set_faults(Faults { unavailable: 1.0, ..Faults::NONE });
            for _ in 0..takeovers {
                let mut lane =
                    Lane::open(Arc::clone(&store), env.clone(), key("lane"), Retry::default()).await.unwrap();
                lane.commit(set("theirs")).await.unwrap();
            }
            faulty.set_faults(Faults::NONE);
        }
    });
    let told = old.commit(set("k")).await.map(|_| ());
    taking_over.await.unwrap();
    (fixture, old, told)
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_landed_before_a_takeover_is_acknowledged() {
    let (fixture, mut old, told) = told_after_takeovers(LANDED, 1).await;
    told.unwrap();
    assert!(fixture.is_there("k").await);
    assert!(matches!(old.commit(set("l")).await, Err(LaneError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_a_takeover_forestalled_is_refused() {
    let (fixture, mut old, told) = told_after_takeovers(LATE, 1).await;
    assert!(matches!(told, Err(LaneError::Lost { .. })), "{told:?}");
    fixture.env.sleep(Duration::from_secs(120)).await;
    assert!(!fixture.is_there("k").await);
    assert!(matches!(old.commit(set("l")).await, Err(LaneError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_two_takeovers_buried_is_unknown() {
    for fate in [LANDED, LATE] {
        let (_, mut old, told) = told_after_takeovers(fate, 2).await;
        assert!(matches!(told, Err(LaneError::OutcomeUnknown(_))), "{told:?}");
        assert!(
            matches!(old.commit(set("l")).await, Err(LaneError::Lost { .. })),
            "what comes after is not in doubt"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_behind_one_that_stays_open_was_never_sent() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    fixture.set_faults(LOST);
    lane.commit(set("k")).await.unwrap_err();
    let refused = lane.commit(set("l")).await.unwrap_err();
    assert!(matches!(refused, LaneError::Failed(StoreError::Unavailable(_))), "{refused}");
    fixture.set_faults(Faults::NONE);
    assert_eq!(lane.settle().await.unwrap(), Settled::Void);
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_of_an_opening_is_no_stranger() {
    for seed in 0..40 {
        let fixture = Fixture::seeded(seed, Faults { late: Duration::from_secs(4), ..LATE });
        // Given up on while copies of it are under way; some of them arrive while the lane is opened again.
        let _ = fixture.env.timeout(Duration::from_millis(20), fixture.try_lane()).await;
        fixture.set_faults(Faults { delay: Duration::from_secs(2), ..Faults::NONE });
        fixture.lane().await.commit(set("k")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_may_not_be_opened_any_more_leaves_nothing() {
    for faults in [LOST, LANDED, LATE] {
        let fixture = Fixture::new(faults);
        fixture.memory.commit(set("session")).await.unwrap();
        let (store, env) = (Arc::clone(&fixture.faulty) as Arc<dyn Store>, fixture.env.clone());
        let opening = tokio::spawn(async move {
            let checks = vec![Check::Present(key("session"))];
            Lane::open_if(store, env, key("lane"), Retry::default(), checks).await.map(|_| ())
        });
        // Its answers are lost, then what it belongs to goes, with all it has.
        fixture.env.sleep(Duration::from_millis(5)).await;
        fixture.memory.commit(Commit::new().delete(key("session")).delete(key("lane"))).await.unwrap();
        fixture.set_faults(Faults::NONE);
        let told = opening.await.unwrap();
        assert!(matches!(told, Err(LaneError::Conflict(_)) | Ok(())), "{told:?}");
        fixture.env.sleep(Duration::from_secs(120)).await;
        assert!(!fixture.is_there("lane").await, "a lane that nobody deletes, after {faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_holds_no_lane_is_corrupt_and_left_alone() {
    let fixture = Fixture::new(Faults::NONE);
    fixture.memory.commit(set("lane")).await.unwrap();
    let refused = fixture.try_lane().await.unwrap_err();
    assert!(matches!(&refused, LaneError::Failed(StoreError::Corrupt(_))), "{refused}");
    assert_eq!(fixture.memory.get(&key("lane")).await.unwrap().unwrap().value, "v");
}

#[tokio::test(start_paused = true)]
async fn contention_is_tried_again() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    fixture.set_faults(Faults { conflict: 0.9, ..Faults::NONE });
    for round in 0..20 {
        lane.commit(set(&format!("k{round}"))).await.unwrap();
    }
    fixture.set_faults(Faults { conflict: 1.0, ..Faults::NONE });
    let refused = lane.commit(set("never")).await.unwrap_err();
    assert!(matches!(refused, LaneError::Conflict(Conflict::Contention)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_too_long_is_an_error_and_nothing_happened() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    fixture.set_faults(Faults { unavailable: 1.0, ..Faults::NONE });
    let start = fixture.env.now();
    let refused = lane.commit(set("k")).await.unwrap_err();
    assert!(matches!(refused, LaneError::Failed(StoreError::Unavailable(_))), "{refused}");
    assert!(fixture.env.now() - start >= Retry::default().within);
    assert!(fixture.try_lane().await.is_err());
    fixture.set_faults(Faults::NONE);
    lane.commit(set("l")).await.unwrap();
    assert!(!fixture.is_there("k").await);
}

#[tokio::test(start_paused = true)]
async fn invalid_commits_are_refused_at_once_and_harm_nothing() {
    let fixture = Fixture::new(Faults::NONE);
    let mut lane = fixture.lane().await;
    let own_key = set("lane");
    assert!(matches!(lane.commit(own_key).await, Err(LaneError::Failed(StoreError::Invalid(_)))));
    lane.commit(set("k")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn updates_build_again_after_a_conflict() {
    let fixture = Fixture::new(Faults::STORM);
    let counter = key("counter");
    let mut lanes = Vec::new();
    for at in 0..4 {
        let store = Arc::clone(&fixture.faulty) as Arc<dyn Store>;
        let own = key(&format!("lane/{at}"));
        lanes.push(Lane::open(store, fixture.env.clone(), own, Retry::default()).await.unwrap());
    }
    let tasks = lanes.into_iter().map(|mut lane| {
        let (store, counter) = (Arc::clone(&fixture.faulty), counter.clone());
        tokio::spawn(async move {
            for _ in 0..25 {
                lane.update(|| async {
                    let found = store.get(&counter).await?;
                    let count = found
                        .as_ref()
                        .map_or(0, |found| u64::from_be_bytes(found.value[..].try_into().unwrap()));
                    let check = match found {
                        Some(found) => Check::Version(counter.clone(), found.version),
                        None => Check::Absent(counter.clone()),
                    };
                    Ok((
                        Commit::new().check(check).set(counter.clone(), (count + 1).to_be_bytes().to_vec()),
                        (),
                    ))
                })
                .await
                .unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let count = fixture.memory.get(&counter).await.unwrap().unwrap().value;
    assert_eq!(u64::from_be_bytes(count[..].try_into().unwrap()), 100);
}
