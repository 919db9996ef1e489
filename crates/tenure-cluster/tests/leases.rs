//! Leases as the programs behind them see them, on simulated time.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::time::Duration;

use fleet::Fleet;
use tenure_cluster::{Cluster, Lease, LeaseAnswer, Term};
use tenure_store::{Faults, Name};

const TTL: Duration = Duration::from_secs(6);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

async fn claim(cluster: &Cluster, holder: &str) -> LeaseAnswer {
    cluster.leases().claim(&name("nightly"), &name(holder), TTL).await.unwrap()
}

async fn refresh(cluster: &Cluster, holder: &str) -> LeaseAnswer {
    cluster.leases().refresh(&name("nightly"), &name(holder), None).await.unwrap()
}

fn granted(answer: LeaseAnswer) -> Lease {
    match answer {
        LeaseAnswer::Granted(lease) => lease,
        denied => panic!("{denied:?}"),
    }
}

fn denied(answer: LeaseAnswer) -> Option<String> {
    match answer {
        LeaseAnswer::Denied { holder, .. } => holder.map(|holder| holder.to_string()),
        granted => panic!("{granted:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_held_renewed_and_given_up() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let lease = granted(claim(&a.cluster, "x").await);
    assert_eq!((lease.term, lease.ttl, lease.holder.as_str()), (Term(1), TTL, "x"));
    // Any node may serve the next request.
    assert_eq!(denied(claim(&b.cluster, "y").await).as_deref(), Some("x"));
    for _ in 0..20 {
        fleet.sleep(2).await;
        assert_eq!(granted(refresh(&b.cluster, "x").await).term, Term(1));
    }
    assert_eq!(granted(claim(&b.cluster, "x").await).term, Term(1), "who holds it may claim it again");
    assert_eq!(denied(refresh(&b.cluster, "y").await).as_deref(), Some("x"));
    let leases = b.cluster.leases();
    assert_eq!(
        denied(leases.release(&name("nightly"), &name("y"), None).await.unwrap()).as_deref(),
        Some("x")
    );
    let later = Some(Term(2));
    assert_eq!(
        denied(leases.refresh(&name("nightly"), &name("x"), later).await.unwrap()).as_deref(),
        Some("x")
    );
    assert_eq!(denied(leases.release(&name("nightly"), &name("x"), Some(Term(1))).await.unwrap()), None);
    assert_eq!(denied(refresh(&a.cluster, "x").await), None, "what was given up can't be renewed");
    assert_eq!(granted(claim(&a.cluster, "y").await).term, Term(2));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_ends_and_not_before_its_time() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    granted(claim(&a.cluster, "x").await);
    let start = fleet.env.now();
    while denied_or_granted(claim(&a.cluster, "y").await).is_none() {
        fleet.env.sleep(Duration::from_millis(100)).await;
    }
    let waited = fleet.env.now() - start;
    assert!(waited > TTL && waited < TTL * 3, "{waited:?}");
    assert_eq!(denied(refresh(&a.cluster, "x").await).as_deref(), Some("y"));
}

fn denied_or_granted(answer: LeaseAnswer) -> Option<Lease> {
    match answer {
        LeaseAnswer::Granted(lease) => Some(lease),
        LeaseAnswer::Denied { .. } => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlasts_the_node_that_granted_it() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    granted(claim(&a.cluster, "x").await);
    a.cluster.leave().await;
    for _ in 0..10 {
        fleet.sleep(2).await;
        assert_eq!(granted(refresh(&b.cluster, "x").await).term, Term(1));
    }
}

#[tokio::test(start_paused = true)]
async fn many_leases_are_all_watched_and_nodes_have_their_wardens_all_the_same() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let leases = a.cluster.leases();
    for number in 0..300 {
        let election = name(&format!("e{number}"));
        granted(leases.claim(&election, &name("x"), TTL).await.unwrap());
    }
    b.gate.kill();
    fleet.sleep(40).await;
    for number in 0..300 {
        let election = name(&format!("e{number}"));
        assert_eq!(
            granted(leases.claim(&election, &name("y"), TTL).await.unwrap()).term,
            Term(2),
            "{election}"
        );
    }
    let listed = a.cluster.members().list().await.unwrap();
    assert!(listed.iter().all(|one| one.member.node.as_str() != "b" || !one.member.is_here()), "{listed:?}");
    assert_eq!(listed.len(), 2, "those who hold leases are no members");
}

#[tokio::test(start_paused = true)]
async fn leases_and_candidates_compete_for_one_office() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let office = b.cluster.election("nightly").unwrap();
    granted(claim(&a.cluster, "x").await);
    let waiting = tokio::spawn(async move { office.campaign().await.unwrap() });
    fleet.env.sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    a.cluster.leases().release(&name("nightly"), &name("x"), None).await.unwrap();
    let leadership = fleet.soon("the candidate", 5, waiting).await.unwrap();
    assert_eq!(leadership.term(), Term(2));
    // A node of the same name is somebody else.
    assert_eq!(denied(claim(&a.cluster, "b").await).as_deref(), Some("b"));
    assert_eq!(denied(refresh(&a.cluster, "b").await).as_deref(), Some("b"));
    leadership.resign().await.unwrap();
    assert_eq!(granted(claim(&a.cluster, "x").await).term, Term(3));
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_rivals_leave_one_holder() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    for seat in [&a, &b] {
        seat.link.set_faults(Faults { unknown_landed: 0.2, unknown_lost: 0.2, ..Faults::NONE });
    }
    for round in 0..50 {
        let election = name(&format!("e{round}"));
        let (one, two) = (a.cluster.leases(), b.cluster.leases());
        let (holder_one, holder_two) = (name("one"), name("two"));
        let (first, second) =
            tokio::join!(one.claim(&election, &holder_one, TTL), two.claim(&election, &holder_two, TTL));
        let holds = |answer: &Result<LeaseAnswer, _>| matches!(answer, Ok(LeaseAnswer::Granted(_)));
        assert!(!(holds(&first) && holds(&second)), "round {round}: {first:?} {second:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_lease_may_be_is_refused() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let short = Duration::from_millis(999);
    let error = a.cluster.leases().claim(&name("e"), &name("x"), short).await.unwrap_err().to_string();
    assert!(error.contains("999ms") && error.contains("1 s"), "{error}");
    let error = a.cluster.leases().claim(&name("tenure/x"), &name("x"), TTL).await.unwrap_err().to_string();
    assert!(error.contains("tenure/x") && error.contains("choose another name"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_session_keeps_all_that_a_program_leads() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let session = a.cluster.leases().open(&name("x"), TTL).await.unwrap();
    let other = b.cluster.leases().open(&name("y"), TTL).await.unwrap();
    for election in ["one", "two"] {
        let leases = b.cluster.leases();
        let lease = granted(leases.claim_for(session.id, &name(election)).await.unwrap().unwrap());
        assert_eq!((lease.term, lease.holder.as_str()), (Term(1), "x"));
        let again = granted(leases.claim_for(session.id, &name(election)).await.unwrap().unwrap());
        assert_eq!(again.term, Term(1), "who leads may claim again");
        let refused = leases.claim_for(other.id, &name(election)).await.unwrap().unwrap();
        assert_eq!(denied(refused).as_deref(), Some("x"));
        // The holder of a lease of the same name is another.
        let lease = leases.claim(&name(election), &name("x"), TTL).await.unwrap();
        assert_eq!(denied(lease).as_deref(), Some("x"));
    }
    for _ in 0..10 {
        fleet.sleep(2).await;
        assert_eq!(a.cluster.leases().renew(session.id).await.unwrap().unwrap().ttl, TTL);
    }
    let leases = a.cluster.leases();
    assert_eq!(leases.renew(other.id).await.unwrap(), None, "nobody renewed it");
    assert_eq!(leases.claim_for(other.id, &name("three")).await.unwrap(), None);
    let wrong = leases.resign_for(session.id, &name("one"), Some(Term(9))).await.unwrap();
    assert_eq!(denied(wrong).as_deref(), Some("x"));
    assert_eq!(denied(leases.resign_for(session.id, &name("one"), Some(Term(1))).await.unwrap()), None);
    assert_eq!(granted(claim_of(&a.cluster, "one", "z").await).term, Term(2));
    assert!(leases.close(session.id).await.unwrap());
    assert_eq!(granted(claim_of(&a.cluster, "two", "z").await).term, Term(2));
    assert!(!leases.close(session.id).await.unwrap());
    assert_eq!(leases.renew(session.id).await.unwrap(), None);
    let node = a.cluster.session().id();
    assert!(!leases.close(node).await.unwrap(), "the session of a node is nobody else's to end");
    assert_eq!(leases.renew(node).await.unwrap(), None);
}

async fn claim_of(cluster: &Cluster, election: &str, holder: &str) -> LeaseAnswer {
    cluster.leases().claim(&name(election), &name(holder), TTL).await.unwrap()
}
