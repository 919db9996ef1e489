//! Messages from one node to another arrive in order, once, whatever breaks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure_cluster::peer::LinkSettings;
use tenure_store::Env;
use tenure_testbed::{Proxy, ProxyFaults};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    fleet::{Node, introduce, name, pair, receive_text, settings, silent},
    forger,
};

/// Less than wait for one peer at once.
const MESSAGES: usize = 200;

/// Sends many messages without waiting in between, in order: tasks of one thread are first polled as they were spawned.
fn send_all(from: &Node, to: &Node, messages: std::ops::Range<usize>) -> JoinSet<()> {
    let mut sends = JoinSet::new();
    for number in messages {
        let (links, to) = (from.links.clone(), to.name());
        sends.spawn(async move { links.send(&to, &name("t"), number.to_string()).await.unwrap() });
    }
    sends
}

#[tokio::test]
async fn a_pair_keeps_the_order() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    let sends = send_all(&a, &b, 0..MESSAGES);
    for number in 0..MESSAGES {
        assert_eq!(receive_text(&mut subscription).await, number.to_string());
    }
    sends.join_all().await;
    silent(&mut subscription).await;
}

#[tokio::test]
async fn both_directions_work_at_once() {
    let (a, b) = pair(settings(), settings()).await;
    let (mut at_a, mut at_b) = (a.subscribe("t"), b.subscribe("t"));
    let sends = [send_all(&a, &b, 0..50), send_all(&b, &a, 50..100)];
    for number in 0..50 {
        assert_eq!(receive_text(&mut at_b).await, number.to_string());
        assert_eq!(receive_text(&mut at_a).await, (number + 50).to_string());
    }
    for sends in sends {
        sends.join_all().await;
    }
}

#[tokio::test]
async fn the_order_outlives_broken_links() {
    let a = Node::start("a", settings()).await;
    let b = Node::start("b", LinkSettings { inbox_messages: 4096, ..settings() }).await;
    introduce(&[&a, &b]);
    let proxy = Arc::new(Proxy::start(b.links.address().port()).unwrap());
    let mut there = b.me();
    there.address = Some(format!("127.0.0.1:{}", proxy.port()));
    a.book.learn(there);
    let mut subscription = b.subscribe("t");
    let env = Env::system();
    let mut expected = 0;
    for round in 0..20 {
        // Now and then, and not at the same point of the conversation. What was tried three times in vain is sent no more: never that often.
        proxy.set_faults(ProxyFaults { request: 0.02, answer: 0.02 });
        let sends = send_all(&a, &b, expected..expected + 10);
        env.sleep(Duration::from_millis(round % 7)).await;
        proxy.cut();
        proxy.set_faults(ProxyFaults::default());
        for _ in 0..10 {
            assert_eq!(receive_text(&mut subscription).await, expected.to_string());
            expected += 1;
        }
        sends.join_all().await;
    }
    silent(&mut subscription).await;
    assert!(proxy.cuts() > 5, "{} cuts", proxy.cuts());
}

#[tokio::test]
async fn what_an_older_link_held_back_is_not_delivered_any_more() {
    let (a, b) = pair(LinkSettings { deadline: Duration::from_secs(2), ..settings() }, settings()).await;
    let mut subscription = b.subscribe("t");
    let to = b.links.address().to_string();
    let streams = AtomicUsize::new(0);
    let (cut, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = (Arc::clone(&cut), Arc::clone(&release));
    // A letter on the first stream is held back while that is cut on one side; others are passed on at once.
    let address = forger::listen(move |mut said, answers| {
        let first = streams.fetch_add(1, Ordering::SeqCst) == 0;
        let (to, (cut, release)) = (to.clone(), signals.clone());
        async move {
            let (pass, mut heard) = forger::open(&to).await;
            let mut answers = Some(answers);
            loop {
                tokio::select! {
                    Ok(Some(said)) = said.message(), if answers.is_some() => {
                        if first && said.letter.is_some() {
                            cut.notified().await;
                            answers = None;
                            release.notified().await;
                        }
                        let _ = pass.send(said).await;
                    }
                    Ok(Some(heard)) = heard.message() => {
                        if let Some(answers) = &answers {
                            let _ = answers.send(Ok(heard)).await;
                        }
                    }
                    else => return,
                }
            }
        }
    })
    .await;
    let mut there = b.me();
    there.address = Some(address);
    a.book.learn(there);
    // Given up before the link is cut, so that it is not sent again.
    let (links, node) = (a.links.clone(), b.name());
    let early = tokio::spawn(async move { links.send(&node, &name("t"), "early").await });
    Env::system().sleep(Duration::from_millis(300)).await;
    early.abort();
    cut.notify_one();
    a.send(&b, "t", "late").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "late");
    release.notify_one();
    silent(&mut subscription).await;
}
