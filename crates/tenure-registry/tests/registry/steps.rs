//! A change of leader, step by step, as `elector.rs` tells it.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cluster, Settings};
use tenure_registry::{
    Answered, Elector, Event, Inquiry, MemberId, Membership, Metadata, Query, RegistryError, mailbox,
};
use tenure_server::CallOptions;
use tenure_store::{Faults, Range, Store, StoreExt as _};

use crate::sim::{Sim, TIME};

#[tokio::test(start_paused = true)]
async fn a_joiner_never_displaces_the_incumbent() {
    let sim = Sim::new();
    let first = sim.seat("m").await;
    // One that sorts before it, and one behind.
    let others = [sim.seat("a").await, sim.seat("z").await];
    sim.until_members(&first, 3).await;
    sim.env.sleep(Duration::from_secs(30)).await;
    let led = first.registry.leader().await.unwrap();
    assert_eq!((led.epoch, led.leader), (1, Some(first.id())));
    assert!(others.iter().all(|other| other.registry.status().leader.unwrap().node.as_str() == "m"));
}

#[tokio::test(start_paused = true)]
async fn the_smallest_id_leads_where_the_node_that_decides_is_no_member() {
    let sim = Sim::new();
    // It runs electors, and takes part in another registry.
    let runner = sim.sit("a-runner", "other", true).await;
    let id = |node: &str| MemberId { node: node.into(), token: runner.id().token };
    for node in ["c", "b", "d"] {
        runner.tell(Membership::Join(id(node))).await;
    }
    let leader = async || match runner.elector().call(Inquiry::GetLeader).await.unwrap() {
        Answered::Leader(led) => (led.epoch, led.leader.map(|leader| leader.node)),
        other => panic!("{other:?}"),
    };
    assert_eq!(leader().await, (1, Some("c".into())), "the first that came");
    runner.tell(Membership::MemberDown(id("c"))).await;
    assert_eq!(leader().await, (2, Some("b".into())), "the smallest");
    runner.tell(Membership::MemberDown(id("b"))).await;
    runner.tell(Membership::MemberDown(id("d"))).await;
    assert_eq!(leader().await, (3, None), "nobody is left");
    runner.tell(Membership::Join(id("d"))).await;
    assert_eq!(leader().await, (4, Some("d".into())));
}

#[tokio::test(start_paused = true)]
async fn the_node_that_decides_leads_if_it_is_a_member() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    // Only the last can handle it: so it is the one that decides, though another is smaller.
    seats[1].gate.pause();
    seats[0].kill();
    sim.until_leads(&seats[2]).await;
    seats[1].gate.resume();
    assert_eq!(seats[2].registry.leader().await.unwrap().leader, Some(seats[2].id()));
}

