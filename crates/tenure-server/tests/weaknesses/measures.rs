//! 18: what is counted.

use std::{collections::BTreeMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tenure_server::CallOptions;

use crate::fleet::{Fleet, Say, World, status, until, word};

/// What was counted of one kind.
fn counted(snapshotter: &Snapshotter, kind: &str) -> BTreeMap<String, f64> {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let of_kind = metrics.filter(|(key, ..)| key.key().labels().any(|label| label.value() == kind));
    let values = of_kind.map(|(key, _, _, value)| {
        #[allow(clippy::cast_precision_loss, reason = "a test counts to some hundreds")]
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        (key.key().name().to_owned(), value)
    });
    values.collect()
}

#[tokio::test(start_paused = true)]
async fn w18_what_servers_do_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World { effects_failing: 2.into(), ..World::default() });
    let journal = client.journal("j");
    journal.call_with(word("one"), CallOptions::default().idempotency_key("k")).await.unwrap();
    journal.cast_all((0..50).map(|_| word("more"))).await.unwrap();
    journal.cast_all([Say::Effect("mail".into()), Say::Panic("bad".into())]).await.unwrap();
    until(&fleet.env, || async { status(&journal).await.died == 1 }).await;
    fleet.env.sleep(Duration::from_secs(1400)).await;
    let found = counted(&snapshotter, "journal");
    let of = |name: &str| found.get(&format!("tenure_server_{name}")).copied().unwrap_or_default();
    assert_eq!(
        (of("dead_letters_total"), of("effects_failed_total"), of("swept_total")),
        (1.0, 2.0, 2.0),
        "{found:?}"
    );
    // 52 that were handled, and five attempts of one that failed.
    assert_eq!((of("messages_total"), of("callback_seconds") >= 57.0), (57.0, true), "{found:?}");
    assert!(of("commits_total") < 15.0 && of("commits_total") == of("batch_messages"), "{found:?}");
    assert!(
        of("call_seconds") == 1.0 && of("queue_messages") > 0.0 && of("queue_seconds") > 0.0,
        "{found:?}"
    );
    assert!(of("loads_total") >= 1.0 && found.contains_key("tenure_server_cached"), "{found:?}");
    assert_eq!(
        (of("conflicts_total"), of("slow_callbacks_total"), of("unsent_total")),
        (0.0, 0.0, 0.0),
        "{found:?}"
    );
}
