//! Members as others see them, on simulated time.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::time::Duration;

use fleet::Fleet;
use tenure_cluster::{Cause, ChangeKind, MemberChanges, MemberState};

async fn next(fleet: &Fleet, changes: &mut MemberChanges) -> (String, ChangeKind) {
    let change = fleet.soon("a change", 3600, changes.next()).await.unwrap();
    assert_eq!(change.folded, 0, "{change:?}");
    (change.member.node.to_string(), change.kind)
}

#[tokio::test(start_paused = true)]
async fn everything_that_was_said_of_a_member_is_listed() {
    let fleet = Fleet::new();
    let mut settings = Fleet::settings("a");
    settings.address = Some("10.0.0.1:7".into());
    settings.labels.insert("zone".into(), "z".into());
    settings.version = "1.2".into();
    let a = fleet.join_with(settings).await.unwrap();
    let b = fleet.join("b").await;
    fleet.sleep(21).await;
    let listed = b.cluster.members().list().await.unwrap();
    assert_eq!(listed.len(), 2);
    let member = &listed[0].member;
    assert_eq!((member.node.as_str(), member.state), ("a", MemberState::Live));
    assert_eq!((member.address.as_deref(), member.version.as_str()), (Some("10.0.0.1:7"), "1.2"));
    assert_eq!((member.labels["zone"].as_str(), member.session), ("z", a.cluster.session().id()));
    assert_eq!((member.incarnation, member.ttl), (1, Duration::from_secs(15)));
    assert!(listed[0].renewals.unwrap() >= 4);
    assert!(listed[0].last_seen - member.joined_at > Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn changes_come_in_order_and_whole() {
    let fleet = Fleet::new();
    let watcher = fleet.join("watcher").await;
    let mut changes = watcher.cluster.members().changes().await.unwrap();
    assert_eq!(changes.members().len(), 1);
    let a = fleet.join("a").await;
    assert_eq!(next(&fleet, &mut changes).await, ("a".into(), ChangeKind::Joined));
    fleet.sleep(20).await;
    a.link.cut();
    assert_eq!(next(&fleet, &mut changes).await, ("a".into(), ChangeKind::Suspected));
    a.link.heal();
    assert_eq!(next(&fleet, &mut changes).await, ("a".into(), ChangeKind::Recovered));
    a.gate.kill();
    assert_eq!(next(&fleet, &mut changes).await, ("a".into(), ChangeKind::Suspected));
    assert_eq!(next(&fleet, &mut changes).await, ("a".into(), ChangeKind::Left(Cause::Expired)));
    let again = fleet.join("a").await;
    assert_eq!(next(&fleet, &mut changes).await, ("a".into(), ChangeKind::Joined));
    again.cluster.leave().await;
    assert_eq!(next(&fleet, &mut changes).await, ("a".into(), ChangeKind::Left(Cause::Left)));
    assert_eq!(changes.members()[&"a".parse().unwrap()].incarnation, 2);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_was_away_catches_up() {
    let fleet = Fleet::new();
    let watcher = fleet.join("watcher").await;
    let mut changes = watcher.cluster.members().changes().await.unwrap();
    watcher.link.cut();
    let mut expected = Vec::new();
    for round in 0..200 {
        let node = format!("n{}", round % 3);
        let seat = fleet.join(&node).await;
        seat.cluster.leave().await;
        expected.extend([(node.clone(), ChangeKind::Joined), (node, ChangeKind::Left(Cause::Left))]);
    }
    watcher.link.heal();
    for expected in expected {
        assert_eq!(next(&fleet, &mut changes).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_gone_are_kept_for_a_while_and_then_forgotten() {
    let fleet = Fleet::new();
    let mut settings = Fleet::settings("keeper");
    settings.gone_kept = Duration::from_secs(600);
    let keeper = fleet.join_with(settings).await.unwrap();
    let mut changes = keeper.cluster.members().changes().await.unwrap();
    for at in 0..100 {
        let node = format!("n{at}");
        fleet.join(&node).await.cluster.leave().await;
        assert_eq!(next(&fleet, &mut changes).await, (node.clone(), ChangeKind::Joined));
        assert_eq!(next(&fleet, &mut changes).await, (node, ChangeKind::Left(Cause::Left)));
    }
    fleet.sleep(500).await;
    let count = async || keeper.cluster.members().list().await.unwrap().len();
    assert_eq!(count().await, 101);
    // They are forgotten a few at a time, and so is the log of what happened to them.
    for _ in 0..100 {
        assert_eq!(next(&fleet, &mut changes).await.1, ChangeKind::Forgotten);
    }
    assert_eq!(count().await, 1);
    let log = tenure_store::Tuple::new().text("tenure").text("c").text("changes").key();
    fleet.sleep(7200).await;
    let left = tenure_store::StoreExt::entries(&fleet.store, &log, 1000).await.unwrap().items.len();
    assert_eq!(left, 0);
    // A name that was forgotten starts anew, and those who watch are told.
    let again = fleet.join("n7").await;
    assert_eq!(next(&fleet, &mut changes).await, ("n7".into(), ChangeKind::Joined));
    assert_eq!(changes.members()[&"n7".parse().unwrap()].session, again.cluster.session().id());
}
