//! What happens when an oracle answers, does not answer, or changes its mind.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_singleton::{Event, Mandate, Phase, SignalsOracle, SingletonBuilder};
use tenure_store::Env;

use crate::stage::{Asked, GRACE, LEASE, Manner, Mood, Stage};

#[tokio::test(start_paused = true)]
async fn a_granted_claim_starts_the_child_and_each_refresh_schedules_the_next() {
    let stage = Stage::start(Mood::Term(LEASE, 7), Manner::Good);
    let status = stage.singleton.leads().await;
    assert_eq!((status.phase, status.term), (Phase::Leading, Some(7)));
    stage.sleep(60_000).await;
    assert_eq!((stage.diary.lives().len(), stage.diary.running()), (1, 1));
    assert_eq!(stage.diary.lives()[0].term, Some(7));
    assert_eq!(stage.script.count(Asked::Claim), 1);
    let refreshes = stage.script.when(Asked::Refresh);
    assert!((12..=20).contains(&refreshes.len()), "a third of what is left, each time: {}", refreshes.len());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_before_the_delay() {
    let delay = Duration::from_secs(5);
    let stage =
        Stage::start_with(Mood::Grant(LEASE), Manner::Good, |policy| policy.claim_delay = delay, true);
    stage.sleep(4_900).await;
    assert_eq!((stage.script.count(Asked::Claim), stage.singleton.status().phase), (0, Phase::Init));
    stage.sleep(200).await;
    assert_eq!(stage.singleton.status().phase, Phase::Leading);
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_starts_the_follower_and_is_made_again_when_the_oracle_says() {
    let stage = Stage::start_with(Mood::Deny(Duration::from_secs(10)), Manner::Good, |_| {}, true);
    stage.sleep(100_000).await;
    let claims = stage.script.count(Asked::Claim);
    assert!((9..=11).contains(&claims), "every 10 s, and a little by chance: {claims}");
    assert!(stage.diary.lives().is_empty());
    assert_eq!(stage.diary.followers.load(std::sync::atomic::Ordering::SeqCst), 1, "it is kept");
    stage.script.says(Mood::Grant(LEASE));
    stage.singleton.leads().await;
    stage.sleep(1).await;
    assert_eq!(stage.diary.followers_now.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert_eq!(stage.diary.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_time_to_ask_again_only_a_signal_leads_to_another_claim() {
    let stage = Stage::start(Mood::DenyForGood, Manner::Good);
    stage.sleep(3_600_000).await;
    assert_eq!(stage.script.count(Asked::Claim), 1);
    assert_eq!(stage.singleton.status().holder.as_deref(), Some("another"));
    stage.script.says(Mood::Grant(LEASE));
    stage.script.signal();
    stage.singleton.leads().await;
    assert_eq!(stage.script.count(Asked::Claim), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_refresh_ends_the_child_at_once_and_the_node_stands_again() {
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Deaf);
    stage.singleton.leads().await;
    stage.sleep(1_000).await;
    stage.script.says(Mood::Deny(Duration::from_secs(3)));
    stage.script.signal();
    stage.sleep(100).await;
    assert_eq!((stage.diary.running(), stage.singleton.status().phase), (0, Phase::Following));
    assert!(stage.told(|event| *event == Event::Lost));
    stage.script.says(Mood::Grant(LEASE));
    stage.singleton.leads().await;
    stage.sleep(1).await;
    assert_eq!((stage.diary.lives().len(), stage.diary.running()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_dead_line_is_asked_again_and_again_and_the_child_ends_before_the_deadline() {
    for mood in [Mood::Unknown, Mood::Hang] {
        let stage = Stage::start(Mood::Grant(LEASE), Manner::Deaf);
        stage.singleton.leads().await;
        stage.sleep(100).await;
        stage.script.says(mood.clone());
        stage.env.sleep(LEASE).await;
        let lives = stage.diary.lives();
        assert_eq!((lives.len(), stage.diary.running()), (1, 0), "{mood:?}");
        assert!(!lives[0].left.is_zero(), "{mood:?}: it ended in time: {lives:?}");
        assert!(lives[0].left <= GRACE, "{mood:?}: it was not ended too early: {lives:?}");
        if matches!(mood, Mood::Unknown) {
            assert!(stage.script.count(Asked::Refresh) > 10);
        }
        // The line works again: so does the singleton.
        stage.script.says(Mood::Grant(LEASE));
        stage.sleep(6_000).await;
        assert_eq!((stage.diary.lives().len(), stage.diary.running()), (2, 1), "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_passes_in_time_costs_nothing() {
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Good);
    stage.singleton.leads().await;
    stage.sleep(100).await;
    stage.script.says(Mood::Unknown);
    stage.sleep(7_000).await;
    stage.script.says(Mood::Grant(LEASE));
    stage.sleep(30_000).await;
    assert_eq!((stage.diary.lives().len(), stage.diary.running()), (1, 1));
    assert!(stage.told(|event| matches!(event, Event::Unknown { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_cancelled_for_a_fading_lease_runs_again_when_it_is_renewed() {
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Good);
    stage.singleton.leads().await;
    stage.sleep(100).await;
    stage.script.says(Mood::Unknown);
    // Only the grace is left, but the lease is still ours.
    while stage.diary.running() > 0 {
        stage.sleep(10).await;
    }
    stage.script.says(Mood::Grant(LEASE));
    stage.sleep(2_000).await;
    assert_eq!((stage.diary.lives().len(), stage.diary.running()), (2, 1));
    assert_eq!(stage.script.count(Asked::Claim), 1, "it was never lost");
}

#[tokio::test(start_paused = true)]
async fn another_term_at_a_refresh_is_a_loss() {
    let stage = Stage::start(Mood::Term(LEASE, 1), Manner::Good);
    stage.singleton.leads().await;
    stage.sleep(100).await;
    stage.script.says(Mood::Term(LEASE, 3));
    stage.sleep(20_000).await;
    let terms: Vec<_> = stage.diary.lives().iter().map(|life| life.term).collect();
    assert_eq!(terms, [Some(1), Some(3)]);
    assert!(stage.diary.lives()[0].end.unwrap() <= stage.diary.lives()[1].start);
}

#[tokio::test(start_paused = true)]
async fn signals_alone_decide_without_a_question() {
    let env = Env::simulated(1);
    let (signaller, oracle) = SignalsOracle::new();
    let child = |mandate: Mandate| async move { mandate.cancelled().await };
    let singleton = SingletonBuilder::with_oracle_in("s", oracle, env.clone(), child).start().unwrap();
    let settle = || env.sleep(Duration::from_secs(3600));
    settle().await;
    assert_eq!(singleton.status().phase, Phase::Following);
    signaller.grant(Some(4));
    settle().await;
    assert_eq!((singleton.status().phase, singleton.status().term), (Phase::Leading, Some(4)));
    signaller.revoke();
    settle().await;
    assert_eq!(singleton.status().phase, Phase::Following);
    signaller.grant(None);
    settle().await;
    assert_eq!(singleton.status().phase, Phase::Leading);
    let another = signaller.clone();
    drop(signaller);
    settle().await;
    assert_eq!(singleton.status().phase, Phase::Leading, "one that can decide is left");
    drop(another);
    settle().await;
    assert_eq!(singleton.status().phase, Phase::Following);
}

#[tokio::test(start_paused = true)]
async fn who_decided_before_it_went_decides_nothing() {
    let env = Env::simulated(1);
    let (signaller, oracle) = SignalsOracle::new();
    signaller.grant(Some(4));
    drop(signaller);
    let child = |mandate: Mandate| async move { mandate.cancelled().await };
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let singleton = SingletonBuilder::with_oracle_in("s", oracle, env.clone(), child)
        .on_event(move |event| told.lock().push(event.clone()))
        .start()
        .unwrap();
    env.sleep(Duration::from_secs(3600)).await;
    assert_eq!(singleton.status().phase, Phase::Following);
    assert!(!events.lock().iter().any(|event| matches!(event, Event::Elected { .. })), "{:?}", events.lock());
}
