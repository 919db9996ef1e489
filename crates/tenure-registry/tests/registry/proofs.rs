//! What must be proven before it is said or done: that a leader leads, that an owner is there.

use std::time::Duration;

use tenure_registry::{Metadata, RegistryError, mailbox};

use crate::sim::{Sim, TIME};

#[tokio::test(start_paused = true)]
async fn a_leader_whose_session_has_lapsed_proves_nothing() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let _held = seats[0].register("x").await.unwrap();
    seats[0].link.cut();
    assert!(seats[0].registry.whereis_consistent("x").await.unwrap().is_some(), "it is still valid");
    sim.until("lapsed", || seats[0].cluster.session().remaining().is_zero()).await;
    let refused = seats[0].registry.whereis_consistent("x").await;
    assert!(matches!(refused, Err(RegistryError::Unverified { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_prove_that_it_leads_refuses_nobody() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    let (freed, _inbox) = seats[1].register("x").await.unwrap();
    sim.until("known", || seats.iter().all(|seat| seat.knows("x"))).await;
    // The leader and, later, another are cut off from the store and from the third. They reach each other.
    seats[0].link.cut();
    sim.net.part("n0", "n1");
    // As late as can be: the other is to have a session when somebody else leads, which takes the ttl of the first, and patience with whoever handled the elector's messages last.
    sim.env.sleep(Duration::from_secs(13)).await;
    seats[2].link.cut();
    sim.net.part("n2", "n1");
    sim.until_leads(&seats[1]).await;
    freed.unregister(TIME).await.unwrap();
    assert!(!seats[2].cluster.session().remaining().is_zero(), "it may still ask");
    assert_eq!(seats[2].registry.status().leader.unwrap().node.as_str(), "n0", "it knows no better");
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let time = Duration::from_millis(500);
    let asked = seats[2].registry.register_with("x", &mailbox, Metadata::new(), time).await;
    assert!(matches!(asked, Err(RegistryError::OutcomeUnknown { .. })), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_never_given_to_a_session_that_has_ended() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    sim.net.hold("n1", "n0");
    let registry = seats[1].registry.clone();
    let asking = tokio::spawn(async move {
        let (mailbox, _inbox) = mailbox::<(), ()>(1);
        registry.register_with("x", &mailbox, Metadata::new(), 20 * TIME).await.map(drop)
    });
    sim.until("on its way", || sim.net.holds("n1", "n0") > 0).await;
    seats[1].link.cut();
    seats[1].gate.pause();
    sim.until_members(&seats[0], 1).await;
    // What it asked for arrives when it is no more.
    sim.net.release("n1", "n0");
    for _ in 0..50 {
        sim.env.sleep(Duration::from_millis(2)).await;
        assert!(!seats[0].knows("x"));
    }
    let _registered = seats[0].register("x").await.unwrap();
    asking.abort();
}

#[tokio::test(start_paused = true)]
async fn whoever_has_no_link_to_the_leader_registers_through_the_store() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    sim.net.part("n0", "n1");
    let start = sim.env.now();
    let (registered, _inbox) = seats[1].register("x").await.unwrap();
    assert!(sim.env.now() - start < TIME, "{:?}", sim.env.now() - start);
    assert_eq!(seats[0].owner_of("x").as_deref(), Some("n1"));
    registered.unregister(TIME).await.unwrap();
    assert!(!seats[0].knows("x"));
}