#[tokio::test(start_paused = true)]
async fn members_wait_while_the_elector_is_locked_and_questions_do_not() {
    let (sim, seats) = Sim::stuck(2, |_| ()).await;
    let start = sim.env.now();
    let stranger = MemberId { node: "stranger".into(), token: seats[0].id().token };
    seats[0].tell(Membership::Join(stranger.clone())).await;
    let options = || CallOptions::default().timeout(Duration::from_millis(50));
    let members = async || match seats[0].elector().priority_call(Inquiry::GetMembers, options()).await {
        Ok(Answered::Members(members)) => members.into_iter().map(|(node, _)| node).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    while sim.env.now() - start < Duration::from_millis(300) {
        assert!(!members().await.contains(&stranger.node), "it waits");
        let led = seats[0].elector().priority_call(Inquiry::GetLeader, options()).await.unwrap();
        assert!(matches!(led, Answered::Leader(led) if led.leader == Some(seats[1].id())));
        sim.env.sleep(Duration::from_millis(10)).await;
    }
    while !members().await.contains(&stranger.node) {
        assert!(sim.env.now() - start < Duration::from_secs(3), "each call is given up after half a second");
        sim.env.sleep(Duration::from_millis(10)).await;
    }
    let handover = seats[0].elector().read(|council| council.handover.clone()).await.unwrap();
    assert_eq!(handover, None, "the lock was released before the next was handled");
}

/// Somebody who takes no part, and tells the elector something.
async fn outsider(sim: &Sim) -> Cluster {
    let mut settings = Settings::new("fleet", "outsider").unwrap();
    settings.proof_of_death = false;
    let store = Arc::clone(&sim.store) as Arc<dyn Store>;
    Cluster::join_in(store, settings, sim.env.fork()).await.unwrap()
}

/// Declares a member down, from outside.
async fn declare_down(cluster: &Cluster, member: MemberId) {
    let elector = Elector::of(cluster, "names").unwrap();
    elector.cast(Membership::MemberDown(member)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_old_leader_relinquishes_when_it_transfers_to_a_brand_new_one() {
    let sim = Sim::new();
    let outsider = outsider(&sim).await;
    let old = sim.seat("n0").await;
    let (_kept, _inbox) = old.register("kept").await.unwrap();
    // It reaches the other by its link only, so it can't find out by itself that it leads no longer.
    old.link.cut();
    declare_down(&outsider, old.id()).await;
    assert!(old.registry.whereis_consistent("kept").await.unwrap().is_some(), "it leads, for sure");
    let new = sim.seat("n9").await;
    sim.until_leads(&new).await;
    sim.until_members(&new, 1).await;
    let refused = old.registry.whereis_consistent("kept").await;
    assert!(matches!(refused, Err(RegistryError::Unverified { .. })), "{refused:?}");
    assert!(new.knows("kept"));
    assert_eq!(new.registry.leader().await.unwrap().epoch, 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_old_leader_had_under_way_is_answered_by_the_new_one() {
    let sim = Sim::new();
    let outsider = outsider(&sim).await;
    let old = sim.seat("n0").await;
    old.link.set_faults(Faults { delay: Duration::from_millis(100), ..Faults::NONE });
    let registry = old.registry.clone();
    let registering = tokio::spawn(async move {
        let (mailbox, _inbox) = mailbox::<(), ()>(1);
        let registration = registry.register_with("pending", &mailbox, Metadata::new(), 4 * TIME).await?;
        std::mem::forget(registration);
        Ok::<_, RegistryError>(())
    });
    sim.until("it waits", || old.registry.status().waiting == 1).await;
    old.gate.pause();
    declare_down(&outsider, old.id()).await;
    let new = sim.seat("n9").await;
    // The elector asks the old leader, which then goes on.
    sim.until("asked", || sim.net.sent("n9", "n0") > 1).await;
    old.gate.resume();
    registering.await.unwrap().unwrap();
    sim.until_leads(&new).await;
    assert_eq!(new.registry.whereis_consistent("pending").await.unwrap().unwrap().epoch(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_takes_over_starts_from_its_own_names() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (_kept, _inbox) = seats[1].register("kept").await.unwrap();
    let mut events = seats[1].registry.subscribe(Query::all());
    let Event::Snapshot { entries, position } = events.next().await else { panic!("no snapshot") };
    assert_eq!(entries.len(), 1);
    seats[0].kill();
    sim.until_leads(&seats[1]).await;
    assert_eq!(seats[1].registry.status().applied, position);
    assert_eq!(events.try_next(), None, "nothing was lost, not even for a moment");
}

#[tokio::test(start_paused = true)]
async fn followers_get_what_they_lack_before_what_a_new_leader_registers() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    let mut events = seats[2].registry.subscribe(Query::all());
    assert!(matches!(events.next().await, Event::Snapshot { .. }));
    sim.net.hold("n0", "n2");
    let _before = [seats[1].register("a").await.unwrap(), seats[1].register("b").await.unwrap()];
    assert!(!seats[2].knows("a"), "its stream stands still");
    // The other can't be elected, nor learn from the store who is.
    seats[2].gate.pause();
    seats[0].kill();
    sim.until_leads(&seats[1]).await;
    let _after = seats[1].register("c").await.unwrap();
    seats[2].gate.resume();
    sim.until("all are known", || seats[2].knows("c")).await;
    let mut joined = Vec::new();
    while let Some(event) = events.try_next() {
        let Event::Joined { entry, position } = event else { panic!("{event:?}") };
        joined.push((entry.name().to_owned(), position));
    }
    let names: Vec<&str> = joined.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(joined.is_sorted_by(|one, other| one.1 < other.1), "{joined:?}");
    assert_eq!(seats[2].registry.status().epoch, 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_that_is_not_told_finds_out_by_itself() {
    let (sim, seats) = Sim::stuck(2, |_| ()).await;
    sim.net.part("n0", "n1");
    seats[1].gate.resume();
    sim.until_leads(&seats[1]).await;
    let _registered = seats[1].register("x").await.unwrap();
    assert_eq!(seats[1].registry.whereis("x").unwrap().epoch(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_leader_that_is_not_reached_costs_little_time_and_no_name() {
    let sim = Sim::new();
    let outsider = outsider(&sim).await;
    let old = sim.seat("n0").await;
    let mut held = Vec::new();
    for number in 0..100 {
        held.push(old.register(&format!("kept-{number}")).await.unwrap());
    }
    old.link.cut();
    sim.net.part("n0", "n9");
    declare_down(&outsider, old.id()).await;
    let start = sim.env.now();
    let new = sim.seat("n9").await;
    sim.until_leads(&new).await;
    let _registered = new.register("x").await.unwrap();
    assert!(sim.env.now() - start < Duration::from_secs(2), "{:?}", sim.env.now() - start);
    assert!((0..100).all(|number| new.knows(&format!("kept-{number}"))));
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_node_left_locked_is_finished_by_another() {
    let (sim, seats) = Sim::stuck(3, |_| ()).await;
    let handover = seats[0].elector().read(|council| council.handover.clone()).await.unwrap();
    assert!(handover.is_some(), "it is under way");
    seats[0].kill();
    seats[1..].iter().for_each(|seat| seat.gate.resume());
    sim.until_leads(&seats[1]).await;
    let start = sim.env.now();
    let _registered = seats[2].register("x").await.unwrap();
    assert!(sim.env.now() - start < Duration::from_secs(2), "names need no elector");
    let late = sim.seat("late").await;
    sim.until_members(&late, 3).await;
    let handover = late.elector().read(|council| council.handover.clone()).await.unwrap();
    assert_eq!(handover, None);
    assert_eq!(late.registry.leader().await.unwrap().leader, Some(seats[1].id()), "nobody else was elected");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_leader_is_finished_before_the_next_though_the_store_fails_meanwhile() {
    let sim = Sim::new();
    let outsider = outsider(&sim).await;
    let elector = Elector::of(&outsider, "names").unwrap();
    let seat = sim.seat("n0").await;
    let id = |node: &str| MemberId { node: node.into(), token: seat.id().token };
    elector.cast(Membership::Join(id("next"))).await.unwrap();
    sim.until_members(&seat, 2).await;
    seat.link.set_faults(Faults { delay: Duration::from_millis(50), ..Faults::NONE });
    declare_down(&outsider, seat.id()).await;
    let leader = async || elector.read(|council| council.leader.clone()).await.unwrap();
    while leader().await.epoch != 2 {
        sim.env.sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(leader().await.leader, Some(id("next")));
    // The commit has landed. From now on nothing can be read for a while.
    seat.link.set_faults(Faults { unavailable: 1.0, ..Faults::NONE });
    elector.cast(Membership::Join(id("behind"))).await.unwrap();
    let behind = id("behind");
    let states = async || {
        let behind = behind.clone();
        elector.read(move |council| (council.handover.is_some(), council.is_member(&behind))).await.unwrap()
    };
    sim.env.sleep(Duration::from_millis(300)).await;
    assert_eq!(states().await, (true, false), "it is not finished");
    seat.link.set_faults(Faults { delay: Duration::from_millis(5), ..Faults::NONE });
    let start = sim.env.now();
    while states().await != (false, true) {
        assert_ne!(states().await, (true, true), "the next was handled before");
        assert!(sim.env.now() - start < TIME, "{:?}", states().await);
        sim.env.sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(leader().await.epoch, 2, "the leader is the same");
}

#[tokio::test(start_paused = true)]
async fn who_leads_can_be_watched_without_the_elector() {
    let sim = Sim::new();
    let outsider = outsider(&sim).await;
    let key = Elector::leader_key(&outsider, "names").unwrap();
    let mut watch = sim.store.watch(Range::Key(key.clone()));
    let led = async || match sim.store.get(&key).await.unwrap() {
        Some(value) => Some(Elector::leader_at(&key, &value.value).unwrap()),
        None => None,
    };
    assert_eq!(led().await, None);
    let seats = sim.seats(2).await;
    watch.changed().await;
    let first = led().await.unwrap();
    assert_eq!((first.epoch, first.leader), (1, Some(seats[0].id())));
    let version = async || sim.store.get(&key).await.unwrap().unwrap().version;
    let before = version().await;
    let more = sim.seat("n2").await;
    sim.until_members(&more, 3).await;
    assert_eq!(version().await, before, "it changes with the leader only");
    seats[0].kill();
    sim.until_leads_one_of(&[&seats[1], &more]).await;
    watch.changed().await;
    assert_eq!(led().await.unwrap().epoch, 2);
    let strange = Elector::leader_at(&key, &"?".into()).unwrap_err().to_string();
    assert!(strange.contains("leader"), "{strange}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_commits_all_that_it_has_taken_before_another_leads() {
    let sim = Sim::new();
    let mut seats = sim.seats(3).await;
    let leader = seats.remove(0);
    let register = |number: usize| {
        let (registry, name) = (seats[number % 2].registry.clone(), format!("x{number}"));
        tokio::spawn(async move {
            let (mailbox, _inbox) = mailbox::<(), ()>(1);
            registry.register(&name, &mailbox).await.unwrap()
        })
    };
    leader.link.set_faults(Faults { delay: Duration::from_millis(100), ..Faults::NONE });
    // One is under way, and the others wait for it.
    let mut asking = vec![register(0)];
    sim.env.sleep(Duration::from_millis(1)).await;
    asking.extend((1..40).map(register));
    sim.env.sleep(Duration::from_millis(1)).await;
    assert_eq!(seats[0].registry.len(), 0, "nothing is committed yet");
    leader.cluster.leave().await;
    let mut kept = Vec::new();
    for asked in asking {
        kept.push(asked.await.unwrap());
    }
    sim.until_leads_one_of(&[&seats[0], &seats[1]]).await;
    for registration in &kept {
        let entry = seats[0].registry.whereis_consistent(registration.name()).await.unwrap().unwrap();
        assert_eq!((entry.epoch(), entry.number()), (1, registration.number()), "{entry:?}");
    }
    assert_eq!(seats[0].registry.leader().await.unwrap().epoch, 2);
}
