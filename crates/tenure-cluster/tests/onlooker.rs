//! A cluster as somebody sees it who takes no part.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::{sync::Arc, time::Duration};

use fleet::Fleet;
use tenure_cluster::{Callbacks, Leadership, Onlooker, Role, Seen, Term, TermEnd};
use tenure_store::{Limited, Limits, Name};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn onlooker(fleet: &Fleet) -> Onlooker {
    Onlooker::new(Arc::clone(&fleet.store), name("c"))
}

fn leaders(seen: &[Seen]) -> Vec<(String, u64, Option<String>)> {
    let leader = |seen: &Seen| seen.leader.as_ref().map(|leader| leader.node.to_string());
    seen.iter().map(|seen| (seen.name.to_string(), seen.term.0, leader(seen))).collect()
}

#[tokio::test(start_paused = true)]
async fn elections_are_seen_in_pages_and_no_member_is_added() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let look = onlooker(&fleet);
    assert_eq!(look.elections(None, 10).await.unwrap(), []);
    assert!(look.election(&name("e1")).await.unwrap().is_none());
    let mut held = Vec::new();
    for number in 0..5 {
        held.push(a.cluster.election(&format!("e{number}")).unwrap().campaign().await.unwrap());
    }
    let election = b.cluster.election("e1").unwrap();
    let waits = tokio::spawn(async move { election.campaign_with(3).await });
    fleet.sleep(1).await;

    let first = look.elections(None, 3).await.unwrap();
    let a_leads = |number: u64| (format!("e{number}"), 1, Some("a".to_owned()));
    assert_eq!(leaders(&first), [a_leads(0), a_leads(1), a_leads(2)]);
    assert_eq!(first.iter().map(|seen| seen.waiting).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(first[0].ttl, Some(a.cluster.settings().ttl));
    let rest = look.elections(Some(&first[2].name), 3).await.unwrap();
    assert_eq!(leaders(&rest), [a_leads(3), a_leads(4)]);

    let (seen, candidates) = look.election(&name("e1")).await.unwrap().unwrap();
    assert_eq!((seen.term, seen.waiting), (Term(1), 1));
    assert_eq!((candidates[0].node.as_str(), candidates[0].priority), ("b", 3));
    drop(held.remove(1));
    let won = waits.await.unwrap().unwrap();
    let (seen, candidates) = look.election(&name("e1")).await.unwrap().unwrap();
    assert_eq!(leaders(std::slice::from_ref(&seen)), [("e1".to_owned(), 2, Some("b".to_owned()))]);
    assert_eq!((candidates.len(), seen.history.len(), seen.history[0].end), (0, 1, TermEnd::Resigned));
    drop(won);
    assert_eq!(look.members().list().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn many_holders_are_seen_as_well_as_few() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let leases = a.cluster.leases();
    for number in 0..100 {
        let (election, holder) = (name(&format!("e{number:03}")), name(&format!("h{number:03}")));
        leases.claim(&election, &holder, Duration::from_secs(60)).await.unwrap();
    }
    leases.release(&name("e007"), &name("h007"), None).await.unwrap();
    let seen = onlooker(&fleet).elections(None, 1000).await.unwrap();
    assert_eq!(seen.len(), 100);
    let led = |seen: &&Seen| seen.leader.is_some() && seen.ttl == Some(Duration::from_secs(60));
    assert_eq!(seen.iter().filter(led).count(), 99);
    assert_eq!(seen[7].leader, None);
}

#[tokio::test(start_paused = true)]
async fn an_onlooker_deposes() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let held = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let look = onlooker(&fleet);
    assert_eq!(look.depose(&name("e")).await.unwrap().unwrap().node.as_str(), "a");
    held.lost().await;
    assert_eq!(look.depose(&name("e")).await.unwrap(), None);
    assert_eq!(look.election(&name("e")).await.unwrap().unwrap().0.history[0].end, TermEnd::Deposed);
}

struct Quiet;

impl Callbacks for Quiet {
    fn on_elected(&self, _: &Arc<Leadership>) {}
    fn on_deposed(&self, _: &Arc<Leadership>) {}
}

#[tokio::test(start_paused = true)]
async fn a_participant_hands_over_to_whom_it_is_asked() {
    let fleet = Fleet::new();
    let nodes = [fleet.join("a").await, fleet.join("b").await, fleet.join("c").await];
    let look = onlooker(&fleet);
    assert!(look.ask(&name("e"), None).await.unwrap().is_none(), "nobody leads");
    let mut standing = Vec::new();
    for node in &nodes {
        let election = node.cluster.election("e").unwrap();
        standing.push(election.participate(0, Role::Candidate, Arc::new(Quiet)));
        fleet.sleep(1).await;
    }
    let (holder, term) = look.ask(&name("e"), Some(name("c"))).await.unwrap().unwrap();
    assert_eq!((holder.node.as_str(), term), ("a", Term(1)));
    fleet.sleep(1).await;
    let (seen, candidates) = look.election(&name("e")).await.unwrap().unwrap();
    assert_eq!(leaders(std::slice::from_ref(&seen)), [("e".to_owned(), 2, Some("c".to_owned()))]);
    assert_eq!(seen.history[0].end, TermEnd::HandedOver);
    let waiting: Vec<&str> = candidates.iter().map(|candidate| candidate.node.as_str()).collect();
    assert_eq!(waiting, ["b", "a"]);
    // Without a name, whoever waits first gets it; what was asked in an earlier term is forgotten.
    look.ask(&name("e"), None).await.unwrap().unwrap();
    fleet.sleep(1).await;
    let (seen, _) = look.election(&name("e")).await.unwrap().unwrap();
    assert_eq!(leaders(std::slice::from_ref(&seen)), [("e".to_owned(), 3, Some("b".to_owned()))]);
    fleet.sleep(60).await;
    assert_eq!(look.election(&name("e")).await.unwrap().unwrap().0.term, Term(3), "nothing is asked twice");
}

#[tokio::test(start_paused = true)]
async fn any_number_of_elections_is_within_what_every_store_takes() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let store = Limited::new(Arc::clone(&fleet.store), Limits::PORTABLE);
    let look = Onlooker::new(Arc::new(store), name("c"));
    let mut held = Vec::new();
    for number in 0..70 {
        held.push(a.cluster.election(&format!("e{number}")).unwrap().campaign().await.unwrap());
        assert_eq!(look.elections(None, 100).await.unwrap().len(), number + 1);
    }
}
