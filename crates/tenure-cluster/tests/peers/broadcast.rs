//! A broadcast reaches whoever can be reached, and tells about the rest.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure_cluster::peer::{LinkSettings, MessageId, Outcome};
use tenure_store::Env;

use crate::{
    fleet::{Node, dead, hung, introduce, name, pair, peer, receive, receive_text, settings, silent},
    forger::{self, Heard},
};

/// Short enough to wait for, long enough for others to be served in a fraction of it.
const DEADLINE: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_or_dead_peer_delays_nobody() {
    let a = Node::start("a", LinkSettings { deadline: DEADLINE, ..settings() }).await;
    let mut others = Vec::new();
    for node in ["b", "c", "d"] {
        others.push(Node::start(node, settings()).await);
    }
    introduce(&[&a, &others[0], &others[1], &others[2]]);
    let (_hung, hung_address) = hung();
    // First and last of all.
    a.book.learn(peer("0 hung", Some(hung_address.clone())));
    a.book.learn(peer("z hung", Some(hung_address)));
    a.book.learn(peer("dead", Some(dead())));
    a.book.learn(peer("silent", None));
    let [mut at_b, mut at_c] = [others[0].subscribe("news"), others[1].subscribe("news")];

    let env = Env::system();
    let start = env.now();
    let links = a.links.clone();
    let broadcast = tokio::spawn(async move { links.broadcast(&name("news"), "all of you").await });
    for subscription in [&mut at_b, &mut at_c] {
        assert_eq!(receive_text(subscription).await, "all of you");
    }
    assert!(env.now() - start < DEADLINE / 2, "{:?} for those who were there", env.now() - start);
    let outcomes = broadcast.await.unwrap().unwrap();
    let took = env.now() - start;
    assert!((DEADLINE..DEADLINE * 3 / 2).contains(&took), "{took:?} in all");

    let kinds: Vec<(&str, &str)> =
        outcomes.iter().map(|(peer, outcome)| (peer.node.as_str(), outcome.kind())).collect();
    let expected = [
        ("0 hung", "timed_out"),
        ("b", "delivered"),
        ("c", "delivered"),
        ("d", "no_subscriber"),
        ("dead", "unreachable"),
        ("silent", "no_address"),
        ("z hung", "timed_out"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(outcomes.get(&name("b")), Some(&Outcome::Delivered));
    assert_eq!(outcomes.get(&name("a")), None, "not to itself");
    assert!(!outcomes.all_delivered());
}

#[tokio::test]
async fn a_dead_peer_is_told_of_before_the_deadline() {
    let (a, b) = pair(settings(), settings()).await;
    let mut gone = b.me();
    gone.address = Some(dead());
    a.book.learn(gone);
    let env = Env::system();
    let start = env.now();
    let outcomes = a.links.broadcast(&name("t"), "?").await.unwrap();
    assert!(matches!(outcomes.get(&b.name()), Some(Outcome::Unreachable(_))), "{outcomes:?}");
    assert!(env.now() - start < Duration::from_secs(5), "{:?}", env.now() - start);
}

#[tokio::test]
async fn all_get_the_same_id() {
    let (a, b) = pair(settings(), settings()).await;
    let c = Node::start("c", settings()).await;
    introduce(&[&a, &b, &c]);
    let (mut at_b, mut at_c) = (b.subscribe("t"), c.subscribe("t"));
    let outcomes = a.links.broadcast(&name("t"), "x").await.unwrap();
    assert!(outcomes.all_delivered() && outcomes.len() == 2, "{outcomes:?}");
    assert_eq!(receive(&mut at_b).await.id, outcomes.id());
    assert_eq!(receive(&mut at_c).await.id, outcomes.id());
}

#[tokio::test]
async fn nothing_is_delivered_twice() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    let id = MessageId::random(&Env::system());
    let first = a.links.broadcast_as(id, &name("t"), "once").await.unwrap();
    assert_eq!(first.get(&b.name()), Some(&Outcome::Delivered));
    let again = a.links.broadcast_as(id, &name("t"), "once").await.unwrap();
    assert_eq!(again.get(&b.name()), Some(&Outcome::Duplicate));
    assert!(again.all_delivered());
    // From another node too.
    let c = Node::start("c", settings()).await;
    introduce(&[&a, &b, &c]);
    let again = c.links.broadcast_as(id, &name("t"), "once").await.unwrap();
    assert_eq!(again.get(&b.name()), Some(&Outcome::Duplicate));
    assert_eq!(receive_text(&mut subscription).await, "once");
    silent(&mut subscription).await;
}

#[tokio::test]
async fn what_was_not_confirmed_is_sent_again_with_the_same_id() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    // Cuts the first link when it would confirm.
    let cut = Arc::new(AtomicBool::new(false));
    let cutting = Arc::clone(&cut);
    let back = move |heard: Heard| {
        let first = heard.receipt.is_some() && !cutting.swap(true, Ordering::SeqCst);
        (!first).then_some(heard)
    };
    let mut there = b.me();
    there.address = Some(forger::relay(b.links.address().to_string(), forger::unchanged, back).await);
    a.book.learn(there);
    let outcomes = a.links.broadcast(&name("t"), "once").await.unwrap();
    assert!(cut.load(Ordering::SeqCst));
    assert_eq!(outcomes.get(&b.name()), Some(&Outcome::Duplicate));
    assert_eq!(receive(&mut subscription).await.id, outcomes.id());
    silent(&mut subscription).await;
}

#[tokio::test]
async fn what_nobody_took_is_not_remembered() {
    let (a, b) = pair(settings(), settings()).await;
    let id = MessageId::random(&Env::system());
    let first = a.links.broadcast_as(id, &name("t"), "x").await.unwrap();
    assert_eq!(first.get(&b.name()), Some(&Outcome::NoSubscriber));
    let mut subscription = b.subscribe("t");
    let again = a.links.broadcast_as(id, &name("t"), "x").await.unwrap();
    assert_eq!(again.get(&b.name()), Some(&Outcome::Delivered));
    assert_eq!(receive_text(&mut subscription).await, "x");
}

#[tokio::test]
async fn an_id_is_forgotten_after_the_window() {
    let brief = LinkSettings {
        deadline: Duration::from_millis(200),
        duplicates_window: Duration::from_millis(400),
        ..settings()
    };
    let (a, b) = pair(settings(), brief).await;
    let mut subscription = b.subscribe("t");
    let id = MessageId::random(&Env::system());
    for _ in 0..2 {
        let outcomes = a.links.broadcast_as(id, &name("t"), "x").await.unwrap();
        assert_eq!(outcomes.get(&b.name()), Some(&Outcome::Delivered));
        assert_eq!(receive_text(&mut subscription).await, "x");
        Env::system().sleep(Duration::from_millis(450)).await;
    }
}
