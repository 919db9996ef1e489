//! Sessions and wardens as their users see them, on simulated time.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::time::Duration;

use fleet::Fleet;
use tenure_cluster::{Cause, ClusterError, Event, MemberState};

#[tokio::test(start_paused = true)]
async fn a_second_process_of_one_name_is_refused_and_shown_the_first() {
    let fleet = Fleet::new();
    let first = fleet.join("a").await;
    let refusal = fleet.join_with(Fleet::settings("a")).await.err().unwrap();
    let ClusterError::Occupied(holder) = &refusal else { panic!("{refusal}") };
    assert_eq!(holder.session, first.cluster.session().id());
    let words = refusal.to_string();
    assert!(words.contains(&holder.session.to_string()) && words.contains("take_over"), "{words}");
    // Its session ends, and the name is free again.
    first.cluster.leave().await;
    fleet.join("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_asks_to_takes_over_and_the_first_does_not_fight() {
    let fleet = Fleet::new();
    let first = fleet.join("a").await;
    let mut events = first.cluster.events();
    let mut settings = Fleet::settings("a");
    settings.take_over = true;
    let second = fleet.join_with(settings).await.unwrap();
    let ended = fleet.soon("the end", 10, events.recv()).await.unwrap();
    assert!(matches!(ended, Event::Ended { cause: Cause::TakenOver, .. }), "{ended:?}");
    let displaced = fleet.soon("the refusal", 30, events.recv()).await.unwrap();
    assert!(matches!(displaced, Event::Displaced { .. }), "{displaced:?}");
    fleet.sleep(120).await;
    assert!(!second.cluster.session().remaining().is_zero());
    assert!(first.cluster.session().remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn settings_that_break_a_rule_are_refused_before_any_request() {
    let fleet = Fleet::new();
    let mut settings = Fleet::settings("a");
    settings.renewal_interval = settings.ttl;
    let refusal = fleet.join_with(settings).await.err().unwrap().to_string();
    assert!(refusal.contains("renewal_interval x 2 < ttl"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn a_session_holds_for_hours_and_at_the_shortest_ttl() {
    let fleet = Fleet::new();
    let short = fleet.join_with(Fleet::settings("a").with_ttl(Duration::from_secs(1))).await.unwrap();
    let usual = fleet.join("b").await;
    let ids = [short.cluster.session().id(), usual.cluster.session().id()];
    fleet.sleep(2 * 3600).await;
    assert_eq!([short.cluster.session().id(), usual.cluster.session().id()], ids);
    assert!(!short.cluster.session().remaining().is_zero() && !usual.cluster.session().remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_cost_nothing_while_time_remains() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let session = a.cluster.session();
    let lost = tokio::spawn({
        let session = session.clone();
        async move { session.lost().await }
    });
    for _ in 0..20 {
        a.link.cut();
        fleet.sleep(8).await;
        a.link.heal();
        fleet.sleep(3).await;
    }
    assert!(!lost.is_finished());
    assert_eq!(a.cluster.session().id(), session.id());
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_session_was_ended_joins_again_and_says_so() {
    let fleet = Fleet::new();
    let (a, _b) = (fleet.join("a").await, fleet.join("b").await);
    let mut events = a.cluster.events();
    let before = a.cluster.session();
    fleet.sleep(20).await;
    a.gate.pause();
    fleet.sleep(60).await;
    a.gate.resume();
    let ended = fleet.soon("the end", 10, events.recv()).await.unwrap();
    assert_eq!(ended, Event::Ended { session: before.id(), cause: Cause::Expired });
    let joined = fleet.soon("the new session", 10, events.recv()).await.unwrap();
    assert_eq!(joined, Event::Joined { session: a.cluster.session().id() });
    assert_ne!(a.cluster.session().id(), before.id());
    assert!(before.remaining().is_zero() && !a.cluster.session().remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn one_warden_that_is_left_ends_the_sessions_of_all_others() {
    let fleet = Fleet::new();
    let mut seats = Vec::new();
    for at in 0..40 {
        seats.push(fleet.join(&format!("n{at}")).await);
    }
    fleet.sleep(20).await;
    seats[1..].iter().for_each(|seat| seat.gate.kill());
    // A ttl and its margin, some looks, and as much again for those that were not watched before the first were silent.
    fleet.sleep(45).await;
    let live = seats[0].cluster.members().list().await.unwrap();
    let live: Vec<_> = live.iter().filter(|listed| listed.member.is_here()).collect();
    assert_eq!(live.len(), 1, "{live:?}");
    assert_eq!(live[0].member.node.as_str(), "n0");
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_alone_ends_the_sessions_of_the_dead() {
    let fleet = Fleet::new();
    let dead = fleet.join("dead").await;
    dead.gate.kill();
    fleet.sleep(3600).await;
    let newcomer = fleet.join("newcomer").await;
    let state = async || {
        let listed = newcomer.cluster.members().list().await.unwrap();
        listed.into_iter().find(|listed| listed.member.node.as_str() == "dead").unwrap().member.state
    };
    fleet.sleep(8).await;
    assert_eq!(state().await, MemberState::Live, "it counts from first sight");
    fleet.sleep(6).await;
    assert_eq!(state().await, MemberState::Suspect);
    fleet.sleep(8).await;
    assert_eq!(state().await, MemberState::Gone(Cause::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_warden_that_was_paused_starts_its_counts_anew() {
    let fleet = Fleet::new();
    let (warden, other) = (fleet.join("warden").await, fleet.join("other").await);
    let session = other.cluster.session().id();
    fleet.sleep(20).await;
    // Everything stands still, as when a machine with all its processes is suspended. Whoever wakes first must not end the others.
    warden.gate.pause();
    other.gate.pause();
    fleet.sleep(60).await;
    warden.gate.resume();
    fleet.sleep(10).await;
    other.gate.resume();
    fleet.sleep(60).await;
    assert_eq!(other.cluster.session().id(), session);
    assert!(!other.cluster.session().remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_ends_no_session() {
    let fleet = Fleet::new();
    let mut seats = Vec::new();
    for at in 0..5 {
        seats.push(fleet.join(&format!("n{at}")).await);
    }
    let ids: Vec<_> = seats.iter().map(|seat| seat.cluster.session().id()).collect();
    let mut events = seats[0].cluster.events();
    for _ in 0..5 {
        fleet.sleep(17).await;
        seats.iter().for_each(|seat| seat.link.cut());
        fleet.sleep(100).await;
        assert!(seats.iter().all(|seat| seat.cluster.session().remaining().is_zero()));
        seats.iter().for_each(|seat| seat.link.heal());
        let resumed = fleet.soon("to go on", 10, events.recv()).await.unwrap();
        assert_eq!(resumed, Event::Resumed { session: ids[0] });
    }
    fleet.sleep(60).await;
    let after: Vec<_> = seats.iter().map(|seat| seat.cluster.session().id()).collect();
    assert_eq!(after, ids);
}
