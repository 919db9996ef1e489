//! Nothing grows without end.

use std::time::Duration;

use tenure_cluster::peer::{LinkSettings, Outcome, SendError};
use tenure_store::{Env, Name};
use tenure_testbed::Proxy;
use tokio::task::JoinSet;

use crate::fleet::{Node, hung, introduce, name, pair, peer, receive, receive_text, settings, silent};

/// As many messages as wait for one peer, as `outgoing` has it.
const QUEUE: usize = 256;

/// As many as are taken out of the queue to be sent, as `link` has it.
const SENT: usize = 64;

/// What came of many messages that were sent at once.
async fn outcomes(from: &Node, to: &Name, bodies: Vec<Vec<u8>>) -> Vec<Outcome> {
    let mut sends = JoinSet::new();
    for body in bodies {
        let (links, to) = (from.links.clone(), to.clone());
        sends.spawn(async move {
            match links.send(&to, &name("t"), body).await {
                Ok(()) => Outcome::Delivered,
                Err(SendError::NotDelivered { outcome, .. }) => outcome,
                Err(error) => panic!("{error}"),
            }
        });
    }
    sends.join_all().await
}

fn refused(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Refused(_))).count()
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_at_once() {
    let small = LinkSettings { message_bytes_max: 1000, ..settings() };
    let (a, b) = pair(small, settings()).await;
    let mut subscription = b.subscribe("t");
    let error = a.links.send(&b.name(), &name("t"), vec![1; 1001]).await.unwrap_err();
    assert_eq!(error, SendError::TooLarge { topic: name("t"), size: 1001, limit: 1000 });
    let words = error.to_string();
    assert!(words.contains("1001 bytes") && words.contains("1000"), "{words}");
    let error = a.links.broadcast(&name("t"), vec![1; 1001]).await.unwrap_err();
    assert_eq!(error, SendError::TooLarge { topic: name("t"), size: 1001, limit: 1000 });
    silent(&mut subscription).await;
    a.links.send(&b.name(), &name("t"), vec![1; 1000]).await.unwrap();
    assert_eq!(receive(&mut subscription).await.body.len(), 1000);
}

#[tokio::test]
async fn the_largest_message_arrives() {
    let (a, b) = pair(settings(), settings()).await;
    let topic: Name = "t".repeat(Name::BYTES_MAX).parse().unwrap();
    let mut subscription = b.links.subscribe(&topic);
    let body: Vec<u8> = (0..1024 * 1024).map(|index| u8::try_from(index % 251).unwrap()).collect();
    a.links.send(&b.name(), &topic, body.clone()).await.unwrap();
    assert_eq!(receive(&mut subscription).await.body, body);
}

#[tokio::test]
async fn a_peer_that_takes_less_is_not_sent_more() {
    let (a, b) = pair(settings(), LinkSettings { message_bytes_max: 1000, ..settings() }).await;
    let mut subscription = b.subscribe("t");
    let error = a.links.send(&b.name(), &name("t"), vec![1; 1001]).await.unwrap_err().to_string();
    assert!(error.contains("1001 bytes") && error.contains("at most 1000"), "{error}");
    a.links.send(&b.name(), &name("t"), vec![1; 1000]).await.unwrap();
    assert_eq!(receive(&mut subscription).await.body.len(), 1000);
}

#[tokio::test]
async fn only_so_much_waits_for_a_peer_that_hangs() {
    let brief = LinkSettings { deadline: Duration::from_secs(2), ..settings() };
    let (a, b) = pair(brief, settings()).await;
    let (_hung, address) = hung();
    a.book.learn(peer("hung", Some(address.clone())));
    a.book.learn(peer("hung too", Some(address)));
    let many = outcomes(&a, &name("hung"), vec![vec![0]; 1000]).await;
    let waited = many.iter().filter(|outcome| **outcome == Outcome::TimedOut).count();
    assert!((QUEUE..=QUEUE + SENT).contains(&waited), "{waited} waited");
    assert_eq!(waited + refused(&many), 1000);
    // In bytes too: four of the largest.
    let large = outcomes(&a, &name("hung too"), vec![vec![0; 1024 * 1024]; 6]).await;
    assert_eq!(refused(&large), 2, "{large:?}");
    // And nobody else is concerned.
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "fine").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "fine");
}

