//! How long a name is whose: owners that are cut off, killed, restarted.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_registry::{Metadata, Registries as _, RegistryError, Undelivered, mailbox};
use tenure_store::{Env, Faults, Moment};

use crate::sim::{Seat, Sim, TIME};

/// Takes down when it is dropped.
struct Dropped(Env, Arc<Mutex<Option<Moment>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.1.lock() = Some(self.0.now());
    }
}

/// When a name is free for this node.
async fn free_at(sim: &Sim, seat: &Seat, name: &str) -> Moment {
    loop {
        match seat.register(name).await {
            Ok((registration, _)) => {
                let now = sim.env.now();
                std::mem::forget(registration);
                return now;
            }
            Err(RegistryError::Taken { by, .. }) => assert_eq!(by.node.as_str(), "n1"),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        sim.env.sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_cut_off_is_told_before_another_can_have_the_name() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    let (registration, _kept) = seats[1].register("registered").await.unwrap();
    let (received, mut inbox) = seats[1].register("received").await.unwrap();
    let task_ended = Arc::new(Mutex::new(None));
    let guard = Dropped(sim.env.clone(), Arc::clone(&task_ended));
    let task = move |mut inbox: tenure_registry::Inbox<(), ()>| async move {
        let _guard = guard;
        // It goes on whatever its inbox says.
        while inbox.recv().await.is_some() {}
        std::future::pending::<()>().await;
    };
    let mut spawned = seats[1].registry.spawn("spawned", 1, task).await.unwrap();
    seats[1].link.cut();
    sim.net.part("n1", "n0");
    sim.net.part("n1", "n2");
    let deadline = sim.env.now().after(registration.remaining());
    let env = sim.env.clone();
    let lost = tokio::spawn(async move {
        registration.lost().await;
        (env.now(), registration)
    });
    let env = sim.env.clone();
    let closed = tokio::spawn(async move {
        assert!(inbox.recv().await.is_none());
        (env.now(), received)
    });
    let mut free = Vec::new();
    for name in ["registered", "received", "spawned"] {
        free.push(free_at(&sim, &seats[0], name).await);
    }
    let (lost, registration) = lost.await.unwrap();
    let (closed, _received) = closed.await.unwrap();
    spawned.ended().await;
    let ended = task_ended.lock().unwrap();
    for (told, free) in [lost, closed, ended].into_iter().zip(free) {
        assert!(told < deadline, "{told:?} is not before {deadline:?}");
        assert!(told < free && deadline <= free, "{told:?}, {deadline:?}, {free:?}");
    }
    assert!(spawned.is_lost() && registration.remaining().is_zero());
    let refused = registration.describe(Metadata::new(), TIME).await;
    assert!(matches!(refused, Err(RegistryError::Lost { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn after_its_session_has_lapsed_a_node_registers_nothing() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (old, old_inbox) = mailbox::<(), ()>(1);
    let _held = seats[1].registry.register("x", &old).await.unwrap();
    seats[1].link.cut();
    sim.until("lapsed", || seats[1].cluster.session().remaining().is_zero()).await;
    let (new, mut new_inbox) = mailbox::<(), ()>(1);
    let refused = seats[1].registry.register("y", &new).await.unwrap_err();
    assert!(matches!(refused, RegistryError::Unavailable { .. }) && refused.is_transient(), "{refused}");
    assert!(refused.to_string().contains("session"), "{refused}");
    let closed = seats[1].registry.send("x", &()).await;
    assert!(closed.is_err(), "{closed:?}");
    sim.until_members(&seats[0], 1).await;
    let session = seats[1].cluster.session().id();
    seats[1].link.heal();
    sim.until("another session", || seats[1].cluster.session().id() != session).await;
    // What hangs on it is not closed with the one before.
    let (early, _inbox) = seats[1].register("early").await.unwrap();
    // A mailbox that was closed stays so.
    let lost = seats[1].registry.register("x", &old).await;
    assert!(matches!(lost, Err(RegistryError::Lost { .. })), "{lost:?}");
    drop(old_inbox);
    let _registered = seats[1].register("x").await.unwrap();
    // One that was refused for a while is as good as before.
    let _tried_again = seats[1].registry.register("y", &new).await.unwrap();
    seats[1].registry.send("y", &()).await.unwrap();
    assert!(new_inbox.recv().await.is_some());
    sim.env.sleep(TIME).await;
    assert!(!early.remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn names_whose_mailbox_was_closed_are_free_though_the_session_goes_on() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    let session = seat.cluster.session().id();
    let (held, _inbox) = seat.register("held").await.unwrap();
    let (dropped, _inbox) = seat.register("dropped").await.unwrap();
    // Nobody else is there who could end its session.
    seat.link.cut();
    held.lost().await;
    drop(dropped);
    sim.until("lapsed", || seat.cluster.session().remaining().is_zero()).await;
    seat.link.heal();
    sim.until("goes on", || !seat.cluster.session().remaining().is_zero()).await;
    assert_eq!(seat.cluster.session().id(), session, "it goes on");
    let closed = seat.registry.send("held", &1_u64).await;
    assert!(closed.is_err(), "{closed:?}");
    sim.until("free", || !seat.knows("held") && !seat.knows("dropped")).await;
    let _registered = seat.register("held").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn names_of_a_killed_node_are_free_and_those_of_the_others_are_not() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    let _kept = seats[1].register("kept").await.unwrap();
    let _gone = seats[2].register("gone").await.unwrap();
    seats[2].kill();
    sim.until("free", || !seats[1].knows("gone") && !seats[0].knows("gone")).await;
    assert!(seats[0].knows("kept") && seats[1].knows("kept"));
    let _registered = seats[0].register("gone").await.unwrap();
    sim.until_members(&seats[0], 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_outlives_everybody_but_its_owner() {
    let sim = Sim::new();
    let mut seats = sim.seats(4).await;
    let owner = seats.remove(2);
    let (kept, mut inbox) = owner.register("kept").await.unwrap();
    seats.iter().for_each(Seat::kill);
    let newcomer = sim.seat("newcomer").await;
    assert_eq!(newcomer.owner_of("kept").as_deref(), Some("n2"));
    newcomer.registry.send("kept", &7_u64).await.unwrap();
    assert_eq!(inbox.recv().await.unwrap().message, 7);
    let taken = newcomer.register("kept").await.unwrap_err();
    assert!(
        matches!(&taken, RegistryError::Taken { by, .. } if by.node.as_str() == "n2") || taken.is_transient(),
        "{taken}"
    );
    assert!(!kept.remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_everything_old_names_are_gone_and_new_ones_work() {
    let sim = Sim::new();
    let seats = sim.seats(3).await;
    let mut held = Vec::new();
    for number in 0..300 {
        held.push(seats[number % 3].register(&format!("old-{number}")).await.unwrap());
    }
    let epoch = seats[0].registry.status().epoch;
    seats.iter().for_each(Seat::kill);
    let again = [sim.seat("new-0").await, sim.seat("new-1").await];
    sim.until("all are free", || again.iter().all(|seat| seat.registry.is_empty())).await;
    assert!(again[0].registry.status().epoch > epoch);
    let _registered = again[1].register("old-1").await.unwrap();
    let entry = again[0].registry.whereis_consistent("old-1").await.unwrap().unwrap();
    assert_eq!(entry.owner().node.as_str(), "new-1");
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_was_left_and_opened_again_is_a_new_one() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (before, mut old_inbox) = seats[1].register("before").await.unwrap();
    let number = before.number();
    // It can't take its names back, since nobody hears it.
    seats[1].link.cut();
    sim.net.part("n0", "n1");
    let leaving = tokio::spawn(seats[1].registry.clone().leave());
    leaving.await.unwrap();
    assert!(old_inbox.recv().await.is_none(), "its mailboxes are closed");
    seats[1].link.heal();
    sim.net.heal();
    let wire = sim.net.end(seats[1].cluster.ground());
    let registry = seats[1].cluster.registry_over("names", Some(wire)).await.unwrap();
    let (mailbox, mut inbox) = mailbox::<u64, u64>(4);
    let registration = registry.register("after", &mailbox).await.unwrap();
    assert_ne!(registration.number(), number, "no number is used twice in a session");
    // What is sent to the old name never gets into the new mailbox.
    let sent = seats[0].registry.send("before", &1_u64).await;
    let refused = matches!(
        sent,
        Err(RegistryError::NotRegistered { .. } | RegistryError::Undelivered { why: Undelivered::Closed, .. })
    );
    assert!(refused, "{sent:?}");
    seats[0].registry.send("after", &2_u64).await.unwrap();
    assert_eq!(inbox.recv().await.unwrap().message, 2);
    sim.until("free", || !seats[0].knows("before")).await;
}

#[tokio::test(start_paused = true)]
async fn a_clone_of_a_registry_that_was_left_does_no_harm_to_the_next_one() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    let stale = seat.registry.clone();
    seat.registry.clone().leave().await;
    let (mailbox, mut inbox) = mailbox::<u64, u64>(4);
    let left = stale.register("early", &mailbox).await;
    assert!(matches!(left, Err(RegistryError::Left)), "{left:?}");
    let wire = sim.net.end(seat.cluster.ground());
    let registry = seat.cluster.registry_over("names", Some(wire)).await.unwrap();
    let registration = registry.register("after", &mailbox).await.unwrap();
    sim.until("it leads", || registry.status().leads()).await;
    let epoch = registry.status().epoch;
    stale.leave().await;
    sim.env.sleep(TIME).await;
    assert!(!registration.remaining().is_zero());
    registry.send("after", &1_u64).await.unwrap();
    assert_eq!(inbox.recv().await.unwrap().message, 1);
    assert_eq!((registry.status().leads(), registry.status().epoch), (true, epoch), "it has not even paused");
}

#[tokio::test(start_paused = true)]
async fn a_leader_leaves_in_time_though_its_batch_cannot_be_settled() {
    for leaves_cluster in [true, false] {
        let sim = Sim::new();
        let seats = sim.seats(2).await;
        seats[0].link.set_faults(Faults { delay: Duration::from_millis(500), ..Faults::NONE });
        let registry = seats[0].registry.clone();
        let registering = tokio::spawn(async move {
            let (mailbox, _inbox) = mailbox::<(), ()>(1);
            registry.register("under way", &mailbox).await.map(drop)
        });
        sim.until("it waits", || seats[0].registry.status().waiting == 1).await;
        sim.env.sleep(Duration::from_millis(5)).await;
        seats[0].link.cut();
        let (cluster, registry) = (seats[0].cluster.clone(), seats[0].registry.clone());
        let leaving = async move {
            if leaves_cluster {
                cluster.leave().await;
            } else {
                registry.leave().await;
            }
        };
        let time = seats[0].cluster.settings().ttl * 3;
        assert!(sim.env.timeout(time, leaving).await.is_ok(), "it hangs as long as the store is gone");
        assert!(registering.await.unwrap().is_err());
        sim.until_leads(&seats[1]).await;
        let _registered = seats[1].register("x").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_process_that_is_no_more_is_not_given_to_its_successor() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let _taken = seats[0].register("taken").await.unwrap();
    // The answer waits at the leader until the node is back, as another process.
    sim.net.cut("n0", "n1");
    let unknown = seats[1].register("taken").await.unwrap_err();
    assert!(matches!(unknown, RegistryError::OutcomeUnknown { .. }), "{unknown}");
    seats[1].cluster.leave().await;
    seats[1].kill();
    let again = sim.seat("n1").await;
    let (env, net) = (sim.env.clone(), sim.net.clone());
    tokio::spawn(async move {
        env.sleep(Duration::from_secs(1)).await;
        net.heal();
    });
    let _registered = again.register("free").await.unwrap();
    assert_eq!(seats[0].owner_of("free").as_deref(), Some("n1"));
}
