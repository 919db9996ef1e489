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
//! | a message to the oracle during init is dropped | [`a_signal_during_init_leads_to_no_claim`] |
//! | events, in order, with what belongs to them | [`a_rise_and_a_fall_are_told_in_order`] |
//! | (Crown has no metrics) | [`metrics_count_what_happens`] |
//! | options that can't work end the start | `children::policies_that_can_not_be_kept_are_refused`, `elections::a_grace_that_does_not_fit_the_ttl_is_refused` |
//! | `status` answers (Crown's waits for the oracle: ours never does) | [`a_shutdown_is_clean_in_every_phase`], whose oracle hangs |
//! | a child that fails to start keeps the crown (ours gives it away) | `elections::a_broken_node_gives_the_office_away` |
//! | the node that leads is killed: another leads | `elections::a_leader_that_dies_is_followed` |
//! | two processes of one name lead (ours do not) | the conformance test of each oracle |
//! | a conflict of names in `:global` | there is nothing like it: only the oracle decides |
//!
//! Its leases in PostgreSQL, and following Oban, in `crates/tenure-oracles/tests/oracles`:
//!
//! | Crown | here |
//! | --- | --- |
//! | a lease lasts for 30 s, if nobody says otherwise, and is refreshed at half of that | `crown::default_settings_are_crowns`, `crown::a_grant_lasts_from_the_question_and_a_refusal_says_how_long_to_wait` |
//! | claims on a row that is not there, another's, expired, one's own; refreshes; deletion of one's own row alone; many at once | `crown::it_keeps_the_contract` |
//! | what the row holds | `crown::a_grant_lasts_from_the_question_and_a_refusal_says_how_long_to_wait` |
//! | the lease expired: Crown revives it (ours claims it, in a new term) | `crown::a_lease_that_expired_is_not_refreshed_but_claimed_under_a_new_term` |
//! | the child runs on Oban's leader and nowhere else; a notice, a crash of the server, a row that expires | `oban::the_child_runs_where_oban_leads_and_nowhere_else`, `oban::a_leadership_that_fades_ends_in_time` |
//! | what can't be asked is a no (ours is unknown) | `oban::the_leader_of_oban_is_granted_once_its_leadership_has_settled`, before there is a table |
//!
//! What Crown and Oban get wrong, or nobody has tested there:
//!
//! | what | here |
//! | --- | --- |
//! | a mixed election on one row: never two, hand-over both ways | `crown_mixed`, `sofa_mixed` and `oban::never_two_at_a_time_through_many_changes`, in `tenure-oracles` |
//! | the leader is frozen past its lease | `crown_outages::a_process_that_stood_still_knows_that_its_time_is_over`; for commands, `a_run_that_stands_still_has_no_command_when_another_gets_its_lease`, in `tenure-cli` |
//! | the database hangs during a refresh: the child stops in time, and runs again afterwards | `crown_outages::a_database_that_hangs_costs_leadership_in_time`, `crown_outages::a_refresh_without_an_answer_is_made_again_in_time` |
//! | the child takes longer to start than a lease lasts | `crown_outages::work_that_starts_slowly_keeps_its_lease` |
//! | two processes with the same configured name | `crown::two_of_one_node_are_two`, `sofa::two_of_one_node_are_two` |
//! | Oban before 2.23.1; sessions in other time zones; a table that a crash has emptied | `oban::two_that_believe_to_lead_before_2_23_1_are_one`, `oban::time_zones_of_sessions_do_not_matter`, `oban::an_empty_table_after_an_unclean_restart_is_nobody` |
//! | 20 first starts at once on an empty schema; a role that lacks CREATE | `crown::twenty_start_at_once_on_an_empty_schema`, `crown::a_role_without_create_is_told_what_to_do`, `crown::it_keeps_the_contract_without_terms` |
//! | the HTTP routes, asked as Crown's README asks them | `serve::the_three_routes_answer_as_any_lease_service_does` and `http_examples`, in `tenure-cli` |
//! | a statement that comes late | `crown::an_abdication_that_comes_late_takes_nothing_away`, `sofa::what_comes_late_changes_nothing` |

use std::{collections::BTreeMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
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
        Event::Following,
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

/// The oracle is not asked before the delay is over, whatever it signals; the claim that follows sees what it says by then.
#[tokio::test(start_paused = true)]
async fn a_signal_during_init_leads_to_no_claim() {
    let delay = Duration::from_secs(5);
    let stage =
        Stage::start_with(Mood::Grant(LEASE), Manner::Good, |policy| policy.claim_delay = delay, false);
    stage.sleep(1_000).await;
    stage.script.signal();
    stage.sleep(3_900).await;
    assert_eq!((stage.script.count(Asked::Claim), stage.singleton.status().phase), (0, Phase::Init));
    stage.sleep(200).await;
    assert_eq!((stage.script.count(Asked::Claim), stage.singleton.status().phase), (1, Phase::Leading));
}

/// Each way from one phase to another is told, once.
#[tokio::test(start_paused = true)]
async fn following_is_told_whenever_it_begins() {
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Panics);
    let count = || stage.events.lock().iter().filter(|event| **event == Event::Following).count();
    stage.sleep(5_000).await;
    assert!(stage.told(|event| matches!(event, Event::GaveUp { .. })));
    assert_eq!(count(), 2, "at first, and during the cooldown");
    stage.script.says(Mood::DenyForGood);
    stage.sleep(60_000).await;
    assert_eq!((count(), stage.script.count(Asked::Claim)), (2, 2), "it followed on after the cooldown");
}

#[tokio::test(start_paused = true)]
async fn metrics_count_what_happens() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let stage = Stage::start(Mood::Grant(LEASE), Manner::Fails(20_000));
    stage.singleton.leads().await;
    stage.sleep(45_000).await;
    let leading = measured(&snapshotter);
    let restarts = stage.diary.lives().len() - 1;
    assert!(restarts >= 2);
    let count = |count: usize| count as f64;
    assert_eq!(leading["leading"], 1.0);
    assert_eq!(leading["elected_total"], 1.0);
    assert_eq!(leading["restarts_total"], count(restarts));
    assert_eq!(leading["refreshes_total"], count(stage.script.count(Asked::Refresh)));
    assert!(!leading.contains_key("lost_total"), "{leading:?}");
    stage.script.says(Mood::DenyForGood);
    stage.script.signal();
    stage.sleep(100).await;
    let lost = measured(&snapshotter);
    assert_eq!((lost["leading"], lost["lost_total"]), (0.0, 1.0));
}

/// All metrics of the singleton, by what follows the usual words.
fn measured(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        let Some(name) = key.name().strip_prefix("tenure_singleton_") else { continue };
        assert!(key.labels().any(|label| (label.key(), label.value()) == ("singleton", "nightly")), "{key}");
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        found.insert(name.to_owned(), value);
    }
    found
}
