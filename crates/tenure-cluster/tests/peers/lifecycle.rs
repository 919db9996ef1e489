//! What is left when links end: nothing.

use std::{io::Write as _, net::TcpStream, sync::Arc, time::Duration};

use tenure_cluster::peer::{BoundLinks, LinkError, LinkSettings, Outcome, SendError};
use tenure_store::Env;

use crate::fleet::{Node, ended, hung, introduce, name, pair, peer, receive_text, settings, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_everything() {
    let (a, b) = pair(settings(), settings()).await;
    let (_hung, address) = hung();
    b.book.learn(peer("hung", Some(address)));
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "left over").await.unwrap();
    let mut at_a = a.subscribe("t");
    b.send(&a, "t", "x").await.unwrap();
    assert_eq!(receive_text(&mut at_a).await, "x");
    let links = b.links.clone();
    let waiting = tokio::spawn(async move { links.send(&name("hung"), &name("t"), "?").await });
    Env::system().sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "it waits for the one that hangs");

    // One that begins to speak HTTP/2 and then is silent would be waited for.
    let mut stranger = TcpStream::connect(b.links.address()).unwrap();
    stranger.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    Env::system().sleep(Duration::from_millis(100)).await;
    let shutdown = Env::system().timeout(Duration::from_secs(4), b.links.shutdown()).await;
    shutdown.unwrap();
    let waited = waiting.await.unwrap().unwrap_err();
    assert!(
        matches!(
            &waited,
            SendError::NotDelivered { outcome: Outcome::Unreachable(_), .. } | SendError::Closed { .. }
        ),
        "{waited}"
    );
    assert_eq!(receive_text(&mut subscription).await, "left over");
    ended(&mut subscription).await;
    ended(&mut b.subscribe("t")).await;
    assert_eq!(b.send(&a, "t", "?").await, Err(SendError::Closed { topic: name("t") }));
    assert!(b.links.broadcast(&name("t"), "?").await.is_err());
    assert!(TcpStream::connect(b.links.address()).is_err(), "nobody listens");
    let outcome = a.fail(&b, "t", "?").await;
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome}");
    b.links.shutdown().await;
    drop(subscription);
    // Every task is gone, and with the handle all that knew the directory.
    let Node { links, book } = b;
    drop(links);
    assert_eq!(Arc::strong_count(&book), 1);
}

#[tokio::test]
async fn dropping_the_last_handle_ends_everything() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "x").await.unwrap();
    b.send(&a, "t", "x").await.unwrap_err();
    let Node { links, book } = b;
    let (address, clone) = (links.address(), links.clone());
    drop(links);
    assert!(TcpStream::connect(address).is_ok(), "a clone keeps it alive");
    drop(clone);
    assert_eq!(receive_text(&mut subscription).await, "x");
    ended(&mut subscription).await;
    drop(subscription);
    until("all tasks end", || Arc::strong_count(&book) == 1).await;
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn a_node_that_comes_back_is_found_again() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "one").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "one");
    let bind = b.links.address();
    b.links.shutdown().await;
    let b = Node::start("b", LinkSettings { bind, ..settings() }).await;
    introduce(&[&a, &b]);
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "two").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "two");
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let a = Node::start("a", settings()).await;
    let error = BoundLinks::bind(LinkSettings { bind: a.links.address(), ..settings() }).await.unwrap_err();
    assert!(matches!(error, LinkError::Listen { address, .. } if address == a.links.address()), "{error}");
    assert!(error.to_string().contains("choose a free port"), "{error}");
}

#[tokio::test]
async fn an_address_that_is_none_is_named() {
    let a = Node::start("a", settings()).await;
    a.book.learn(peer("b", Some("no address at all".into())));
    let error = a.links.send(&name("b"), &name("t"), "?").await.unwrap_err().to_string();
    assert!(error.contains("not host:port") && error.contains("no address at all"), "{error}");
}
