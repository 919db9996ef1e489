//! What happens to children, and to leaderships because of them.

use std::time::Duration;

use tenure_singleton::{
    ChildEnd, ChildKind, Event, Phase, Restart, SignalsOracle, SingletonBuilder, StopReason,
};

use crate::stage::{Asked, GRACE, LEASE, Manner, Mood, Stage};

#[tokio::test(start_paused = true)]
async fn a_shutdown_stops_the_child_first_and_gives_up_afterwards() {
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Slow(1_500));
    stage.singleton.leads().await;
    stage.sleep(100).await;
    let (script, diary) = (stage.script.clone(), stage.diary.clone());
    stage.singleton.shutdown().await;
    let life = &diary.lives()[0];
    assert_eq!(
        life.end.unwrap() - life.cancelled.unwrap(),
        Duration::from_millis(1_500),
        "it had the time that it needs"
    );
    assert_eq!(script.count(Asked::Abdicate), 1);
    assert!(script.when(Asked::Abdicate)[0] >= life.end.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_listen_is_aborted_after_the_grace_while_leadership_is_kept() {
    let stage = Stage::start(Mood::Grant(Duration::from_secs(7)), Manner::Deaf);
    stage.singleton.leads().await;
    stage.sleep(100).await;
    let asked = stage.env.now();
    let diary = stage.diary.clone();
    stage.singleton.shutdown().await;
    let life = &diary.lives()[0];
    let took = life.end.unwrap() - asked;
    assert!(
        took >= GRACE - Duration::from_millis(1) && took < GRACE + Duration::from_millis(500),
        "{took:?}"
    );
    assert!(!life.left.is_zero());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_shuts_down_in_the_background() {
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Good);
    stage.singleton.leads().await;
    stage.sleep(10).await;
    let (script, diary, env) = (stage.script.clone(), stage.diary.clone(), stage.env.clone());
    drop(stage.singleton);
    env.sleep(Duration::from_millis(10)).await;
    assert_eq!((diary.running(), script.count(Asked::Abdicate)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_is_started_again_with_growing_pauses_and_then_costs_the_leadership() {
    for manner in [Manner::Fails(10), Manner::Panics] {
        let stage = Stage::start(Mood::Grant(LEASE), manner);
        stage.sleep(5_000).await;
        let lives = stage.diary.lives();
        assert_eq!(lives.len(), 5, "{manner:?}");
        let pauses: Vec<u128> =
            lives.windows(2).map(|two| (two[1].start - two[0].end.unwrap()).as_millis()).collect();
        assert!(pauses.windows(2).all(|two| two[1] >= 2 * two[0] - 5) && pauses[0] >= 100, "{pauses:?}");
        assert_eq!(
            (stage.script.count(Asked::Abdicate), stage.singleton.status().phase),
            (1, Phase::Following)
        );
        assert!(stage.told(|event| matches!(event, Event::GaveUp { failures: 5, .. })));
        assert_eq!(stage.script.count(Asked::Claim), 1, "others have their chance");
        stage.sleep(30_000).await;
        assert!(stage.script.count(Asked::Claim) == 2, "after the cooldown it stands again");
    }
}

#[tokio::test(start_paused = true)]
async fn the_follower_child_runs_during_the_cooldown_too() {
    let stage = Stage::start_with(Mood::Grant(LEASE), Manner::Panics, |_| {}, true);
    stage.sleep(5_000).await;
    assert!(stage.told(|event| matches!(event, Event::GaveUp { .. })));
    let followers = || stage.diary.followers_now.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!((stage.singleton.status().phase, followers()), (Phase::Following, 1));
    let events = std::sync::Arc::clone(&stage.events);
    stage.singleton.shutdown().await;
    let stopped = Event::Stopping { kind: ChildKind::Follower, reason: StopReason::Shutdown };
    assert!(events.lock().contains(&stopped), "{:?}", events.lock());
}

#[tokio::test(start_paused = true)]
async fn a_child_that_ran_for_long_starts_a_new_row_of_failures() {
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Fails(61_000));
    stage.sleep(1_000_000).await;
    assert!(stage.diary.lives().len() > 14);
    assert_eq!(stage.script.count(Asked::Abdicate), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_returns_is_done_or_started_again_as_the_policy_says() {
    for (restart, manner, lives, ended) in [
        (Restart::Always, Manner::Returns(5_000), 3, false),
        (Restart::OnFailure, Manner::Returns(10), 1, true),
        (Restart::OnFailure, Manner::Fails(5_000), 3, false),
        (Restart::Never, Manner::Returns(10), 1, true),
        (Restart::Never, Manner::Fails(10), 1, true),
    ] {
        let stage = Stage::start_with(Mood::Grant(LEASE), manner, |policy| policy.restart = restart, false);
        stage.sleep(15_000).await;
        assert_eq!(stage.diary.lives().len(), lives, "{restart:?} {manner:?}");
        assert_eq!(stage.singleton.status().phase == Phase::Ended, ended, "{restart:?} {manner:?}");
        assert_eq!(stage.script.count(Asked::Abdicate), usize::from(ended), "{restart:?} {manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_ends_is_started_again() {
    let stage = Stage::start(Mood::DenyForGood, Manner::Good);
    let (_signaller, oracle) = SignalsOracle::new();
    let starts = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&starts);
    let follower = move |_| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async {}
    };
    let singleton = SingletonBuilder::with_oracle_in("f", oracle, stage.env.clone(), |_| async {})
        .follower(follower)
        .start()
        .unwrap();
    stage.sleep(1_000).await;
    let starts = starts.load(std::sync::atomic::Ordering::SeqCst);
    assert!((3..=5).contains(&starts), "with growing pauses: {starts}");
    singleton.shutdown().await;
}

/// On real threads: a child that blocks one can't be aborted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_that_blocks_is_told_of_and_nothing_is_released_before_it_ends() {
    let (signaller, oracle) = SignalsOracle::new();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Arc::new(parking_lot::Mutex::new(blocked));
    let child = move |_| {
        let blocked = std::sync::Arc::clone(&blocked);
        async move {
            // A thread of the runtime, held without an await.
            let _ = blocked.lock().recv();
        }
    };
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let singleton = SingletonBuilder::with_oracle("blocks", oracle, child)
        .policy(|policy| policy.grace = Duration::from_millis(50))
        .on_event(move |event| tell.send(event.clone()).unwrap())
        .start()
        .unwrap();
    signaller.grant(None);
    singleton.leads().await;
    let shutdown = tokio::spawn(singleton.shutdown());
    loop {
        let event = told.recv().await.unwrap();
        assert!(!matches!(event, Event::Released | Event::Ended | Event::ChildEnded { .. }), "{event:?}");
        if event == Event::ChildOverran {
            break;
        }
    }
    assert!(!shutdown.is_finished());
    release.send(()).unwrap();
    shutdown.await.unwrap();
    let mut rest = Vec::new();
    while let Some(event) = told.recv().await {
        rest.push(event);
    }
    assert!(matches!(rest[0], Event::ChildEnded { end: ChildEnd::Done | ChildEnd::Aborted, .. }), "{rest:?}");
    assert_eq!(rest.last(), Some(&Event::Ended));
}

#[tokio::test(start_paused = true)]
async fn policies_that_can_not_be_kept_are_refused() {
    let refused = |change: fn(&mut tenure_singleton::Policy)| {
        let (_signaller, oracle) = SignalsOracle::new();
        let builder = SingletonBuilder::with_oracle("s", oracle, |_| async {}).policy(change);
        builder.start().err().unwrap().to_string()
    };
    assert!(refused(|policy| policy.backoff = Duration::ZERO).contains("backoff is 0"));
    assert!(refused(|policy| policy.backoff_most = Duration::from_millis(1)).contains("backoff_most 1ms"));
    assert!(refused(|policy| policy.failures_max = 0).contains("failures_max is 0"));
    assert!(refused(|policy| policy.grace = Duration::ZERO).contains("grace is 0"));
    let (_signaller, oracle) = SignalsOracle::new();
    assert!(SingletonBuilder::with_oracle("", oracle, |_| async {}).start().is_err());
}
