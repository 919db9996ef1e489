//! Races that a change of leader must survive, each under its name.

use std::time::Duration;

use tenure_registry::{Answered, Event, Inquiry, MemberId, Membership, Query};

use crate::sim::{Sim, TIME};

#[tokio::test(start_paused = true)]
async fn a_departure_that_was_overtaken_by_a_new_arrival_is_discarded() {
    let sim = Sim::new();
    let runner = sim.sit("a-runner", "other", true).await;
    let other = sim.sit("other", "other", true).await;
    let (old, new) = (runner.id().token, other.id().token);
    let id = |token| MemberId { node: "b".into(), token };
    for said in [
        Membership::Join(id(old)),
        Membership::Join(id(new)),
        // It was told before the new arrival, and is handled behind it.
        Membership::MemberDown(id(old)),
    ] {
        runner.tell(said).await;
    }
    let asked = runner.elector().call(Inquiry::GetLeader).await.unwrap();
    let Answered::Leader(led) = asked else { panic!("{asked:?}") };
    assert_eq!((led.epoch, led.leader), (2, Some(id(new))), "it leads in its new incarnation");
    let members = runner.elector().read(|council| council.members.len()).await.unwrap();
    assert_eq!(members, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_came_back_stays_though_its_departure_is_told_late() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let before = seats[1].id();
    seats[1].link.cut();
    sim.until_members(&seats[0], 1).await;
    seats[1].link.heal();
    sim.until("another session", || seats[1].id() != before).await;
    let asked = seats[1].id();
    while !seats[0]
        .elector()
        .read({
            let asked = asked.clone();
            move |council| council.is_member(&asked)
        })
        .await
        .unwrap()
    {
        sim.env.sleep(Duration::from_millis(5)).await;
    }
    seats[0].tell(Membership::MemberDown(before)).await;
    sim.env.sleep(TIME).await;
    assert!(seats[0].elector().read(move |council| council.is_member(&asked)).await.unwrap());
    let _registered = seats[1].register("x").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_late_word_of_an_old_leader_changes_nothing() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    sim.net.hold("n0", "n2");
    let (gone, _inbox) = seats[1].register("gone").await.unwrap();
    sim.until("it is on its way", || sim.net.holds("n0", "n2") > 0).await;
    // Its link still has what it said.
    seats[0].link.cut();
    seats[0].gate.kill();
    sim.until_leads_one_of(&[&seats[1], &seats[2]]).await;
    gone.unregister(TIME).await.unwrap();
    let position = seats[1].registry.status().applied;
    sim.until("it has it all", || seats[2].registry.status().applied == position).await;
    let mut events = seats[2].registry.subscribe(Query::all());
    assert!(matches!(events.next().await, Event::Snapshot { .. }));
    let before = seats[2].registry.status();
    sim.net.release("n0", "n2");
    sim.env.sleep(Duration::from_millis(100)).await;
    assert_eq!((seats[2].registry.status(), events.try_next()), (before, None));
    assert!(!seats[2].knows("gone"));
}

#[tokio::test(start_paused = true)]
async fn a_late_call_to_lead_in_an_old_epoch_changes_nothing() {
    // `n0` decides that `n1` leads, and tells it; that stands still.
    let (sim, seats) = Sim::stuck(2, |sim| sim.net.hold("n0", "n1")).await;
    sim.until("told", || sim.net.holds("n0", "n1") > 0).await;
    // Meanwhile it is declared down as well: `n0` leads again.
    seats[0].tell(Membership::MemberDown(seats[1].id())).await;
    sim.env.sleep(TIME).await;
    seats[1].gate.resume();
    sim.until_leads(&seats[0]).await;
    sim.until_members(&seats[0], 2).await;
    let epoch = seats[0].registry.leader().await.unwrap().epoch;
    assert!(epoch > 2);
    sim.net.release("n0", "n1");
    sim.env.sleep(TIME).await;
    assert!(!seats[1].registry.status().leads() && seats[0].registry.status().leads());
    assert_eq!(seats[1].registry.status().epoch, epoch);
    let _registered = seats[1].register("x").await.unwrap();
    assert_eq!(seats[0].registry.whereis("x").unwrap().epoch(), epoch);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_wrongly_declared_down_joins_again_by_itself() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (_kept, _inbox) = seats[0].register("kept").await.unwrap();
    seats[1].tell(Membership::MemberDown(seats[0].id())).await;
    sim.until("another epoch", || seats.iter().all(|seat| seat.registry.status().epoch >= 2)).await;
    sim.until_members(&seats[1], 2).await;
    assert!(seats.iter().all(|seat| seat.owner_of("kept").as_deref() == Some("n0")));
    for seat in &seats {
        let (registered, _inbox) = seat.register("x").await.unwrap();
        registered.unregister(TIME).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_wrongly_declared_down_joins_again_by_itself() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    seats[0].tell(Membership::MemberDown(seats[1].id())).await;
    let asked = seats[1].id();
    let is_member = async || {
        let asked = asked.clone();
        seats[0].elector().read(move |council| council.is_member(&asked)).await.unwrap()
    };
    while is_member().await {
        sim.env.sleep(Duration::from_millis(1)).await;
    }
    let start = sim.env.now();
    while !is_member().await {
        assert!(sim.env.now() - start < Duration::from_secs(30), "it stays away");
        sim.env.sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_does_not_come_back_nor_lead_once_more() {
    for seed in 0..20 {
        let sim = Sim::new();
        for _ in 0..seed {
            // Another course of events each time.
            let _ = sim.env.random_u64();
        }
        let mut seats = sim.seats(3).await;
        let _kept = seats[1].register("kept").await.unwrap();
        let leaver = seats.remove(0);
        let id = leaver.id();
        leaver.link.set_faults(tenure_store::Faults {
            delay: Duration::from_millis(20),
            ..tenure_store::Faults::NONE
        });
        leaver.registry.clone().leave().await;
        let start = sim.env.now();
        sim.until_leads_one_of(&[&seats[0], &seats[1]]).await;
        assert!(sim.env.now() - start < Duration::from_secs(2), "nobody waits for a session to lapse");
        sim.env.sleep(Duration::from_millis(500)).await;
        let is_member = seats[0].elector().read(move |council| council.is_member(&id)).await.unwrap();
        assert!(!is_member, "seed {seed}");
        assert_eq!(seats[0].registry.leader().await.unwrap().epoch, 2, "seed {seed}");
        assert!(leaver.cluster.session().ended().is_none(), "it is in the cluster all the while");
        assert!(seats.iter().all(|seat| seat.knows("kept")));
    }
}
