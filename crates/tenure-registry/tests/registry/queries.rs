//! Lists, labels and subscriptions, through the handle.

use tenure_registry::{
    Event, Metadata, Query, REGISTRY_NAME_BYTES_MAX, Registries as _, RegistryError, mailbox,
};
use tenure_store::Name;

use crate::sim::{Seat, Sim, TIME};

async fn describe(seat: &Seat, name: &str, metadata: Metadata) -> tenure_registry::Registration {
    let (mailbox, inbox) = mailbox::<(), ()>(1);
    std::mem::forget(inbox);
    seat.registry.register_with(name, &mailbox, metadata, TIME).await.unwrap()
}

fn names(seat: &Seat, query: &Query) -> Vec<String> {
    let page = seat.registry.list(query, None, 100);
    assert_eq!(page.next, None);
    page.entries.iter().map(|entry| entry.name().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn names_are_listed_in_pages_without_gap_and_without_repetition() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    let mut held = Vec::new();
    for number in 0..25 {
        held.push(seat.register(&format!("user/{number:02}")).await.unwrap());
        held.push(seat.register(&format!("zone/{number:02}")).await.unwrap());
    }
    let query = Query::all().named("user/");
    for limit in [1, 7, 24, 25, 26] {
        let (mut after, mut found) = (None::<String>, Vec::new());
        loop {
            let page = seat.registry.list(&query, after.as_deref(), limit);
            assert!(page.entries.len() <= limit && page.position == seat.registry.status().applied);
            found.extend(page.entries.iter().map(|entry| entry.name().to_owned()));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let expected: Vec<String> = (0..25).map(|number| format!("user/{number:02}")).collect();
        assert_eq!(found, expected, "{limit}");
    }
    assert_eq!(seat.registry.list(&Query::all().named("zone/2"), None, 100).entries.len(), 5);
    assert!(seat.registry.list(&query, None, 0).entries.is_empty());
    assert_eq!((seat.registry.len(), seat.registry.is_empty()), (50, false));
}

#[tokio::test(start_paused = true)]
async fn labels_find_names_on_every_node_and_follow_what_is_said_of_them() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let labels = |zone: &str, release: &str| Metadata::new().label("zone", zone).label("release", release);
    let a = describe(&seats[0], "a", labels("eu", "2.1").data("data of a")).await;
    let _b = describe(&seats[1], "b", labels("eu", "1.9")).await;
    let _c = describe(&seats[1], "c", labels("us", "2.2")).await;
    let _d = describe(&seats[1], "d", Metadata::new()).await;
    sim.until("all are known", || seats.iter().all(|seat| seat.registry.len() == 4)).await;
    let eu = Query::all().label("zone", "eu");
    let second = Query::all().label_prefix("release", "2.");
    for seat in &seats {
        assert_eq!(names(seat, &eu), ["a", "b"]);
        assert_eq!(names(seat, &second), ["a", "c"]);
        assert_eq!(names(seat, &second.clone().label("zone", "us")), ["c"]);
        assert_eq!(names(seat, &eu.clone().named("b")), ["b"]);
        assert_eq!(names(seat, &Query::all().label_prefix("zone", "")), ["a", "b", "c"]);
        assert_eq!(names(seat, &Query::all().label("zone", "e")), Vec::<String>::new());
        assert_eq!(seat.registry.whereis("a").unwrap().metadata().data, "data of a");
    }
    let (since, position) = {
        let entry = seats[0].registry.whereis("a").unwrap();
        (entry.since(), entry.position())
    };
    a.describe(labels("us", "3"), TIME).await.unwrap();
    assert_eq!(names(&seats[0], &eu), ["b"], "where it was said, at once");
    sim.until("known", || names(&seats[1], &eu) == ["b"]).await;
    let entry = seats[1].registry.whereis("a").unwrap();
    assert_eq!((entry.since(), entry.position(), entry.number()), (since, position, a.number()));
    assert!(entry.metadata().data.is_empty(), "in place of all that was said before");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_tells_who_comes_to_be_meant_and_who_does_not() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let zone = |zone: &str| Metadata::new().label("zone", zone);
    let a = describe(&seats[0], "a", zone("eu")).await;
    sim.until("known", || seats[1].knows("a")).await;
    let mut events = seats[1].registry.subscribe(Query::all().label("zone", "eu"));
    let mut next = async || {
        sim.env.timeout(TIME, events.next()).await.map(|event| match event {
            Event::Snapshot { entries, .. } => format!("{} there", entries.len()),
            Event::Joined { entry, .. } => format!("{} joined", entry.name()),
            Event::Changed { entry, .. } => format!("{} changed", entry.name()),
            Event::Left { entry, .. } => format!("{} left", entry.name()),
            _ => "something else".into(),
        })
    };
    assert_eq!(next().await.unwrap(), "1 there");
    let b = describe(&seats[0], "b", zone("us")).await;
    b.describe(zone("eu"), TIME).await.unwrap();
    b.describe(zone("eu").data("more"), TIME).await.unwrap();
    b.describe(zone("us"), TIME).await.unwrap();
    b.describe(zone("us").data("more"), TIME).await.unwrap();
    drop(b);
    drop(a);
    for expected in ["b joined", "b changed", "b left", "a left"] {
        assert_eq!(next().await.unwrap(), expected);
    }
    next().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_is_slow_gets_all_that_is_there_instead() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    let mut events = seat.registry.subscribe(Query::all());
    assert!(matches!(events.next().await, Event::Snapshot { .. }));
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let mut registering = Vec::new();
    for number in 0..5000 {
        let (registry, mailbox) = (seat.registry.clone(), mailbox.clone());
        registering.push(tokio::spawn(async move {
            registry.register_with(&format!("x{number}"), &mailbox, Metadata::new(), 4 * TIME).await
        }));
    }
    let mut held = Vec::new();
    for registered in registering {
        held.push(registered.await.unwrap().unwrap());
    }
    let Event::Snapshot { entries, position } = events.next().await else { panic!("no snapshot") };
    assert_eq!((entries.len(), position), (5000, seat.registry.status().applied));
    drop(held.pop());
    assert!(matches!(events.next().await, Event::Left { .. }), "and then every change");
}

#[tokio::test(start_paused = true)]
async fn what_breaks_a_rule_is_refused_before_anything_is_asked() {
    let sim = Sim::new();
    let seat = sim.seat("n0").await;
    // Nothing could be asked.
    seat.link.cut();
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let start = sim.env.now();
    let long = "x".repeat(Name::BYTES_MAX + 1);
    for name in ["", long.as_str(), "nul\u{0}"] {
        let refused = seat.registry.register(name, &mailbox).await.unwrap_err();
        assert!(matches!(refused, RegistryError::Invalid(_)), "{refused}");
        assert!(matches!(seat.registry.explain(name), Err(RegistryError::Invalid(_))));
        assert!(matches!(seat.registry.send(name, &()).await, Err(RegistryError::Invalid(_))));
        assert!(matches!(seat.registry.whereis_consistent(name).await, Err(RegistryError::Invalid(_))));
        assert_eq!(seat.registry.whereis(name), None);
    }
    let metadata = Metadata::new().label("key", "v").data(vec![0; Metadata::BYTES_MAX]);
    let refused = seat.registry.register_with("x", &mailbox, metadata, TIME).await.unwrap_err().to_string();
    assert!(refused.contains("16388 bytes") && refused.contains("16384"), "{refused}");
    let long = "r".repeat(REGISTRY_NAME_BYTES_MAX + 1);
    let refused = seat.cluster.registry_over(&long, None).await.unwrap_err().to_string();
    assert!(refused.contains("201 bytes") && refused.contains("shorten"), "{refused}");
    assert_eq!(sim.env.now(), start);
    seat.link.heal();
    let longest = seat.cluster.registry_over(&long[1..], None).await.unwrap();
    longest.ready(TIME).await.unwrap();
    let name = "n".repeat(Name::BYTES_MAX);
    let metadata = Metadata::new().data(vec![0; Metadata::BYTES_MAX]);
    let _registered = longest.register_with(&name, &mailbox, metadata, TIME).await.unwrap();
    assert_eq!(longest.whereis(&name).unwrap().metadata().data.len(), Metadata::BYTES_MAX);
}
