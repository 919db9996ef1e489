//! What a registration comes to: registered, taken, unknown, not done; never one in place of another.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_registry::{Event, Metadata, Query, Registration, RegistryError, mailbox};
use tenure_store::{Env, Faults};

use crate::sim::{Seat, Sim, TIME};

async fn try_register(seat: &Seat, name: &str, time: Duration) -> Result<Registration, RegistryError> {
    let (mailbox, inbox) = mailbox::<(), ()>(1);
    std::mem::forget(inbox);
    seat.registry.register_with(name, &mailbox, Metadata::new(), time).await
}

#[tokio::test(start_paused = true)]
async fn answers_that_the_leader_loses_do_not_matter() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let mut events = seats[1].registry.subscribe(Query::all());
    assert!(matches!(events.next().await, Event::Snapshot { .. }));
    let lossy = Faults { unknown_landed: 0.4, unknown_lost: 0.3, ..Faults::NONE };
    seats[0].link.set_faults(lossy);
    let mut held = Vec::new();
    for number in 0..50 {
        held.push(try_register(&seats[number % 2], &format!("x{number}"), 10 * TIME).await.unwrap());
    }
    assert!(seats[0].link.tally().unknown_landed > 5 && seats[0].link.tally().unknown_lost > 5);
    sim.until("all are known", || seats[1].registry.len() == 50).await;
    let mut joined = 0;
    while let Some(event) = events.try_next() {
        assert!(matches!(event, Event::Joined { .. }), "{event:?}");
        joined += 1;
    }
    assert_eq!(joined, 50, "each once");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_on_the_way_leaves_the_outcome_open_and_is_taken_back() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    sim.net.hold("n0", "n1");
    let unknown = try_register(&seats[1], "x", Duration::from_secs(2)).await;
    assert!(matches!(unknown, Err(RegistryError::OutcomeUnknown { .. })), "{unknown:?}");
    assert!(unknown.unwrap_err().is_transient());
    // It was registered, and its answer is held.
    assert_eq!(seats[0].owner_of("x").as_deref(), Some("n1"));
    sim.net.release("n0", "n1");
    sim.until("taken back", || seats.iter().all(|seat| !seat.knows("x"))).await;
    let _registered = try_register(&seats[2], "x", TIME).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_is_carried_out_once() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let mut events = seats[0].registry.subscribe(Query::all());
    assert!(matches!(events.next().await, Event::Snapshot { .. }));
    sim.net.hold("n0", "n1");
    let (env, net) = (sim.env.clone(), sim.net.clone());
    tokio::spawn(async move {
        env.sleep(Duration::from_secs(4)).await;
        net.release("n0", "n1");
    });
    let before = sim.net.sent("n1", "n0");
    let registration = try_register(&seats[1], "x", 4 * TIME).await.unwrap();
    assert!(sim.net.sent("n1", "n0") > before + 2, "it was sent again and again");
    assert_eq!(seats[0].registry.whereis("x").unwrap().number(), registration.number());
    assert!(matches!(events.next().await, Event::Joined { .. }));
    sim.env.sleep(TIME).await;
    assert_eq!(events.try_next(), None, "once, and not taken back");
}

#[tokio::test(start_paused = true)]
async fn trying_again_after_an_unknown_outcome_is_never_taken_by_oneself() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    for round in 0..4 {
        // The answer is lost, and so is the leader.
        let leader = seats[0].registry.leader().await.unwrap().leader.unwrap();
        let leader = seats.iter().find(|seat| seat.id() == leader).unwrap();
        let asking = seats.iter().find(|seat| seat.name() != leader.name()).unwrap();
        sim.net.hold(leader.name(), asking.name());
        let unknown = try_register(asking, "x", Duration::from_millis(500)).await;
        assert!(matches!(unknown, Err(RegistryError::OutcomeUnknown { .. })), "{unknown:?}");
        leader.tell(tenure_registry::Membership::MemberDown(leader.id())).await;
        let registered = try_register(asking, "x", 4 * TIME).await;
        assert!(registered.is_ok(), "round {round}: {registered:?}");
        sim.net.release(leader.name(), asking.name());
        sim.until_members(asking, 3).await;
        registered.unwrap().unregister(TIME).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_registration_whose_future_is_dropped_is_taken_back() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    sim.net.hold("n0", "n1");
    let dropped = sim.env.timeout(Duration::from_millis(300), try_register(&seats[1], "x", TIME)).await;
    assert!(dropped.is_err());
    assert_eq!(seats[0].owner_of("x").as_deref(), Some("n1"), "it was made");
    sim.net.release("n0", "n1");
    sim.until("taken back", || seats.iter().all(|seat| !seat.knows("x"))).await;
    // On the node that leads, too.
    let env = sim.env.clone();
    seats[0].link.set_faults(Faults { delay: Duration::from_millis(50), ..Faults::NONE });
    for _ in 0..20 {
        let time = env.random_time(Duration::from_millis(100));
        drop(env.timeout(time, try_register(&seats[0], "y", TIME)).await);
    }
    sim.until("taken back", || seats.iter().all(|seat| !seat.knows("y"))).await;
    sim.until("nothing waits", || seats[0].registry.status().waiting == 0).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_is_cut_off_is_refused_with_an_error_that_passes() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    let (_kept, _inbox) = seats[2].register("kept").await.unwrap();
    // The leader alone on one side, with its link to the others.
    seats[0].link.cut();
    for seat in &seats {
        let refused = try_register(seat, "x", Duration::from_secs(1)).await.unwrap_err();
        assert!(refused.is_transient(), "{refused}");
        let known = try_register(seat, "kept", Duration::from_secs(1)).await.unwrap_err();
        assert!(known.is_transient() || matches!(known, RegistryError::Taken { .. }), "{known}");
    }
    sim.until_leads_one_of(&[&seats[1], &seats[2]]).await;
    let _registered = try_register(&seats[1], "x", 2 * TIME).await.unwrap();
    let lost = try_register(&seats[0], "y", Duration::from_secs(1)).await.unwrap_err();
    assert!(lost.is_transient() || matches!(lost, RegistryError::Lost { .. }), "{lost}");
    let session = seats[0].cluster.session().id();
    seats[0].link.heal();
    sim.until("another session", || seats[0].cluster.session().id() != session).await;
    sim.until("it is back", || seats[0].owner_of("x").as_deref() == Some("n1")).await;
    let taken = try_register(&seats[0], "x", TIME).await.unwrap_err();
    assert!(matches!(&taken, RegistryError::Taken { by, .. } if by.node.as_str() == "n1"), "{taken}");
}

