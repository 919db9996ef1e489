//! A message is from one session to one session.

use std::time::Duration;

use tenure_cluster::peer::{LinkSettings, Outcome, SendError, Sender};
use tenure_store::Env;

use crate::fleet::{introduce, name, pair, receive, receive_text, settings, silent};

#[tokio::test]
async fn a_message_names_its_sender() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "hello").await.unwrap();
    let message = receive(&mut subscription).await;
    assert_eq!(message.from, Sender { node: a.name(), session: a.me().session });
    assert_eq!((message.topic, &message.body[..]), (name("t"), &b"hello"[..]));
}

#[tokio::test]
async fn nothing_for_an_earlier_incarnation_reaches_the_later_one() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    b.rejoin();
    assert_eq!(a.fail(&b, "t", "on a new link").await, Outcome::WrongSession);
    introduce(&[&a, &b]);
    a.send(&b, "t", "for the present session").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "for the present session");

    b.rejoin();
    assert_eq!(a.fail(&b, "t", "on an open link").await, Outcome::WrongSession);
    silent(&mut subscription).await;
    introduce(&[&a, &b]);
    a.send(&b, "t", "again").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "again");
}

#[tokio::test]
async fn what_waits_in_an_inbox_is_not_for_the_next_session() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "too late").await.unwrap();
    b.rejoin();
    introduce(&[&a, &b]);
    a.send(&b, "t", "in time").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "in time");
}

#[tokio::test]
async fn nothing_from_an_earlier_incarnation_is_taken_once_a_later_one_is_known() {
    let brief = LinkSettings { deadline: Duration::from_millis(500), ..settings() };
    let (a, b) = pair(brief, settings()).await;
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "before").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "before");
    let earlier = a.me();
    // As if the node had been restarted elsewhere, and this process had not noticed: its link is open.
    let mut later = earlier.clone();
    later.session = b.me().session;
    b.book.learn(later.clone());
    let outcome = a.fail(&b, "t", "from the past, on an open link").await;
    assert!(matches!(outcome, Outcome::Unreachable(_) | Outcome::TimedOut), "{outcome}");
    // And on a new one.
    let outcome = a.fail(&b, "t", "from the past").await;
    assert!(matches!(outcome, Outcome::Unreachable(_) | Outcome::TimedOut), "{outcome}");
    silent(&mut subscription).await;
    a.rejoin();
    introduce(&[&a, &b]);
    a.send(&b, "t", "from the present").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "from the present");
}

#[tokio::test]
async fn a_sender_that_is_not_known_yet_waits_until_it_is() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    b.book.forget(&a.name());
    let (links, to) = (a.links.clone(), b.name());
    let sent = tokio::spawn(async move { links.send(&to, &name("t"), "early").await });
    Env::system().sleep(Duration::from_millis(300)).await;
    assert!(!sent.is_finished());
    introduce(&[&a, &b]);
    sent.await.unwrap().unwrap();
    assert_eq!(receive_text(&mut subscription).await, "early");
}

#[tokio::test]
async fn a_node_sends_to_itself_without_a_link() {
    let (a, b) = pair(settings(), settings()).await;
    assert_eq!(a.fail(&a, "t", "nobody").await, Outcome::NoSubscriber);
    let mut subscription = a.subscribe("t");
    a.send(&a, "t", "me").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "me");
    drop(b);
}

#[tokio::test]
async fn who_is_no_member_is_named() {
    let (a, b) = pair(settings(), settings()).await;
    a.book.forget(&b.name());
    let error = a.send(&b, "t", "?").await.unwrap_err();
    assert_eq!(error, SendError::NotAMember { to: b.name(), topic: name("t") });
}

#[tokio::test]
async fn another_node_at_the_address_takes_nothing() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    let mut wrong = a.me();
    (wrong.node, wrong.address) = (name("c"), b.me().address);
    a.book.learn(wrong);
    let error = a.links.send(&name("c"), &name("t"), "for c").await.unwrap_err().to_string();
    assert!(error.contains("at the address of c") && error.contains("\"b\""), "{error}");
    silent(&mut subscription).await;
}