#[tokio::test]
async fn a_full_inbox_takes_no_more_and_delays_nobody() {
    let (a, b) = pair(settings(), LinkSettings { inbox_messages: 3, ..settings() }).await;
    let (mut slow, mut other) = (b.subscribe("slow"), b.subscribe("other"));
    for number in 0..3 {
        a.send(&b, "slow", &number.to_string()).await.unwrap();
    }
    let outcome = a.fail(&b, "slow", "too much").await;
    assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("inbox")), "{outcome}");
    a.send(&b, "other", "fine").await.unwrap();
    assert_eq!(receive_text(&mut other).await, "fine");
    assert_eq!(receive_text(&mut slow).await, "0");
    a.send(&b, "slow", "again").await.unwrap();
    for text in ["1", "2", "again"] {
        assert_eq!(receive_text(&mut slow).await, text);
    }
    silent(&mut slow).await;
}

#[tokio::test]
async fn an_inbox_is_bounded_in_bytes() {
    let small = LinkSettings { message_bytes_max: 1000, ..settings() };
    let (a, b) = pair(small.clone(), small).await;
    let mut subscription = b.subscribe("t");
    for _ in 0..8 {
        a.links.send(&b.name(), &name("t"), vec![0; 1000]).await.unwrap();
    }
    let error = a.links.send(&b.name(), &name("t"), vec![0; 1000]).await.unwrap_err().to_string();
    assert!(error.contains("inbox"), "{error}");
    receive(&mut subscription).await;
    a.links.send(&b.name(), &name("t"), vec![0; 1000]).await.unwrap();
}

#[tokio::test]
async fn a_slow_subscription_takes_nothing_from_another() {
    let (a, b) = pair(settings(), LinkSettings { inbox_messages: 1, ..settings() }).await;
    let (_slow, mut fast) = (b.subscribe("t"), b.subscribe("t"));
    for number in 0..5 {
        a.send(&b, "t", &number.to_string()).await.unwrap();
        assert_eq!(receive_text(&mut fast).await, number.to_string());
    }
}

#[tokio::test]
async fn an_idle_link_gives_way_to_another() {
    let a = Node::start("a", LinkSettings { links_max: 1, ..settings() }).await;
    let (b, c) = (Node::start("b", settings()).await, Node::start("c", settings()).await);
    introduce(&[&a, &b, &c]);
    let (mut at_b, mut at_c) = (b.subscribe("t"), c.subscribe("t"));
    for round in 0..3 {
        let text = round.to_string();
        a.send(&b, "t", &text).await.unwrap();
        assert_eq!(receive_text(&mut at_b).await, text);
        a.send(&c, "t", &text).await.unwrap();
        assert_eq!(receive_text(&mut at_c).await, text);
    }
    // One that is in use does not.
    let (_hung, address) = hung();
    a.book.learn(peer("hung", Some(address)));
    let links = a.links.clone();
    let waiting = tokio::spawn(async move { links.send(&name("hung"), &name("t"), "?").await });
    Env::system().sleep(Duration::from_millis(200)).await;
    let outcome = a.fail(&b, "t", "?").await;
    assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("links_max")), "{outcome}");
    waiting.abort();
}

#[tokio::test]
async fn a_listener_takes_only_so_many_links() {
    // Longer than the longest pause between two attempts.
    let brief = LinkSettings { deadline: Duration::from_secs(3), ..settings() };
    let (a, c) = (Node::start("a", brief.clone()).await, Node::start("c", brief).await);
    let b = Node::start("b", LinkSettings { links_max: 1, ..settings() }).await;
    introduce(&[&a, &b, &c]);
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "first").await.unwrap();
    let outcome = c.fail(&b, "t", "second").await;
    assert!(matches!(&outcome, Outcome::Unreachable(reason) if reason.contains("links_max")), "{outcome}");
    a.links.shutdown().await;
    c.send(&b, "t", "third").await.unwrap();
    for text in ["first", "third"] {
        assert_eq!(receive_text(&mut subscription).await, text);
    }
}

#[tokio::test]
async fn an_idle_link_is_closed_and_opened_again() {
    let (a, b) = pair(LinkSettings { idle: Duration::from_millis(200), ..settings() }, settings()).await;
    let proxy = Proxy::start(b.links.address().port()).unwrap();
    let mut there = b.me();
    there.address = Some(format!("127.0.0.1:{}", proxy.port()));
    a.book.learn(there);
    let mut subscription = b.subscribe("t");
    for text in ["one", "two"] {
        a.send(&b, "t", text).await.unwrap();
        assert_eq!(receive_text(&mut subscription).await, text);
        Env::system().sleep(Duration::from_millis(600)).await;
        let before = proxy.cuts();
        proxy.cut();
        assert_eq!(proxy.cuts(), before, "there was a connection to cut");
    }
}
