//! What is counted, and what is never told.

use std::{collections::BTreeMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tenure_cluster::peer::{LinkSettings, MessageId};
use tenure_store::Env;

use crate::fleet::{SECRET, dead, name, pair, peer, receive_text, settings};

/// Metrics by name and labels.
fn recorded(work: impl Future<Output = ()>) -> BTreeMap<String, f64> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work));
    let metrics = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        #[allow(clippy::cast_precision_loss, reason = "a test counts to ten")]
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        (format!("{}{{{}}}", key.key().name(), labels.join(",")), value)
    });
    metrics.collect()
}

#[test]
fn messages_and_links_are_counted() {
    let metrics = recorded(async {
        let (a, b) = pair(LinkSettings { idle: Duration::from_millis(100), ..settings() }, settings()).await;
        a.book.learn(peer("silent", None));
        a.book.learn(peer("dead", Some(dead())));
        let mut subscription = b.subscribe("t");
        let id = MessageId::random(&Env::system());
        for _ in 0..2 {
            a.links.broadcast_as(id, &name("t"), SECRET).await.unwrap();
        }
        receive_text(&mut subscription).await;
        a.send(&b, "t", "x").await.unwrap();
        a.fail(&b, "other", "x").await;
        Env::system().sleep(Duration::from_millis(400)).await;
        a.send(&b, "t", "x").await.unwrap();
        a.links.shutdown().await;
        b.links.shutdown().await;
    });
    assert!(metrics.keys().all(|name| !name.contains(SECRET)), "{metrics:?}");
    let expected = [
        ("tenure_peer_messages_total{outcome=delivered}", 3.0),
        ("tenure_peer_messages_total{outcome=duplicate}", 1.0),
        ("tenure_peer_messages_total{outcome=no_subscriber}", 1.0),
        ("tenure_peer_messages_total{outcome=no_address}", 2.0),
        ("tenure_peer_messages_total{outcome=unreachable}", 2.0),
        ("tenure_peer_broadcasts_total{outcome=delivered}", 1.0),
        ("tenure_peer_broadcasts_total{outcome=duplicate}", 1.0),
        ("tenure_peer_broadcasts_total{outcome=no_address}", 2.0),
        ("tenure_peer_broadcasts_total{outcome=unreachable}", 2.0),
        ("tenure_peer_received_total{outcome=accepted}", 3.0),
        ("tenure_peer_received_total{outcome=duplicate}", 1.0),
        ("tenure_peer_received_total{outcome=no_subscriber}", 1.0),
        ("tenure_peer_duplicates_total{}", 1.0),
        ("tenure_peer_links{direction=out}", 0.0),
        ("tenure_peer_links{direction=in}", 0.0),
    ];
    for (name, expected) in expected {
        assert_eq!(metrics.get(name), Some(&expected), "{name} in {metrics:#?}");
    }
    // One before it was idle, and one after; on a slow machine it was idle more often.
    let opened = ["opener", "listener"]
        .map(|side| metrics[&format!("tenure_peer_handshakes_total{{side={side},outcome=accepted}}")]);
    assert!(opened[0] >= 2.0 && opened[0] == opened[1], "{metrics:#?}");
}
