//! Messages to names: what is delivered, what is refused, and how that is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_registry::{RegistryError, Undelivered, mailbox};

use crate::{
    fleet::{Fleet, eventually},
    sim::{Sim, TIME},
};

/// Why a message was not delivered.
fn why(result: Result<impl std::fmt::Debug, RegistryError>) -> Undelivered {
    match result {
        Err(RegistryError::Undelivered { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    item: String,
    count: u32,
}

#[tokio::test(start_paused = true)]
async fn a_mailbox_takes_messages_of_its_type_only() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (mailbox, mut inbox) = mailbox::<Order, String>(4);
    let _registered = seats[1].registry.register("orders", &mailbox).await.unwrap();
    for seat in &seats {
        let refused = why(seat.registry.send("orders", &"no order".to_owned()).await);
        assert!(matches!(refused, Undelivered::NotUnderstood(_)), "{refused}");
        let order = Order { item: "tea".into(), count: 2 };
        seat.registry.send("orders", &order).await.unwrap();
        let letter = inbox.recv().await.unwrap();
        assert!(letter.message == order && !letter.wants_reply());
        letter.reply(&"nobody hears it".into()).unwrap();
        // An answer of another type than the caller takes it for.
        let answering = async {
            let letter = inbox.recv().await.unwrap();
            assert!(letter.wants_reply());
            letter.reply(&"done".into()).unwrap();
        };
        let (strange, ()) = tokio::join!(seat.registry.call::<_, u64>("orders", &order, TIME), answering);
        assert!(
            matches!(&strange, Err(RegistryError::Invalid(words)) if words.contains("orders")),
            "{strange:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_a_closed_one_and_a_name_that_nobody_has_are_told_apart() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (mailbox, mut inbox) = mailbox::<u64, ()>(1);
    let registered = seats[1].registry.register("x", &mailbox).await.unwrap();
    for seat in &seats {
        let unknown = seat.registry.send("nobody", &1_u64).await;
        assert!(matches!(unknown, Err(RegistryError::NotRegistered { .. })), "{unknown:?}");
        seat.registry.send("x", &1_u64).await.unwrap();
        let full = seat.registry.send("x", &2_u64).await;
        assert!(full.as_ref().unwrap_err().is_transient());
        assert_eq!(why(full), Undelivered::Full);
        assert_eq!(inbox.recv().await.unwrap().message, 1);
    }
    // Nobody takes anything out of it any more.
    drop(inbox);
    for seat in &seats {
        assert_eq!(why(seat.registry.send("x", &1_u64).await), Undelivered::Closed);
    }
    drop(registered);
    sim.until("free", || !seats[0].knows("x")).await;
    assert!(seats[0].registry.send("?\u{0}", &1_u64).await.is_err(), "no name at all");
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_dropped_says_so_and_one_that_is_kept_times_out() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (mailbox, mut inbox) = mailbox::<u64, u64>(4);
    let _registered = seats[1].registry.register("x", &mailbox).await.unwrap();
    let mut kept = Vec::new();
    for seat in &seats {
        let start = sim.env.now();
        let calling = seat.registry.call::<_, u64>("x", &1_u64, TIME);
        let (unanswered, ()) = tokio::join!(calling, async { drop(inbox.recv().await) });
        assert!(matches!(unanswered, Err(RegistryError::Unanswered { .. })), "{unanswered:?}");
        assert!(sim.env.now() - start < Duration::from_secs(1), "at once");
        let calling = seat.registry.call::<_, u64>("x", &1_u64, TIME);
        let (late, letter) = tokio::join!(calling, inbox.recv());
        assert!(matches!(late, Err(RegistryError::TimedOut { .. })), "{late:?}");
        kept.extend(letter);
    }
    for letter in kept {
        // Too late: nobody waits, and nobody else gets it.
        letter.reply(&9).unwrap();
    }
    let answering = async { inbox.recv().await.unwrap().reply(&2).unwrap() };
    let (answer, ()) = tokio::join!(seats[0].registry.call::<_, u64>("x", &1_u64, TIME), answering);
    assert_eq!(answer.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_process_that_is_no_more_answers_no_call_of_its_successor() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (mailbox, mut inbox) = mailbox::<u64, u64>(4);
    let _registered = seats[0].registry.register("x", &mailbox).await.unwrap();
    let registry = seats[1].registry.clone();
    sim.until("known", || seats[1].knows("x")).await;
    let calling = tokio::spawn(async move { registry.call::<_, u64>("x", &1_u64, TIME).await });
    let old = inbox.recv().await.unwrap();
    calling.abort();
    seats[1].cluster.leave().await;
    seats[1].kill();
    let again = sim.seat("n1").await;
    let registry = again.registry.clone();
    let calling = tokio::spawn(async move { registry.call::<_, u64>("x", &2_u64, TIME).await });
    let new = inbox.recv().await.unwrap();
    old.reply(&1).unwrap();
    sim.env.sleep(Duration::from_millis(100)).await;
    new.reply(&2).unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn messages_from_one_sender_arrive_in_order() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let (mailbox, mut inbox) = mailbox::<u64, ()>(2000);
    let _registered = seats[1].registry.register("x", &mailbox).await.unwrap();
    sim.until("known", || seats[0].knows("x")).await;
    let mut sending = Vec::new();
    for number in 0..1000_u64 {
        let registry = seats[0].registry.clone();
        sending.push(tokio::spawn(async move { registry.send("x", &number).await }));
    }
    for sent in sending {
        sent.await.unwrap().unwrap();
    }
    for number in 0..1000 {
        assert_eq!(inbox.recv().await.unwrap().message, number);
    }
    assert!(sim.net.sent("n0", "n1") < 500, "many go as one");
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_name_that_has_moved_reaches_its_new_owner() {
    let sim = Sim::new();
    let seats = sim.seats(4).await;
    let (old, _old_inbox) = seats[1].register("x").await.unwrap();
    sim.until("known", || seats[2].knows("x")).await;
    // From now on this one does not hear what happens, nor what the leader would answer.
    sim.net.hold("n0", "n2");
    old.unregister(TIME).await.unwrap();
    let (_new, mut inbox) = seats[3].register("x").await.unwrap();
    assert_eq!(seats[2].owner_of("x").as_deref(), Some("n1"), "it knows no better");
    let start = sim.env.now();
    let late = seats[2].registry.call::<_, u64>("x", &4_u64, Duration::from_millis(100)).await;
    assert!(late.is_err() && sim.env.now() - start <= Duration::from_millis(100), "{late:?}");
    let answering = async { inbox.recv().await.unwrap().reply(&6).unwrap() };
    let (answer, ()) = tokio::join!(seats[2].registry.call::<_, u64>("x", &5_u64, 6 * TIME), answering);
    assert_eq!(answer.unwrap(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_name_whose_owner_is_gone_reaches_its_new_owner() {
    let sim = Sim::new();
    let seats = sim.seats(4).await;
    let _old = seats[1].register("x").await.unwrap();
    sim.until("known", || seats[2].knows("x")).await;
    sim.net.hold("n0", "n2");
    seats[1].cluster.leave().await;
    seats[1].kill();
    sim.until("free", || !seats[3].knows("x")).await;
    let (_new, mut inbox) = seats[3].register("x").await.unwrap();
    assert_eq!(seats[2].owner_of("x").as_deref(), Some("n1"), "it knows no better");
    let answering = async { inbox.recv().await.unwrap().reply(&6).unwrap() };
    let (answer, ()) = tokio::join!(seats[2].registry.call::<_, u64>("x", &5_u64, 6 * TIME), answering);
    assert_eq!(answer.unwrap(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_process_calls_itself_and_one_without_links_is_told_what_to_do() {
    let sim = Sim::new();
    let seats = sim.seats(1).await;
    let lonely = sim.seat_without_links("lonely").await;
    let task = |mut inbox: tenure_registry::Inbox<u64, u64>| async move {
        while let Some(letter) = inbox.recv().await {
            let twice = letter.message * 2;
            letter.reply(&twice).unwrap();
        }
    };
    let _mine = lonely.registry.spawn("mine", 4, task).await.unwrap();
    assert_eq!(lonely.registry.call::<_, u64>("mine", &4_u64, TIME).await.unwrap(), 8);
    let _theirs = seats[0].registry.spawn("theirs", 4, task).await.unwrap();
    sim.until("known", || lonely.knows("theirs") && seats[0].knows("mine")).await;
    assert_eq!(seats[0].registry.call::<_, u64>("theirs", &5_u64, TIME).await.unwrap(), 10);
    for (from, name) in [(&lonely, "theirs"), (&seats[0], "mine")] {
        let refused = from.registry.send(name, &1_u64).await.unwrap_err();
        assert!(!refused.is_transient() && refused.to_string().contains("links"), "{refused}");
        assert!(matches!(refused, RegistryError::Undelivered { why: Undelivered::NoWay(_), .. }));
    }
}

#[tokio::test]
async fn large_messages_pass_links_and_larger_ones_are_refused() {
    let nodes = Fleet::new().nodes(2).await;
    let most = nodes[0].cluster.links().unwrap().message_bytes_max();
    let task = |mut inbox: tenure_registry::Inbox<(usize, String), String>| async move {
        while let Some(letter) = inbox.recv().await {
            let answer = "y".repeat(letter.message.0);
            // One that is too large is not answered.
            let _ = letter.reply(&answer);
        }
    };
    let _spawned = nodes[1].registry.spawn("x", 4, task).await.unwrap();
    eventually("known", || nodes[0].registry.whereis("x").is_some()).await;
    let call = async |send: usize, receive: usize| {
        let message = (receive, "x".repeat(send));
        nodes[0].registry.call::<_, String>("x", &message, Duration::from_secs(10)).await
    };
    assert_eq!(call(most - 1000, 1).await.unwrap().len(), 1);
    assert_eq!(call(1, most - 1000).await.unwrap().len(), most - 1000);
    let refused = call(most + 1, 1).await.unwrap_err();
    assert!(refused.to_string().contains("bytes") && !refused.is_transient(), "{refused}");
    assert!(!refused.to_string().contains("give both nodes links"), "{refused}");
    let unanswered = call(1, most + 1).await.unwrap_err();
    assert!(matches!(unanswered, RegistryError::Unanswered { .. }), "{unanswered}");
    assert_eq!(call(1, 5).await.unwrap().len(), 5, "the way is still open");
}

#[tokio::test]
async fn messages_over_links_arrive_in_order() {
    let nodes = Fleet::new().nodes(2).await;
    let (mailbox, mut inbox) = mailbox::<u64, ()>(500);
    let _registered = nodes[1].registry.register("x", &mailbox).await.unwrap();
    eventually("known", || nodes[0].registry.whereis("x").is_some()).await;
    let sending: Vec<_> = (0..300_u64)
        .map(|number| {
            let registry = nodes[0].registry.clone();
            tokio::spawn(async move { registry.send("x", &number).await.unwrap() })
        })
        .collect();
    for number in 0..300 {
        assert_eq!(inbox.recv().await.unwrap().message, number);
    }
    for sent in sending {
        sent.await.unwrap();
    }
}