#[tokio::test(start_paused = true)]
async fn whoever_must_know_asks_the_leader_or_the_store() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let lonely = sim.seat_without_links("lonely").await;
    sim.net.hold("n0", "n1");
    let _registered = seats[0].register("x").await.unwrap();
    assert!(!seats[1].knows("x"), "its stream stands still");
    sim.net.release("n0", "n1");
    sim.net.hold("n0", "n1");
    let second = seats[0].register("y").await.unwrap();
    assert!(seats[0].registry.whereis_consistent("y").await.unwrap().is_some(), "the leader");
    assert!(seats[1].registry.whereis_consistent("y").await.unwrap().is_some(), "a follower, by the store");
    assert!(lonely.registry.whereis_consistent("y").await.unwrap().is_some(), "one without links");
    sim.net.release("n0", "n1");
    second.0.unregister(TIME).await.unwrap();
    for seat in [&seats[0], &seats[1], &lonely] {
        assert_eq!(seat.registry.whereis_consistent("y").await.unwrap(), None, "{}", seat.name());
    }
    // A follower without the store asks the leader; without both it can't tell.
    seats[1].link.cut();
    assert!(seats[1].registry.whereis_consistent("x").await.unwrap().is_some());
    sim.net.part("n0", "n1");
    for name in ["x", "nobody"] {
        let refused = seats[1].registry.whereis_consistent(name).await.unwrap_err();
        assert!(matches!(refused, RegistryError::Unverified { .. }), "{refused}");
        assert!(refused.is_transient());
    }
    assert!(seats[1].registry.whereis_consistent("?\u{0}").await.is_err(), "no name at all");
}

#[tokio::test(start_paused = true)]
async fn in_a_storm_one_name_has_one_owner_and_taken_is_true() {
    for seed in 0..15 {
        let sim = Arc::new(Sim::new());
        let seats: Arc<Vec<Seat>> = Arc::new(sim.seats(3).await);
        let dice = Env::simulated(seed);
        seats.iter().for_each(|seat| seat.link.set_faults(Faults::STORM));
        let mut asking = Vec::new();
        for number in 0..9 {
            let (seats, env) = (Arc::clone(&seats), sim.env.clone());
            let pause = dice.random_time(Duration::from_millis(200));
            asking.push(tokio::spawn(async move {
                env.sleep(pause).await;
                (number % 3, try_register(&seats[number % 3], "x", TIME).await)
            }));
        }
        let mut won = BTreeMap::new();
        let mut taken = Vec::new();
        for asked in asking {
            match asked.await.unwrap() {
                (seat, Ok(registration)) => drop(won.insert(seat, registration)),
                (_, Err(RegistryError::Taken { by, .. })) => taken.push(by.node.to_string()),
                (_, Err(error)) => assert!(error.is_transient(), "{error}"),
            }
        }
        assert!(won.len() <= 1, "seed {seed}: {won:?}");
        seats.iter().for_each(|seat| seat.link.set_faults(Faults::NONE));
        if let Some((seat, registration)) = won.iter().next() {
            if !registration.remaining().is_zero() {
                let entry = seats[0].registry.whereis_consistent("x").await.unwrap().unwrap();
                assert_eq!(entry.owner().node.as_str(), seats[*seat].name(), "seed {seed}");
                assert_eq!(entry.number(), registration.number());
            }
        } else {
            sim.until("free again", || seats.iter().all(|seat| !seat.knows("x"))).await;
        }
        assert!(taken.iter().all(|node| ["n0", "n1", "n2"].contains(&node.as_str())), "{taken:?}");
    }
}
