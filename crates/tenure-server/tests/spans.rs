//! Spans follow a message from its sender to its effects. Apart from other tests, since processes decide once for all threads which spans are heard.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::{sync::Arc, time::Duration};

use fleet::*;
use parking_lot::Mutex;
use tracing::{Event, Metadata, Subscriber, field, span};

/// A span: its name, and its message.
type Span = (&'static str, Option<u64>);

/// The spans that were made.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name().starts_with("server.")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut message = MessageOf(None);
        attributes.record(&mut message);
        self.0.lock().push((attributes.metadata().name(), message.0));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct MessageOf(Option<u64>);

impl field::Visit for MessageOf {
    fn record_u64(&mut self, field: &field::Field, value: u64) {
        if field.name() == "message" {
            self.0 = Some(value);
        }
    }

    fn record_debug(&mut self, _: &field::Field, _: &dyn std::fmt::Debug) {}
}

#[tokio::test(start_paused = true)]
async fn spans_follow_a_message_to_its_work_and_its_effect() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    for (say, last) in [(Say::Effect("x".into()), "server.effect"), (Say::Lock("x".into()), "server.locked")]
    {
        let spans = Spans::default();
        let _heard = tracing::subscriber::set_default(spans.clone());
        client.journal("j").call(say).await.unwrap();
        fleet.env.sleep(Duration::from_secs(1)).await;
        let spans = spans.0.lock().clone();
        assert!(
            ["server.call", "server.handle", last].iter().all(|name| spans.iter().any(|it| it.0 == *name))
        );
        assert!(spans[0].1.is_some() && spans.iter().all(|it| it.1 == spans[0].1), "{spans:?}");
    }
}
