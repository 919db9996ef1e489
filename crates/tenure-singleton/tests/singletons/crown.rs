//! What users of Crown know their library to do, and where it is shown here.
//!
//! | Crown | here |
//! | --- | --- |
//! | a claim comes after the start, or after the claim delay | `oracles::nothing_is_claimed_before_the_delay` |
//! | granted: the child starts | `oracles::a_granted_claim_starts_the_child_and_each_refresh_schedules_the_next` |
//! | refused: the follower starts, and is kept; the claim is made again | `oracles::a_refused_claim_starts_the_follower_and_is_made_again_when_the_oracle_says` |
//! | without monitoring, nothing is claimed again | `oracles::without_a_time_to_ask_again_only_a_signal_leads_to_another_claim` |
//! | the leader is down: claimed again at once, the follower makes room | `elections::a_successor_starts_at_once_after_a_shutdown_and_never_early`, [`a_rise_and_a_fall_are_told_in_order`] |
//! | each refresh schedules the next; never for infinity | `oracles::a_granted_claim_...`, `oracles::signals_alone_decide_without_a_question` |
//! | a refused refresh stops the child (and Crown with it: ours follows on) | `oracles::a_refused_refresh_ends_the_child_at_once_and_the_node_stands_again` |
//! | a child that ends (ends Crown: ours is started again, and gives up when that does not help) | `children::a_child_that_fails_...`, `children::a_follower_that_ends_is_started_again` |
//! | shutdown: clean in every phase, abdicates only when leading, the child first | [`a_shutdown_is_clean_in_every_phase`], `children::a_shutdown_stops_the_child_first_and_gives_up_afterwards` |
//! | messages to the oracle: yes and no while leading, yes and no while following | [`signals_count_in_every_phase`] |
//! | events, in order, with what belongs to them | [`a_rise_and_a_fall_are_told_in_order`] |
//! | two processes of one name lead (ours do not) | the conformance test of each oracle |
//! | a conflict of names in `:global` | there is nothing like it: only the oracle decides |

use std::time::Duration;

use tenure_singleton::{ChildEnd, ChildKind, Event, Phase, StopReason};

use crate::stage::{Asked, LEASE, Manner, Mood, Stage};

#[tokio::test(start_paused = true)]
async fn a_rise_and_a_fall_are_told_in_order() {
    let stage = Stage::start_with(Mood::DenyForGood, Manner::Good, |_| {}, true);
    stage.sleep(1_000).await;
    stage.script.says(Mood::Term(LEASE, 4));
    stage.script.signal();
    stage.singleton.leads().await;
    stage.sleep(1_000).await;
    let events = std::sync::Arc::clone(&stage.events);
    stage.singleton.shutdown().await;
    let (leader, follower) = (ChildKind::Leader, ChildKind::Follower);
    let done = |kind| Event::ChildEnded { kind, end: ChildEnd::Done };
    let expected = [
        Event::Started,
        Event::ChildStarted { kind: follower },
        Event::Denied { holder: Some("another".into()) },
        Event::Elected { term: Some(4) },
        Event::Stopping { kind: follower, reason: StopReason::Elected },
        done(follower),
        Event::ChildStarted { kind: leader },
        Event::Stopping { kind: leader, reason: StopReason::Shutdown },
        done(leader),
        Event::Released,
        Event::Ended,
    ];
    assert_eq!(*events.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_clean_in_every_phase() {
    let delay = Duration::from_secs(60);
    for (mood, wait, phase, abdications) in [
        (Mood::Grant(LEASE), delay, Phase::Init, 0),
        (Mood::DenyForGood, Duration::ZERO, Phase::Following, 0),
        (Mood::Grant(LEASE), Duration::ZERO, Phase::Leading, 1),
        // A claim whose answer never came may have been granted.
        (Mood::Hang, Duration::ZERO, Phase::Following, 1),
    ] {
        let stage = Stage::start_with(mood.clone(), Manner::Good, |policy| policy.claim_delay = wait, true);
        stage.sleep(100).await;
        assert_eq!(stage.singleton.status().phase, phase, "{mood:?}");
        let (script, diary, events) = (stage.script.clone(), stage.diary.clone(), stage.events);
        stage.singleton.shutdown().await;
        assert_eq!(script.count(Asked::Abdicate), abdications, "{mood:?}");
        let followers = diary.followers_now.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!((diary.running(), followers), (0, 0), "{mood:?}");
        assert_eq!(events.lock().last(), Some(&Event::Ended), "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn signals_count_in_every_phase() {
    let stage = Stage::start(Mood::DenyForGood, Manner::Good);
    stage.sleep(10).await;
    // A no while following changes nothing.
    stage.script.signal();
    stage.sleep(10).await;
    assert_eq!((stage.script.count(Asked::Claim), stage.singleton.status().phase), (2, Phase::Following));
    // A yes makes it the leader.
    stage.script.says(Mood::Grant(LEASE));
    stage.script.signal();
    stage.sleep(10).await;
    assert_eq!(stage.singleton.status().phase, Phase::Leading);
    // A yes while leading is a refresh.
    stage.script.signal();
    stage.sleep(10).await;
    assert_eq!((stage.script.count(Asked::Refresh), stage.diary.lives().len()), (1, 1));
    // A no is a loss.
    stage.script.says(Mood::DenyForGood);
    stage.script.signal();
    stage.sleep(10).await;
    assert_eq!((stage.singleton.status().phase, stage.diary.running()), (Phase::Following, 0));
}
